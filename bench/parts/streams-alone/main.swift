// Event streams at their barest, kept by HTTPEngine's loop or by swift-nio: what the loop gains, without the rest of the
// product (docs/adr/0006). GET opens a stream, POST sends one event to all of them. `streams-alone loop|nio PORT`.

import Foundation
import Glibc
import HTTPEngine
import NIOCore
import NIOPosix

let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
let event = "event: badge\ndata: {\"count\":1,\"version\":4711}" + String(repeating: " ", count: 80) + "\n\n"
let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

protocol Streams {
    func open(_ descriptor: Int32)
    func tellAll()
}

/// The product's loop. Everything happens on its thread, as NIO's does on its own.
final class OwnLoop: Streams, EventStreamOwner, @unchecked Sendable {
    let loop = StreamLoop()
    var streams: [EventStream] = []
    init() { loop.start() }
    func open(_ descriptor: Int32) {
        let socket = TakenSocket(descriptor)
        loop.perform { [self] in
            let stream = loop.open(socket, owner: self)
            stream.send(StreamBytes(head))
            streams.append(stream)
        }
    }
    func tellAll() {
        let bytes = StreamBytes(event)
        loop.perform { [self] in streams.forEach { $0.send(bytes) } }
    }
    func eventStream(_ stream: EventStream, endedWith reason: EventStreamEnd) {
        streams.removeAll { $0 === stream }
    }
}

/// The one handler that any pipeline needs: it notices that the client is gone. No limit of what waits, no heartbeat, no
/// deadline.
final class Ended: ChannelInboundHandler {
    typealias InboundIn = NIOCore.ByteBuffer
    let streams: NIOStreams
    init(_ streams: NIOStreams) { self.streams = streams }
    func channelInactive(context: ChannelHandlerContext) {
        streams.channels[ObjectIdentifier(context.channel)] = nil
    }
}

final class NIOStreams: Streams, @unchecked Sendable {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    var channels: [ObjectIdentifier: any Channel] = [:]
    func open(_ descriptor: Int32) {
        let made = ClientBootstrap(group: group)
            .channelInitializer { [self] channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Ended(self)) }
            }
            .withConnectedSocket(descriptor)
        made.whenSuccess { [self] channel in
            channels[ObjectIdentifier(channel)] = channel
            channel.writeAndFlush(NIOCore.ByteBuffer(string: head), promise: nil)
        }
    }
    func tellAll() {
        let bytes = NIOCore.ByteBuffer(string: event)
        group.next().execute { [self] in
            for channel in channels.values { channel.writeAndFlush(bytes, promise: nil) }
        }
    }
}

nonisolated(unsafe) let streams: any Streams = CommandLine.arguments[1] == "nio" ? NIOStreams() : OwnLoop()
let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
var one: Int32 = 1
setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, 4)
var address = sockaddr_in()
address.sin_family = sa_family_t(AF_INET)
address.sin_port = in_port_t(CommandLine.arguments[2])!.bigEndian
address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
let bound = withUnsafePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listening, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
}
precondition(bound == 0 && listen(listening, 1_024) == 0, "the port can't be listened on")

/// A request is read whole: the subscribers send theirs in one piece. The connection that posts stays open.
func serve(_ descriptor: Int32) {
    var bytes = [UInt8](repeating: 0, count: 16_384)
    while recv(descriptor, &bytes, bytes.count, 0) > 0 {
        if bytes[0] == UInt8(ascii: "G") {
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
            return streams.open(descriptor)
        }
        streams.tellAll()
        _ = answer.withCString { send(descriptor, $0, strlen($0), Int32(MSG_NOSIGNAL)) }
    }
    close(descriptor)
}

while true {
    let descriptor = accept(listening, nil, nil)
    guard descriptor >= 0 else { continue }
    Thread.detachNewThread { serve(descriptor) }
}
