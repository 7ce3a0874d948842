// Pushes at their barest, over one connection to `campanile simulator --fast`, by Push's HTTP/2 client or by async-http-client:
// what the client costs, without the rest of the product (docs/adr/0007).
// `pushes-alone own|futures|async URL AUTHORITY-FILE TOPIC PROVIDER-TOKEN COUNT` prints what it took.

import Foundation
import Glibc
import NIOCore
import Synchronization

/// The order that all senders send: the fields and a body as APNsProvider makes them.
struct Order: Sendable {
    static let inFlight = 500
    let url: String
    let authorities: [UInt8]
    let topic: String
    let providerToken: String
    let body = ByteBuffer(
        string: """
            {"aps":{"alert":{"title":"Sendung 4711 ist unterwegs","body":"Voraussichtliche Ankunft morgen zwischen 9 und 12 Uhr."},\
            "badge":1,"sound":"default"},"id":"01900000-0000-7000-8000-000000000000","badgeVersion":1800000000000}
            """)

    init(_ arguments: ArraySlice<String>) throws {
        let values = Array(arguments)
        (url, topic, providerToken) = (values[0], values[2], values[3])
        authorities = [UInt8](try Data(contentsOf: URL(fileURLWithPath: values[1])))
    }

    func path(_ number: Int) -> String { "/3/device/" + hexadecimal(number, digits: 64) }
    func id(_ number: Int) -> String { "01900000-0000-7000-8000-" + hexadecimal(number, digits: 12) }

    private func hexadecimal(_ number: Int, digits: Int) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: digits - text.utf8.count) + text
    }
}

protocol Sender: Sendable {
    /// Sends so many pushes from a number on, 500 at once at most, and fails if one isn't accepted.
    func send(from first: Int, count: Int) async throws
}

struct NotAccepted: Error {
    let why: String
}

/// Keeps 500 pushes under way where the client tells an answer to a closure.
final class Course: Sendable {
    private struct State {
        var next: Int
        var unanswered: Int
        var trouble: NotAccepted?
    }

    private let state: Mutex<State>
    private let end: Int
    private let send: @Sendable (Int, @escaping @Sendable (NotAccepted?) -> Void) -> Void
    private let finished: @Sendable (NotAccepted?) -> Void

    private init(
        from first: Int, count: Int, send: @escaping @Sendable (Int, @escaping @Sendable (NotAccepted?) -> Void) -> Void,
        finished: @escaping @Sendable (NotAccepted?) -> Void
    ) {
        (end, self.send, self.finished) = (first + count, send, finished)
        state = Mutex(State(next: first, unanswered: count))
    }

    static func run(
        from first: Int, count: Int, send: @escaping @Sendable (Int, @escaping @Sendable (NotAccepted?) -> Void) -> Void
    ) async throws {
        let trouble = await withCheckedContinuation { continuation in
            let course = Course(from: first, count: count, send: send) { continuation.resume(returning: $0) }
            for _ in 0..<min(count, Order.inFlight) { course.sendNext() }
        }
        if let trouble { throw trouble }
    }

    private func sendNext() {
        let number = state.withLock { state -> Int? in
            guard state.next < end else { return nil }
            defer { state.next += 1 }
            return state.next
        }
        guard let number else { return }
        send(number) { trouble in
            let (isLast, first) = self.state.withLock { state in
                state.unanswered -= 1
                state.trouble = state.trouble ?? trouble
                return (state.unanswered == 0, state.trouble)
            }
            if isLast { self.finished(first) } else { self.sendNext() }
        }
    }
}

@main
struct PushesAlone {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let order = try Order(arguments[2..<6])
        let sender: any Sender =
            switch arguments[1] {
            case "own": try OwnClient(order)
            case "futures": try OtherClient(order)
            default: try OtherClientAsync(order)
            }
        // As at Apple's, a connection takes one stream until its first push was accepted. The next thousand warm it up.
        try await sender.send(from: 1, count: 1)
        try await sender.send(from: 2, count: 1_000)
        guard let count = Int(arguments[6]) else { throw NotAccepted(why: "COUNT isn't a number") }
        let (began, used) = (seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID))
        try await sender.send(from: 1_002, count: count)
        let (took, cost) = (seconds(CLOCK_MONOTONIC) - began, seconds(CLOCK_PROCESS_CPUTIME_ID) - used)
        print("{\"seconds\": \(took), \"cpu_seconds\": \(cost)}")
        exit(0)
    }

    static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
