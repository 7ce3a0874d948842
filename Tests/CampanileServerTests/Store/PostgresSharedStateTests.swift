import CampanileCore
import Crypto
import Dispatch
import Push
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

/// The state that one process once remembered, on two nodes of one PostgreSQL database.
@Suite("What nodes must agree on", .endsIfItHangs)
struct PostgresSharedStateTests {
    private let clock = HandClock()
    private let stores: [Store]
    private let nodes: [ServerNode]
    private let publishers: [Publisher]

    init() throws {
        let address = try PostgresServer.shared.get().makeDatabase()
        let world = World.hand(clock)
        let stores = try (0..<2).map { _ in try Store.open(postgres: address, options: .patient, world: world).database }
        let pushes = BadgePushes(policy: .unread, syncOnRead: true, androidData: false)
        let generators = try stores.enumerated().map { [clock] number, store in
            try store.idGenerator(world: .hand(clock, seed: UInt64(number) + 1))
        }
        let nodes = generators.enumerated().map {
            ServerNode(id: $1.next(), name: "node \($0)", version: "1", address: "127.0.0.1:80")
        }
        publishers = zip(stores, generators).map { made in
            Publisher(database: made.0, ids: made.1, badgePushes: pushes)
        }
        (self.stores, self.nodes) = (stores, nodes)
    }

    /// Has the nodes live for the whole test, however slow the machine is: the database's clock decides.
    private func keepAlive() async throws {
        for node in nodes { _ = try await stores[0].cluster.renew(node, giving: [], isAnew: false) }
        guard case .postgres(let database) = stores[0].base else { return }
        _ = try await database.write { unit in
            try unit.plainConnection.run("UPDATE nodes SET seen_at = seen_at + 3600000")
        }
    }

    /// Sends the same call with the same key to both nodes at once.
    /// - Returns: the answers, without those that are refused because the other is under way.
    private func publishOnBoth(_ users: [String], _ text: String) async throws -> [[UInt8]] {
        let key = IdempotencyKey(text: text, producer: 1, fingerprint: [1])
        let new = LargeCallTests.new(users)
        return try await withThrowingTaskGroup(of: [UInt8]?.self) { group in
            for publisher in publishers {
                group.addTask {
                    do {
                        return try await publisher.publish(new, app: "shop", once: key).answer.body
                    } catch let problem as ClientError where problem.code == .idempotencyConflict {
                        return nil
                    }
                }
            }
            var answers: [[UInt8]] = []
            for try await answer in group { if let answer { answers.append(answer) } }
            return answers
        }
    }

    @Test(
        "two nodes that get the same key at once create once, and give one answer or refuse",
        arguments: [2, LargeCallTests.many])
    func oneCreation(_ count: Int) async throws {
        let rounds = count > 2 ? 3 : 20
        for round in 0..<rounds {
            let users = (0..<count).map { "\(round)-\($0)" }
            let answers = try await publishOnBoth(users, "key \(round)")
            #expect(!answers.isEmpty && Set(answers).count == 1)
            let again = try await publishOnBoth(users, "key \(round)")
            #expect(again == [answers[0], answers[0]], "afterwards each node replays it")
        }
        let expected = Int64(count * rounds)
        #expect(try stores[0].readBlocking { try $0.inboxes.sums() } == (expected, expected, expected))
    }

    /// Has something done when the first node has committed. Its lane waits meanwhile, so its next write comes after that.
    private func afterFirstCommit(_ work: @escaping @Sendable () async -> Void) {
        let isFirst = Flag(true)
        stores[0].onCommit { _ in
            if isFirst.value.exchange(false, ordering: .relaxed) { Self.wait(for: work) }
        }
    }

    /// Blocks a lane's thread.
    private static func wait(for work: @escaping @Sendable () async -> Void) {
        let done = DispatchSemaphore(value: 0)
        Task.detached {
            await work()
            done.signal()
        }
        done.wait()
    }

    private final class Flag: Sendable {
        let value: Atomic<Bool>
        init(_ value: Bool) { self.value = Atomic(value) }
    }

    @Test("a call that one node has begun is finished by another that gets its repetition, and both give one answer")
    func goesOnElsewhere() async throws {
        let new = LargeCallTests.new(LargeCallTests.names(LargeCallTests.many))
        let (key, other) = (LargeCallTests.key(), publishers[1])
        let answers = Recorder<[UInt8]>()
        afterFirstCommit {
            let made = try? await other.publish(new, app: "shop", once: key)
            if let made, !made.isReplay { answers.append(made.answer.body) }
        }
        let outcome = try await publishers[0].publish(new, app: "shop", once: key)
        #expect(outcome.isReplay && answers.all == [outcome.answer.body])
        let count = Int64(new.userIDs.count)
        #expect(try stores[0].readBlocking { try $0.inboxes.sums() } == (count, count, count))
    }

    @Test("of two nodes that go on with one call the one that was slower is refused, and makes nothing")
    func slower() async throws {
        let new = LargeCallTests.new(LargeCallTests.names(LargeCallTests.many))
        let (key, other) = (LargeCallTests.key(), publishers[1])
        afterFirstCommit { await LargeCallTests.hangUp(other, new, duringPart: 1, key: key, app: "shop") }
        #expect(
            await LargeCallTests.isConflict { _ = try await publishers[0].publish(new, app: "shop", once: key) })
        #expect(try stores[0].readBlocking { try $0.inboxes.sums().notifications } == Int64(2 * LargeCallTests.most))
        #expect(try await !publishers[0].publish(new, app: "shop", once: key).isReplay)
        let count = Int64(new.userIDs.count)
        #expect(try stores[0].readBlocking { try $0.inboxes.sums() } == (count, count, count))
    }

    @Test("a note takes the place of the one that its transaction saw, and of no other: else it runs again")
    func compared() async throws {
        let new = LargeCallTests.new(LargeCallTests.names(LargeCallTests.many))
        let (key, other, isFirst) = (LargeCallTests.key(), publishers[1], Flag(true))
        let part: @Sendable () async -> Void = {
            await LargeCallTests.hangUp(other, new, duringPart: 1, key: key, app: "shop")
        }
        await part()
        let seen = Recorder<Int>()
        try await stores[0].write { transaction in
            let since = Timestamp(milliseconds: 0)
            let made = try transaction.idempotencyKeys.find(key: key.text, apiKey: key.producer, since: since)?.made ?? []
            seen.append(made.count)
            if isFirst.value.exchange(false, ordering: .relaxed) { Self.wait(for: part) }
            try transaction.idempotencyKeys.note(made + made.prefix(1), of: key)
        }
        #expect(seen.all == [LargeCallTests.most, 2 * LargeCallTests.most])
    }

    @Test("a node proves that it can write while another's proof hangs, and a node that was forgotten leaves none")
    func proofs() async throws {
        let (isFirst, proved) = (Flag(true), Flag(false))
        let proof: @Sendable () async -> Void = { [stores, nodes] in
            do {
                try await stores[1].write { try $0.programState.proveWritable(by: nodes[1].id) }
                proved.value.store(true, ordering: .relaxed)
            } catch {
                Issue.record(error)
            }
        }
        try await stores[0].write { [nodes] transaction in
            try transaction.programState.proveWritable(by: nodes[0].id)
            if isFirst.value.exchange(false, ordering: .relaxed) { Self.wait(for: proof) }
        }
        let hasProved = proved.value.load(ordering: .relaxed)
        #expect(hasProved)
        guard case .postgres(let database) = stores[0].base else { return }
        let count: @Sendable () throws -> Int64? = {
            try database.readBlocking { try $0.first("SELECT count(*) FROM write_proofs") { $0.int(0) } }
        }
        #expect(try count() == 2)
        try await stores[0].forgetSilentNodes()
        #expect(try count() == 0, "neither has registered")
    }

    @Test("every revocation changes the mark that nodes compare, and nothing else does")
    func mark() async throws {
        let mark = CredentialMark(store: stores[0])
        #expect(await [mark.hasChanged(), mark.hasChanged()] == [true, false])
        try await stores[1].write { transaction in
            try transaction.apiKeys.insert(name: "a", app: "shop", kind: .producer, hash: [1])
            try transaction.apiKeys.insert(name: "b", app: "shop", kind: .producer, hash: [2])
        }
        #expect(await [mark.hasChanged(), mark.hasChanged()] == [true, false])
        for name in ["a", "b"] {
            try await stores[1].write { _ = try $0.apiKeys.revoke(name: name) }
            #expect(await [mark.hasChanged(), mark.hasChanged()] == [true, false])
        }
        for (user, time) in [("alice", 9), ("bob", 5), ("bob", 6)] as [(String, Int64)] {
            try await stores[1].write {
                try $0.revocations.revoke(app: "shop", userID: user, tokensBefore: Timestamp(milliseconds: time))
            }
            #expect(await [mark.hasChanged(), mark.hasChanged()] == [true, false])
        }
        try await stores[1].write { _ = try $0.inboxes.making(app: "shop", userID: "alice") }
        #expect(await !mark.hasChanged())
    }

    @Test("all nodes present one provider token, also after those who renew it at once")
    func providerToken() async throws {
        let world = World.hand(clock)
        let pem = P256.Signing.PrivateKey().pemRepresentation
        let key = try APNsKey(pem: pem, keyID: "KEY0000001", teamID: "TEAM000001")
        let teams = stores.map { APNsProviderTokens(team: key.teamID, store: $0, world: world, logger: Fixture.silent) }
        var seen: Set<String> = []
        for round in 1...3 {
            let tokens = try await withThrowingTaskGroup(of: String.self) { group in
                for team in teams {
                    group.addTask {
                        try await withCheckedContinuation { done in team.token(for: key) { done.resume(returning: $0) } }.get()
                    }
                }
                return try await group.reduce(into: Set<String>()) { $0.insert($1) }
            }
            #expect(tokens.count == 1)
            seen.formUnion(tokens)
            #expect(seen.count == round)
            clock.advance(seconds: 51 * 60)
        }
    }

    @Test("what a node found of a lane counts while the node lives, and each lane is listed once")
    func lanes() async throws {
        let lane = Lane(app: "shop", provider: .apns)
        let (part, other) = (LanePart(lane, .ios, .production), LanePart(lane, .ios, .sandbox))
        let found = LaneCondition(kind: .outage, reason: "503", since: clock.now)
        try await stores[0].write { [nodes] transaction in
            for node in nodes { try transaction.laneConditions.set(found, part, node: node.id) }
            try transaction.laneConditions.set(found, other, node: nodes[0].id)
        }
        #expect(try stores[0].readBlocking { try $0.laneConditions.all() }.isEmpty, "neither lives")
        try await keepAlive()
        #expect(try stores[0].readBlocking { try $0.laneConditions.all() }.map(\.part) == [part, other])
        try await stores[0].cluster.leave(nodes[0])
        #expect(try stores[0].readBlocking { try $0.laneConditions.all() }.map(\.part) == [part])
        try await stores[1].write { [node = nodes[1].id] in try $0.laneConditions.set(nil, part, node: node) }
        #expect(try stores[0].readBlocking { try $0.laneConditions.all() }.isEmpty)
    }
}
