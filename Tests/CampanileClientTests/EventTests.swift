import Foundation
import Testing

@testable import CampanileClient

@Suite("Streams of events in an app")
struct EventTests {
    @Test("an id with a NUL and a wait that is no number are passed over")
    func fields() throws {
        var parser = EventStreamParser(lastEventID: "1")
        _ = try parser.feed(Data("id: 2\u{0}\nretry: soon\n\n".utf8))
        #expect(parser.lastEventID == "1" && parser.retry == nil)
        _ = try parser.feed(Data("retry: 1500\nid\n\n".utf8))
        #expect(parser.lastEventID == "" && parser.retry == .milliseconds(1_500))
    }

    @Test("an event beyond a mebibyte is refused and not gathered")
    func tooLong() {
        var parser = EventStreamParser()
        let failure = #expect(throws: ClientFailure.self) { try parser.feed(Data(repeating: 0x61, count: 1 << 20 + 1)) }
        #expect(failure?.kind == .unknown && failure?.detail == "an event of more than 1048576 bytes")
    }

    private static func badge(_ count: Int) -> String {
        "id: \(count)\nevent: badge\ndata: {\"count\":\(count),\"unread_count\":\(count),\"version\":\(count)}\n\n"
    }

    @Test("a stream goes on after a cut, a refusal and an end, where it was; half an event isn't told")
    func resume() async throws {
        let waits = Waits()
        let transport = ScriptedTransport(streams: { _, number in
            switch number {
            case 1:
                .events(
                    ["retry: 3000\n\n", Self.badge(1), "id: 99\nevent: badge\nda"], breaks: URLError(.networkConnectionLost))
            case 2: throw URLError(.cannotConnectToHost)
            case 3: .events([], status: 503)
            case 4: .events([Self.badge(2) + Self.badge(3)])
            default: .events([], status: 403)
            }
        })
        var counts: [Int64] = []
        let failure = await #expect(throws: ClientFailure.self) {
            let badges = CampanileAPI.scripted(transport, retry: waits.policy(random: 0.5)).badges()
            for try await badge in badges { counts.append(badge.count) }
        }
        #expect(counts == [1, 2, 3])
        #expect(failure?.kind == .forbidden)
        #expect(transport.calls.map { $0.headers["Last-Event-ID"] } == [nil, "1", "1", "1", "3"])
        // What the server asked for with `retry`, and chance above it.
        #expect(waits.all == [.seconds(3.75), .seconds(3.75), .seconds(3.75), .seconds(3.75)])
    }

    @Test("a server that asks for a time beyond all sense gets a day: no clock holds all of it", arguments: [true, false])
    func farFuture(_ isHeader: Bool) async {
        let waits = Waits()
        let transport = ScriptedTransport(streams: { _, number in
            if number > 1 { return .events([], status: 404) }
            if !isHeader { return .events(["retry: \(Int64.max)\n\n"]) }
            let body = HTTPStream.events([]).body
            return HTTPStream(status: 503, headers: ["retry-after": "\(Int64.max)"], body: body)
        })
        await #expect(throws: ClientFailure.self) {
            for try await _ in CampanileAPI.scripted(transport, retry: waits.policy()).badges() {}
        }
        #expect(waits.all == [.seconds(86_400)])
    }

    @Test(
        "a stream that once was open goes on past a network that can't be trusted for a while; one that never was ends with that",
        arguments: [true, false])
    func strangeNetwork(_ wasOpen: Bool) async {
        let transport = ScriptedTransport(streams: { _, number in
            switch number {
            case 1 where wasOpen: .events([Self.badge(1)])
            case 2: throw URLError(.serverCertificateUntrusted)
            case 4: .events([Self.badge(2)])
            case 5...: .events([], status: 404)
            default: throw URLError(.secureConnectionFailed)
            }
        })
        var counts: [Int64] = []
        let failure = await #expect(throws: ClientFailure.self) {
            for try await badge in CampanileAPI.scripted(transport, retry: Waits().policy()).badges() {
                counts.append(badge.count)
            }
        }
        #expect(counts == (wasOpen ? [1, 2] : []))
        #expect(failure?.kind == (wasOpen ? .notFound : .insecure))
    }

    @Test("a stream goes on past a proxy that answers 404 while no server is behind it, and ends at a 404 of the server's own")
    func proxys() async {
        let transport = ScriptedTransport(streams: { _, number in
            switch number {
            case 1: .events([], status: 404, type: "text/plain")
            case 2: .events([Self.badge(1)])
            default: .events([], status: 404)
            }
        })
        var counts: [Int64] = []
        let failure = await #expect(throws: ClientFailure.self) {
            for try await badge in CampanileAPI.scripted(transport, retry: Waits().policy()).badges() {
                counts.append(badge.count)
            }
        }
        #expect(counts == [1] && failure?.kind == .notFound)
    }

    @Test("connections that bring nothing are made ever less often")
    func backoff() async {
        let waits = Waits()
        let transport = ScriptedTransport(streams: { _, number in
            if number == 6 { return .events([], status: 404) }
            return .events([])
        })
        await #expect(throws: ClientFailure.self) {
            for try await _ in CampanileAPI.scripted(transport, retry: waits.policy()).badges() {}
        }
        #expect(waits.all == [0.5, 1, 2, 4, 8].map { .seconds($0) })
    }

    @Test("everything that happens in an inbox is told with its id; what can't be read is told as a reset")
    func events() async throws {
        let note = String(decoding: HTTPAnswer.notification.body, as: UTF8.self)
        let transport = ScriptedTransport(streams: { _, number in
            guard number == 1 else { return .events([], status: 404) }
            return .events([
                "id: 5\nevent: notification.created\ndata: \(note)\n\n", "id: 6\nevent: notification.updated\ndata: \(note)\n\n",
                "id: 7\nevent: notification.deleted\ndata: {\"id\":\"n1\"}\n\n", "id: 8\nevent: news\ndata: {}\n\n",
                "id: 9\nevent: notifications.read_all\ndata: {\"up_to\":\"n1\"}\n\n", Self.badge(10),
                "id: 11\nevent: reset\ndata: {\"reason\":\"too_old\"}\n\n", "id: 12\nevent: notification.created\ndata: {\n\n",
            ])
        })
        var told: [InboxEvent] = []
        await #expect(throws: ClientFailure.self) {
            let events = CampanileAPI.scripted(transport, retry: Waits().policy()).events(after: "4")
            for try await event in events { told.append(event) }
        }
        let one = try #require(JSONValue(data: Data(note.utf8)).flatMap(InboxNotification.init(json:)))
        #expect(
            told == [
                InboxEvent(id: "5", .created(one)), InboxEvent(id: "6", .updated(one)), InboxEvent(id: "7", .deleted(id: "n1")),
                InboxEvent(id: "9", .readAll(upTo: "n1")),
                InboxEvent(id: "10", .badge(Badge(count: 10, unreadCount: 10, version: 10, updatedAt: nil))),
                InboxEvent(id: "11", .reset(reason: "too_old")), InboxEvent(id: "12", .reset(reason: "unreadable")),
            ])
        #expect(transport.calls.first?.headers["Last-Event-ID"] == "4")
    }

    @Test("a user who isn't signed in ends the stream, and a token that has ended is replaced")
    func tokens() async throws {
        let transport = ScriptedTransport(streams: { call, number in
            if call.headers["Authorization"] == "Bearer old" { return .events([], status: 401) }
            return number < 4 ? .events([Self.badge(number)]) : .events([], status: 401)
        })
        let api = CampanileAPI.scripted(transport, retry: Waits().policy(), token: { $0 == nil ? "old" : "new" })
        var counts: [Int64] = []
        let failure = await #expect(throws: ClientFailure.self) {
            for try await badge in api.badges() { counts.append(badge.count) }
        }
        #expect(counts == [2] && failure?.kind == .signedOut)
    }

    @Test("a cancelled task ends its stream as cancelled")
    func cancellation() async {
        let (body, _) = AsyncThrowingStream.makeStream(of: Data.self, throwing: (any Error).self)
        let transport = ScriptedTransport(streams: { _, _ in HTTPStream(status: 200, body: body) })
        let task = Task {
            for try await _ in CampanileAPI.scripted(transport, retry: Waits().policy()).badges() {}
        }
        await transport.untilCalled()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
