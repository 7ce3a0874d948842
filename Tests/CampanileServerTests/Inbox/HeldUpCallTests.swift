import CampanileCore
import Foundation
import Logging
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

/// Calls for more users than one transaction serves: what happens when one can't go on after its first, and when there are several.
@Suite("Calls for many users that are under way") struct HeldUpCallTests {
    private typealias Calls = LargeCallTests

    /// Takes the database's file away right after a commit, and brings it back.
    private final class Thief: Sendable {
        private let isWaiting = Atomic<Bool>(true)
        private let path: String

        init(_ fixture: Fixture) throws {
            path = fixture.folder.database
            try fixture.database.onCommit { [self] _ in
                if isWaiting.exchange(false, ordering: .relaxed) { #expect(rename(path, path + ".away") == 0) }
            }
        }

        func bringBack() { #expect(rename(path + ".away", path) == 0) }
    }

    private static func publisher(
        _ fixture: Fixture, _ lines: CollectingLog.Lines = CollectingLog.Lines(), patience: Duration
    ) -> Publisher {
        Publisher(
            database: fixture.store, ids: fixture.ids, badgePushes: fixture.badgePushes,
            logger: Logger(label: "test") { _ in CollectingLog(lines: lines) }, pause: .milliseconds(1), patience: patience)
    }

    private static func refusals(_ count: Int, of fixture: Fixture) async throws {
        let until = try fixture.database.refusals.count + count
        while try fixture.database.refusals.count < until { await Task.yield() }
    }

    /// What the key's call is answered, once nothing of it is under way.
    private static func answer(
        _ publisher: Publisher, _ new: NewNotification
    ) async throws -> (answer: IdempotentAnswer, isReplay: Bool) {
        while true {
            do {
                return try await publisher.publish(new, app: "default", once: Calls.key())
            } catch let problem as ClientError where problem.code == .idempotencyConflict {
                await Task.yield()
            }
        }
    }

    private static let began = "error: Calls for many users can't go on now; the server tries again until they do."
    private static let ended = "notice: No call for many users is held up any more."
    private static let finished = "notice: A call for many users is finished; its request had ended before."

    @Test("one that can't go on for long ends its request without an answer, goes on alone, and keeps its key until it is done")
    func leftAlone() async throws {
        let (fixture, lines) = (try Fixture(), CollectingLog.Lines())
        let publisher = Self.publisher(fixture, lines, patience: .milliseconds(1))
        let (names, thief) = (Calls.names(Calls.many), try Thief(fixture))
        await #expect(throws: LargeCall.LeftAlone.self) {
            try await publisher.publish(Calls.new(names), app: "default", once: Calls.key())
        }
        #expect(try Calls.counts(of: names, fixture.database) == ([0, 1], true))
        try await Self.refusals(3, of: fixture)
        #expect(await Calls.isConflict { _ = try await publisher.publish(Calls.new(names), app: "default", once: Calls.key()) })
        #expect(await Calls.isConflict { _ = try await publisher.firstAnswer(to: Calls.key(), at: fixture.clock.now) })
        thief.bringBack()
        let (answer, isReplay) = try await Self.answer(publisher, Calls.new(names))
        #expect(isReplay)
        let made = try JSONValue(parsing: answer.body)["notifications"]?.array ?? []
        #expect(made.compactMap { $0["user_id"]?.string } == names)
        #expect(try Calls.counts(of: names, fixture.database) == ([1], false))
        await publisher.stop()
        #expect(lines.texts == [Self.began, Self.ended, Self.finished], "one line for the trouble, however many tries")
    }

    @Test("one that is held up for a moment is answered; its key is 409 meanwhile, and another producer's is free")
    func heldUp() async throws {
        let (fixture, lines) = (try Fixture(), CollectingLog.Lines())
        let publisher = Self.publisher(fixture, lines, patience: .seconds(3_600))
        let (names, thief) = (Calls.names(Calls.many), try Thief(fixture))
        async let first = publisher.publish(Calls.new(names), app: "default", once: Calls.key())
        try await Self.refusals(3, of: fixture)
        #expect(await Calls.isConflict { _ = try await publisher.publish(Calls.new(names), app: "default", once: Calls.key()) })
        #expect(
            await Calls.isConflict { _ = try await publisher.publish(Calls.new(["a"]), app: "default", once: Calls.key("b")) })
        let other = IdempotencyKey(text: "k", producer: 2, fingerprint: [])
        await #expect(throws: SQLError.self, "refused by the database, not by the key") {
            try await publisher.publish(Calls.new(names), app: "default", once: other)
        }
        thief.bringBack()
        let answered = try await first
        #expect(!answered.isReplay)
        let again = try await publisher.publish(Calls.new(names), app: "default", once: Calls.key())
        #expect(again.isReplay && again.answer.body == answered.answer.body)
        #expect(try Calls.counts(of: names, fixture.database) == ([1], false))
        #expect(lines.texts == [Self.began, Self.ended])
    }

    @Test("of requests with the same key at once one begins the call; the others are 409, or get its answer")
    func equalKeys() async throws {
        let fixture = try Fixture()
        let names = Calls.names(Calls.many)
        let outcomes = await withTaskGroup(of: String.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    do {
                        let outcome = try await fixture.publisher.publish(Calls.new(names), app: "default", once: Calls.key())
                        return outcome.isReplay ? "replayed" : "created"
                    } catch { return (error as? ClientError)?.code == .idempotencyConflict ? "409" : "\(error)" }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.filter { $0 == "created" }.count == 1)
        #expect(Set(outcomes).isSubset(of: ["created", "replayed", "409"]))
        #expect(try Calls.counts(of: names, fixture.database) == ([1], false))
    }

    @Test("an error that no repeating mends ends it, and its request; its key stays taken, and the next start tries again")
    func failed() async throws {
        let (fixture, lines) = (try Fixture(), CollectingLog.Lines())
        let publisher = Self.publisher(fixture, lines, patience: .seconds(3_600))
        let names = Calls.names(Calls.many)
        try await fixture.database.write {
            _ = try $0.connection.run(
                "CREATE TRIGGER refuse BEFORE INSERT ON large_call_parts WHEN NEW.done > 0 BEGIN SELECT RAISE(ABORT, 'no'); END")
        }
        await #expect(throws: SQLError.self) {
            try await publisher.publish(Calls.new(names), app: "default", once: Calls.key())
        }
        #expect(await Calls.isConflict { _ = try await publisher.publish(Calls.new(names), app: "default", once: Calls.key()) })
        await publisher.stop()
        #expect(lines.texts == ["error: A call for many users failed; the next start tries again."])
        try await fixture.database.write { _ = try $0.connection.run("DROP TRIGGER refuse") }
        let next = try Calls.restarted(fixture.database, fixture)
        await next.finish(try next.unfinished())
        #expect(try await next.publish(Calls.new(names), app: "default", once: Calls.key()).isReplay)
        #expect(try Calls.counts(of: names, fixture.database) == ([1], false))
    }

    @Test("a stop leaves it to the next start, and ends its request without an answer")
    func stopped() async throws {
        let (fixture, lines) = (try Fixture(), CollectingLog.Lines())
        let publisher = Self.publisher(fixture, lines, patience: .seconds(3_600))
        let (names, thief) = (Calls.names(Calls.many), try Thief(fixture))
        let request = Task { _ = try await publisher.publish(Calls.new(names), app: "default", once: Calls.key()) }
        try await Self.refusals(2, of: fixture)
        await publisher.stop()
        await #expect(throws: LargeCall.LeftAlone.self) { try await request.value }
        thief.bringBack()
        // The last moments of a stop: what begins then is promised as well.
        let late = Calls.names(Calls.many).map { "late-\($0)" }
        await #expect(throws: LargeCall.LeftAlone.self) { try await publisher.publish(Calls.new(late), app: "default") }
        #expect(try Calls.counts(of: names + late, fixture.database) == ([0, 1], true))
        #expect(lines.texts == [Self.began])

        let next = try Calls.restarted(fixture.database, fixture)
        await next.finish(try next.unfinished())
        #expect(try Calls.counts(of: names + late, fixture.database) == ([1], false))
        #expect(try await next.publish(Calls.new(names), app: "default", once: Calls.key()).isReplay)
    }

    @Test("two calls whose rows get the same id, one after the other, get each its own answer")
    func sameRow() async throws {
        let (fixture, lines) = (try Fixture(), CollectingLog.Lines())
        let calls = LargeCalls(
            idempotency: Idempotency(), pause: .zero, patience: .seconds(3_600),
            logger: Logger(label: "test") { _ in CollectingLog(lines: lines) })
        func finish(_ user: String) async throws -> [Recipient] {
            let call = LargeCall(id: 1, new: Calls.new([user]), app: "default", key: nil)
            return try await calls.finish(LargeCall.Unfinished(call: call, done: [])) { call, _ in
                call.new.userIDs.map { Recipient(userID: $0, id: fixture.ids.next()) }
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for user in Calls.names(20) {
                group.addTask {
                    let made = try await finish(user)
                    #expect(made.map(\.userID) == [user])
                }
            }
            try await group.waitForAll()
        }
        #expect(lines.texts.isEmpty)
    }

    @Test("of several at once no transaction has parts of two")
    func turns() async throws {
        let fixture = try Fixture()
        let most = Atomic<Int>(0)
        fixture.store.onCommit { inboxes in most.max(Set(inboxes).count, ordering: .relaxed) }
        let calls = (0..<6).map { call in Calls.names(Calls.many).map { "call-\(call)-\($0)" } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for users in calls {
                group.addTask { _ = try await fixture.publisher.publish(Calls.new(users), app: "default") }
            }
            try await group.waitForAll()
        }
        let mostAtOnce = most.load(ordering: .relaxed)
        #expect(mostAtOnce == Calls.atOnce)
        #expect(try Calls.counts(of: calls.flatMap(\.self), fixture.database) == ([1], false))
    }

    @Test("a key that is revoked amid its call is refused from then on; the call is finished and answered")
    func revoked() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let names = Calls.names(Calls.many)
            let operations = try server.operations()
            defer { operations.close() }
            let isFirst = Atomic<Bool>(true)
            server.app.database.onCommit { _ in
                guard isFirst.exchange(false, ordering: .relaxed) else { return }
                #expect(throws: Never.self) { try operations.revokeKey(name: "tests") }
            }
            let body = #"{"user_ids":["\#(names.joined(separator: "\",\""))"],"title":"T"}"#
            let answer = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"])
            #expect(answer.status == 201)
            #expect(try answer.json["notifications"]?.array.count == names.count)
            let isRevoked = !isFirst.load(ordering: .relaxed)
            #expect(isRevoked)
            try server.app.database.pollForeignChange()
            #expect(try await server.client.post("/notifications", body, as: producer).status == 401)
            #expect(try Calls.counts(of: names, server.app.database) == ([1], false))
        }
    }
}
