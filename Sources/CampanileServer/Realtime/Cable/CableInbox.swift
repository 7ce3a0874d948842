import NIOCore
import NIOWebSocket

/// A client's unanswered messages, in order, and the amount of its messages since the last ping.
struct CableInbox {
    /// An event from a client.
    enum Act {
        case said(WebSocketReceiver.Event)
        case broke(WebSocketReceiver.Failure)
    }

    private var receiver = WebSocketReceiver()
    private var acts = Line<Act>()
    /// Since our last ping.
    private var (frames, bytes) = (0, 0)
    /// That came while something waited for its turn.
    private var unasked = 0
    /// True once it did its last: it closes, or broke the protocol. What it sends after that is not read.
    private(set) var isDone = false

    var isEmpty: Bool { acts.isEmpty }
    /// True if more came than one read brings, although nothing is read while something waits.
    var isUnasked: Bool { unasked > Limits.cableReadBytes }

    /// The client may send as much again.
    mutating func beginPeriod() { (frames, bytes) = (0, 0) }

    mutating func take(_ frame: WebSocketFrame) {
        guard !isDone else { return }
        unasked = acts.isEmpty ? 0 : unasked + frame.data.readableBytes
        guard !isUnasked else { return }
        frames += 1
        bytes += frame.data.readableBytes
        guard frames <= Limits.cableFramesPerPing else { return fail(.tooManyFrames) }
        guard bytes <= Limits.cableBytesPerPing else { return fail(.tooManyBytes) }
        do throws(WebSocketReceiver.Failure) {
            let event = try receiver.receive(frame)
            if case .close = event { isDone = true }
            if event != .nothing { acts.append(.said(event)) }
        } catch {
            fail(error)
        }
    }

    /// The client broke the protocol.
    mutating func fail(_ failure: WebSocketReceiver.Failure) {
        guard !isDone else { return }
        isDone = true
        acts.append(.broke(failure))
    }

    mutating func next() -> Act? { acts.popFirst() }

    mutating func clear() { acts = Line() }
}

extension WebSocketReceiver.Failure {
    fileprivate static let tooManyFrames = Self(
        code: .policyViolation, reason: "more than \(Limits.cableFramesPerPing) frames between two pings")
    fileprivate static let tooManyBytes = Self(
        code: .policyViolation, reason: "more than \(Limits.cableBytesPerPing) bytes between two pings")
}
