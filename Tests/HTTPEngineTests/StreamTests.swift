import Glibc
@testable import HTTPEngine
import Synchronization
import TestSupport
import Testing

private let kilobyte = StreamBytes([UInt8](repeating: 0x61, count: 1_024))

@Suite("Streams on one thread", .serialized)
struct StreamTests {
    @Test("Work is done in the order it was given, on the loop's thread")
    func order() async throws {
        let seen = Mutex<[Int]>([])
        _ = try await withLoop { loop in
            for number in 0..<10_000 {
                loop.perform {
                    if loop.isCurrent { seen.withLock { $0.append(number) } }
                    if number == 5_000 { loop.perform { seen.withLock { $0.append(-1) } } }
                }
            }
            await loop.on {}
            await loop.on {}
        }
        #expect(seen.withLock { $0.filter { $0 >= 0 } } == Array(0..<10_000))
        #expect(seen.withLock { $0.contains(-1) })
    }

    @Test("What was queued before the start and before the stop is done, what comes after isn't")
    func startAndStop() async throws {
        let done = Counter()
        let loop = StreamLoop()
        loop.perform { done.add(1) }
        loop.start()
        await loop.on { done.add(1) }
        for _ in 0..<100 { loop.perform { done.add(1) } }
        try await offThePool { loop.stop() }
        loop.perform { done.add(1_000) }
        loop.stop()
        #expect(done.value == 102)
    }

    @Test("One buffer goes to many streams, each gets all of it, in order")
    func shared() async throws {
        let outcome = try await withLoop { loop in
            var connections: [(client: Box<RawClient>, listener: Listener)] = []
            for _ in 0..<50 { connections.append(try await loop.connect()) }
            let listeners = connections.map(\.listener)
            await loop.on {
                for text in ["one ", "two ", "three"] {
                    let bytes = StreamBytes(text)
                    for listener in listeners { #expect(listener.stream?.send(bytes) == true) }
                }
                for listener in listeners { listener.stream?.finish() }
            }
            let clients = connections.map(\.client)
            return try await offThePool { clients.map { String(decoding: $0.value.readToEnd(), as: UTF8.self) } }
        }
        #expect(outcome.result == Array(repeating: "one two three", count: 50))
        #expect(outcome.statistics.bytesSent == 50 * 13)
        #expect(outcome.statistics.opened == 50)
        #expect(outcome.statistics.open == 0)
    }

    @Test("A reader that reads nothing is cut with a reset, another gets everything, and neither end comes from inside a call")
    func slowReader() async throws {
        let outcome = try await withLoop { loop in
            let slow = try await loop.connect()
            let quick = try await loop.connect()
            let received = Task { try await offThePool { quick.client.value.readToEndAndHangUp().count } }
            var sent = 0
            while slow.listener.ends.isEmpty {
                sent += await loop.on {
                    let count = slow.listener.ends.count
                    slow.listener.stream?.send(kilobyte)
                    #expect(slow.listener.ends.count == count, "told from inside send")
                    // Not faster than the quick one can read.
                    guard let stream = quick.listener.stream, stream.pendingBytes < 32_768 else { return 0 }
                    return stream.send(kilobyte) ? 1_024 : 0
                }
            }
            await loop.on { quick.listener.stream?.finish() }
            return (slow.listener.ends, await quick.listener.end(), sent, try await received.value)
        }
        #expect(outcome.result.0 == [.tooSlow])
        #expect(outcome.result.1 == .finished)
        #expect(outcome.result.2 == outcome.result.3)
        #expect(outcome.statistics.cutAsTooSlow == 1)
        #expect(outcome.statistics.open == 0)
    }

    @Test("What the kernel doesn't take is kept and goes when the client reads, in order and whole")
    func backlog() async throws {
        let outcome = try await withLoop { loop in
            let (client, listener) = try await loop.connect()
            let sent = await loop.on {
                var text = ""
                var number = 0
                while let stream = listener.stream, stream.pendingBytes < 40_000 {
                    let line = "line \(number)\n"
                    stream.send(StreamBytes(line))
                    text += line
                    number += 1
                }
                return text
            }
            async let received = offThePool { client.value.readToEndAndHangUp() }
            await listener.drained()
            let pending = await loop.on {
                listener.stream?.send(StreamBytes("last"))
                let pending = listener.stream?.pendingBytes
                listener.stream?.finish()
                return pending
            }
            let text = try await String(decoding: received, as: UTF8.self)
            return (text == sent + "last", pending, await listener.end())
        }
        #expect(outcome.result == (true, 0, .finished))
    }

    @Test("A stream of which nothing goes for the limit is cut, not earlier")
    func stalled() async throws {
        let clock = HandClock()
        _ = try await withLoop(clock: clock) { loop in
            let (client, listener) = try await loop.connectLocally()
            await loop.on { while let stream = listener.stream, stream.pendingBytes == 0 { stream.send(kilobyte) } }
            clock.advance(seconds: 29)
            await loop.look()
            #expect(listener.ends == [])
            clock.advance(seconds: 1)
            await loop.look()
            #expect(listener.ends == [.tooSlow])
            withExtendedLifetime(client) {}
        }
    }

    @Test("A client that hangs up is noticed, in order or with a reset", arguments: [false, true])
    func gone(resets: Bool) async throws {
        let outcome = try await withLoop { loop in
            let (client, listener) = try await loop.connect()
            if resets { client.value.reset() } else { client.value.finishSending() }
            let reason = await listener.end()
            let isOpen = await loop.on { (listener.stream?.isOpen, listener.stream?.send(kilobyte)) }
            return (reason, isOpen)
        }
        #expect(outcome.result.0 == .clientGone)
        #expect(outcome.result.1 == (false, false))
        #expect(outcome.statistics.open == 0)
    }

    @Test("What a client sends is thrown away, up to the limit")
    func incoming() async throws {
        var limits = StreamLimits()
        limits.incomingBytes = 10_000
        _ = try await withLoop(limits: limits) { loop in
            let (client, listener) = try await loop.connect()
            let (chatty, other) = try await loop.connect()
            try await offThePool {
                client.value.send([UInt8](repeating: 0, count: 10_000))
                chatty.value.send([UInt8](repeating: 0, count: 10_001))
            }
            #expect(await other.end() == .clientGone)
            #expect(listener.ends == [])
        }
    }

    @Test("An unusable socket, or a loop that has stopped, makes a stream that has ended")
    func unusable() async throws {
        _ = try await withLoop { loop in
            let (_, socket) = try connectedPair()
            socket.close()
            let listener = Listener()
            let isOpen = await loop.on {
                let stream = loop.open(socket, owner: listener)
                #expect(listener.ends == [])
                return stream.isOpen
            }
            #expect(!isOpen)
            #expect(await listener.end() == .clientGone)
        }
    }
}

@Suite("Streams end", .serialized)
struct StreamEndTests {
    @Test("Finishing sends what is pending and the last bytes, and tells the client that this was all")
    func finish() async throws {
        let outcome = try await withLoop { loop in
            let (client, listener) = try await loop.connect()
            let sent = await loop.on {
                var count = 0
                while let stream = listener.stream, stream.pendingBytes == 0 {
                    stream.send(kilobyte)
                    count += 1_024
                }
                listener.stream?.finish(StreamBytes("last"))
                listener.stream?.finish(StreamBytes("ignored"))
                #expect(listener.stream?.send(kilobyte) == false)
                return count
            }
            // The client hangs up only after it has seen the end.
            let bytes = try await offThePool { client.value.readToEndAndHangUp() }
            return (bytes.count - sent, String(decoding: bytes.suffix(4), as: UTF8.self), await listener.end())
        }
        #expect(outcome.result == (4, "last", .finished))
    }

    @Test(
        "A client that doesn't hang up, or doesn't read, holds nothing up beyond the limit",
        arguments: [
            (false, EventStreamEnd.finished), (true, .tooSlow),
        ])
    func finishBounded(isPending: Bool, reason: EventStreamEnd) async throws {
        let clock = HandClock()
        _ = try await withLoop(clock: clock) { loop in
            let (client, listener) = try await loop.connectLocally()
            await loop.on {
                while isPending, let stream = listener.stream, stream.pendingBytes == 0 { stream.send(kilobyte) }
            }
            await loop.on { listener.stream?.finish(StreamBytes("last")) }
            clock.advance(seconds: 4)
            await loop.look()
            #expect(listener.ends == [])
            clock.advance(seconds: 1)
            await loop.look()
            #expect(listener.ends == [reason])
            withExtendedLifetime(client) {}
        }
    }

    @Test("Stopping ends every stream, and nothing holds anything any more")
    func stop() async throws {
        let alive = Counter()
        var clients: [Box<RawClient>] = []
        var listeners: [Listener] = []
        let loop = StreamLoop()
        loop.start()
        for _ in 0..<20 {
            let (client, listener) = try await loop.connect()
            let reservation = Reservation(alive)
            await loop.on { listener.onEnd = { withExtendedLifetime(reservation) {} } }
            clients.append(client)
            listeners.append(listener)
        }
        try await offThePool { loop.stop() }
        #expect(listeners.map(\.ends) == Array(repeating: [.stopped], count: 20))
        let ends = clients
        #expect(try await offThePool { ends.allSatisfy { $0.value.readToEnd() == [] } })
        #expect(loop.statistics.open == 0)
        #expect(alive.value == 20)
        listeners = []
        #expect(alive.value == 0, "a stream and its owner hold each other after the end")
    }

    @Test("An owner may end others, open new ones and go on sending when it is told of an end")
    func fromInside() async throws {
        _ = try await withLoop { loop in
            let first = try await loop.connect()
            let second = try await loop.connect()
            let third = try await loop.connect()
            let late = Listener()
            let (client, socket) = try connectedPair()
            await loop.on {
                let (one, other) = (second.listener, third.listener)
                first.listener.onEnd = {
                    one.stream?.finish()
                    other.stream?.send(StreamBytes("news"))
                    late.stream = loop.open(socket, owner: late)
                    late.stream?.send(StreamBytes("hello"))
                    late.stream?.finish()
                }
            }
            first.client.value.reset()
            #expect(await first.listener.end() == .clientGone)
            let boxes = [second.client, Box(client)]
            let texts = try await offThePool {
                boxes.map { String(decoding: $0.value.readToEndAndHangUp(), as: UTF8.self) }
            }
            #expect(texts == ["", "hello"])
            #expect(await second.listener.end() == .finished)
            #expect(await late.end() == .finished)
            await loop.on { third.listener.stream?.finish() }
            let rest = try await offThePool { String(decoding: third.client.value.readToEnd(), as: UTF8.self) }
            #expect(rest == "news")
        }
    }
}

@Suite("Heartbeats and ticks", .serialized)
struct HeartbeatTests {
    @Test("A silent stream gets a heartbeat between fifteen and twenty seconds after its last write, again and again")
    func heartbeat() async throws {
        let clock = HandClock()
        let outcome = try await withLoop(clock: clock) { loop in
            let (client, listener) = try await loop.connect()
            await loop.on { _ = listener.stream?.send(StreamBytes("event")) }
            var sent: [UInt64] = []
            for _ in 0..<3 {
                clock.advance(seconds: 14)
                await loop.look()
                sent.append(loop.statistics.bytesSent)
                clock.advance(seconds: 6)
                await loop.look()
                sent.append(loop.statistics.bytesSent)
            }
            await loop.on { listener.stream?.finish() }
            return (sent, try await offThePool { String(decoding: client.value.readToEnd(), as: UTF8.self) })
        }
        #expect(outcome.result.0 == [5, 8, 8, 11, 11, 14])
        #expect(outcome.result.1 == "event:\n\n:\n\n:\n\n")
    }

    @Test("A write puts the heartbeat off")
    func putOff() async throws {
        let clock = HandClock()
        let outcome = try await withLoop(clock: clock) { loop in
            let (client, listener) = try await loop.connect()
            for _ in 0..<10 {
                clock.advance(seconds: 10)
                await loop.on { _ = listener.stream?.send(StreamBytes("x")) }
                await loop.look()
            }
            withExtendedLifetime(client) {}
            return loop.statistics.bytesSent
        }
        #expect(outcome.result == 10)
    }

    @Test("Streams that were written to together don't beat together")
    func spread() async throws {
        let clock = HandClock()
        let outcome = try await withLoop(clock: clock) { loop in
            var connections: [(client: Box<RawClient>, listener: Listener)] = []
            for _ in 0..<200 { connections.append(try await loop.connect()) }
            var beats: [UInt64] = []
            for _ in 0..<20 {
                let before = loop.statistics.bytesSent
                clock.advance(seconds: 1)
                await loop.look()
                beats.append((loop.statistics.bytesSent - before) / 3)
            }
            withExtendedLifetime(connections) {}
            return beats
        }
        #expect(outcome.result.reduce(0, +) == 200)
        #expect(outcome.result[..<14].allSatisfy { $0 == 0 })
        #expect(outcome.result.allSatisfy { $0 < 100 })
    }

    @Test("Streams that come, end and take each other's numbers leave the wheel in order")
    func churn() async throws {
        let clock = HandClock()
        let outcome = try await withLoop(clock: clock) { loop in
            var connections: [(client: Box<RawClient>, listener: Listener)] = []
            for round in 0..<30 {
                for _ in 0..<10 { connections.append(try await loop.connect()) }
                clock.advance(seconds: UInt64(round % 5))
                await loop.look()
                for _ in 0..<8 {
                    let (client, listener) = connections.remove(at: (round * 7) % connections.count)
                    client.value.reset()
                    _ = await listener.end()
                }
            }
            let before = loop.statistics.bytesSent
            clock.advance(seconds: 100)
            await loop.look()
            withExtendedLifetime(connections) {}
            return (loop.statistics.bytesSent - before, connections.map(\.listener.ends.count).reduce(0, +))
        }
        #expect(outcome.result == (60 * 3, 0))
    }

    @Test("The application is given the time when the loop looks at the clock")
    func ticks() async throws {
        let clock = HandClock()
        let times = Mutex<[UInt64]>([])
        _ = try await withLoop(clock: clock, onTick: { now in times.withLock { $0.append(now) } }) { loop in
            clock.advance(seconds: 5)
            await loop.look()
            #expect(await loop.on { loop.now } == clock.now)
        }
        #expect(times.withLock { $0.last } == clock.now)
    }
}
