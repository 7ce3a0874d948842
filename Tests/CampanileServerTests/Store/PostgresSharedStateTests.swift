import CampanileCore
import Crypto
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// What was once remembered by one process, on two nodes of one PostgreSQL database.
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
            try Publisher.generator(for: store, world: .hand(clock, seed: UInt64(number) + 1))
        }
        let nodes = generators.enumerated().map {
            ServerNode(id: $1.next(), name: "node \($0)", version: "1", address: "127.0.0.1:80")
        }
        publishers = zip(zip(stores, generators), nodes).map { made, node in
            Publisher(database: made.0, ids: made.1, badgePushes: pushes, node: node.id, logger: Fixture.silent)
        }
        (self.stores, self.nodes) = (stores, nodes)
    }

    /// Has the nodes live for the whole test, however slow the machine is: the database's clock decides.
    private func keepAlive() async throws {
        for node in nodes { _ = try await stores[0].renew(node, giving: [], isAnew: false) }
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

    private func begin(_ users: [String], _ key: IdempotencyKey) async throws -> LargeCall.Unfinished {
        let begun = try await stores[0].write { [publisher = publishers[0]] in
            try publisher.begin(LargeCallTests.new(users), app: "shop", key: key, in: $0)
        }
        return LargeCall.Unfinished(call: try #require(begun.call), done: begun.created.map(\.recipient))
    }

    @Test("a call of a node that died is finished by another, and the node does nothing more of it if it goes on")
    func takeover() async throws {
        let users = LargeCallTests.names(LargeCallTests.many)
        let key = LargeCallTests.key()
        try await keepAlive()
        let begun = try await begin(users, key)
        for publisher in publishers { try await publisher.takeOverAbandoned { _ in false } }
        #expect(try stores[1].readBlocking { try $0.largeCalls.unfinished() }.count == 1, "its node lives")
        #expect(
            await LargeCallTests.isConflict {
                _ = try await publishers[1].publish(LargeCallTests.new(users), app: "shop", once: key)
            })
        try await publishers[1].takeOverAbandoned { [node = nodes[0].id] in $0 == node }
        #expect(try stores[1].readBlocking { try $0.largeCalls.unfinished() }.isEmpty)
        await #expect(throws: LargeCall.LeftAlone.self) { try await publishers[0].finish(begun.call, after: begun.done) }
        let count = Int64(users.count)
        #expect(try stores[0].readBlocking { try $0.inboxes.sums() } == (count, count, count))
        #expect(try await publishers[0].publish(LargeCallTests.new(users), app: "shop", once: key).isReplay)
    }

    @Test("a node that goes on in the middle of a takeover stops; a part whose commit went unanswered isn't done again")
    func fenced() async throws {
        let users = LargeCallTests.names(LargeCallTests.many)
        let begun = try await begin(users, LargeCallTests.key())
        let goOn: @Sendable (Int, LargeCall) async throws -> [Recipient] = { [stores, publishers] number, call in
            try await stores[number].write { try publishers[number].goOn(call, after: begun.done, in: $0) }
        }
        let second = try await goOn(0, begun.call)
        #expect(try await goOn(0, begun.call) == second, "the same again")
        let holders = try stores[1].readBlocking { try $0.largeCalls.holders() }
        #expect(holders.map(\.node) == [nodes[0].id] && holders.map(\.isListed) == [false])
        let takeOver: @Sendable () async throws -> [LargeCall.Unfinished] = { [stores, node = nodes[1].id] in
            try await stores[1].write { try $0.largeCalls.takeOver(holders, by: node) }
        }
        let taken = try await takeOver()
        #expect(try await takeOver().isEmpty, "it isn't as it was seen any more")
        #expect(taken.map(\.done) == [begun.done + second])
        await #expect(throws: LargeCall.TakenOver.self) { _ = try await goOn(0, begun.call) }
        await publishers[1].finish(taken)
        let count = Int64(users.count)
        #expect(try stores[0].readBlocking { try $0.inboxes.sums() } == (count, count, count))
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
        let (lane, other) = (Lane(app: "shop", provider: .apns), Lane(app: "shop", provider: .fcm))
        let found = LaneCondition(kind: .outage, reason: "503", since: clock.now)
        try await stores[0].write { [nodes] transaction in
            for node in nodes { try transaction.laneConditions.set(found, lane, node: node.id) }
            try transaction.laneConditions.set(found, other, node: nodes[0].id)
        }
        #expect(try stores[0].readBlocking { try $0.laneConditions.all() }.isEmpty, "neither lives")
        try await keepAlive()
        #expect(try stores[0].readBlocking { try $0.laneConditions.all() }.map(\.lane) == [lane, other])
        try await stores[0].leave(nodes[0])
        #expect(try stores[0].readBlocking { try $0.laneConditions.all() }.map(\.lane) == [lane])
        try await stores[1].write { [node = nodes[1].id] in try $0.laneConditions.set(nil, lane, node: node) }
        #expect(try stores[0].readBlocking { try $0.laneConditions.all() }.isEmpty)
    }
}
