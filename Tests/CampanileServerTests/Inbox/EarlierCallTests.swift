import CampanileCore
import Foundation
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Calls for many users that a program before schema 17 began", .endsIfItHangs) struct EarlierCallTests {
    private typealias Calls = LargeCallTests

    private static func left(_ store: Store) throws -> Int { try store.readBlocking { try $0.largeCalls.unfinished() }.count }

    @Test("the next start finishes one, with a key or without, and its key gives the answer", arguments: [true, false])
    func finished(_ hasKey: Bool) async throws {
        let fixture = try Fixture()
        let new = Calls.new(Calls.names(Calls.many))
        let made = try await EarlierCall.leave(new, served: 150, key: hasKey ? Calls.key() : nil, fixture.publisher)
        #expect(try Self.left(fixture.store) == 1)
        let publisher = try Calls.restarted(fixture)
        try await publisher.finishEarlierCalls()
        try await publisher.finishEarlierCalls()
        #expect(try Self.left(fixture.store) == 0)
        #expect(try Calls.served(fixture) == (Calls.many, true))
        guard hasKey else { return }
        let (answer, isReplay) = try await publisher.publish(new, app: "default", once: Calls.key())
        #expect(isReplay)
        #expect(try Calls.ids(answer, of: new.userIDs).prefix(150).elementsEqual(made.map(\.description)))
        #expect(try Calls.served(fixture) == (Calls.many, true))
    }

    @Test("the answer to one that a later key of a name began is the name's", arguments: TestedStore.allCases)
    func ofALaterKey(_ kind: TestedStore) async throws {
        let fixture = try Fixture(on: kind)
        try await fixture.store.write { transaction in
            for hash in [[UInt8(1)], [2]] {
                try transaction.apiKeys.insert(name: "tests", app: "default", kind: .producer, hash: hash)
                _ = try transaction.apiKeys.revoke(name: "tests")
            }
        }
        let new = Calls.new(Calls.names(Calls.many))
        let first = Calls.key()
        let later = IdempotencyKey(text: first.text, producer: APIKeyID(2), fingerprint: first.fingerprint)
        try await EarlierCall.leave(new, served: 150, key: later, fixture.publisher)
        try await Calls.restarted(fixture).finishEarlierCalls()
        #expect(try await fixture.publisher.publish(new, app: "default", once: first).isReplay)
    }

    /// Has a program of the schema that the store has begin a call.
    private func begin(_ new: NewNotification, _ body: String, _ store: Store, _ world: World) async throws {
        try await store.write {
            try $0.apiKeys.insert(name: "tests", app: "default", kind: .producer, hash: APIKey.hash("cmp_k".utf8))
        }
        try await EarlierCall.leave(new, served: 150, key: Calls.key(body), publisher(store, world))
    }

    private func publisher(_ store: Store, _ world: World) throws -> Publisher {
        Publisher(
            database: store, ids: try store.idGenerator(world: world),
            badgePushes: BadgePushes(policy: .unread, syncOnRead: true, androidData: false))
    }

    @Test(
        "a database of the schema before, with one under way, opens and finishes it before anybody can repeat it",
        arguments: TestedStore.allCases)
    func upgraded(_ kind: TestedStore) async throws {
        let (folder, clock) = (TemporaryFolder(), HandClock())
        var database = folder.database
        let names = Calls.names(Calls.many)
        let body = #"{"user_ids":["\#(names.joined(separator: "\",\""))"],"title":"T"}"#
        switch kind {
        case .sqlite:
            try Migrations.migrator.migrate(path: database)
            let file = try Database(path: database)
            try await begin(Calls.new(names), body, Store(file), .hand(clock))
            // Back to schema 16, of which this program can't write.
            try file.writeBlocking { transaction in
                try transaction.connection.script(
                    """
                    DROP TABLE broadcasts;
                    DROP TABLE broadcast_series;
                    DROP TABLE lane_part_conditions;
                    CREATE TABLE lane_conditions (app TEXT NOT NULL) STRICT;
                    DROP TABLE broadcast_streams;
                    DROP TABLE external_ids;
                    DROP TABLE tenant_badges;
                    DROP TABLE app_policies;
                    ALTER TABLE inboxes DROP COLUMN badge_policy;
                    ALTER TABLE inboxes DROP COLUMN given_count;
                    DROP TABLE notification_payloads;
                    ALTER TABLE notifications DROP COLUMN edited_at;
                    ALTER TABLE notifications DROP COLUMN api_key_id;
                    ALTER TABLE notifications DROP COLUMN external_id;
                    ALTER TABLE notifications DROP COLUMN payload;
                    ALTER TABLE device_tokens DROP COLUMN kind;
                    ALTER TABLE device_tokens DROP COLUMN dismissals;
                    ALTER TABLE device_tokens DROP COLUMN emptied_at;
                    ALTER TABLE device_tokens DROP COLUMN synced_at;
                    ALTER TABLE idempotency_keys DROP COLUMN made;
                    ALTER TABLE idempotency_keys DROP COLUMN badges;
                    PRAGMA user_version = 16;
                    """)
            }
            file.close()
        case .postgres:
            database = try PostgresServer.shared.get().makeDatabase()
            let address = try PostgresAddress(database)
            try PostgresMigrator(migrations: PostgresMigrations.all).migrate(address)
            let session = try PostgresDatabase<PostgresStoreUnit>(address)
            try await begin(Calls.new(names), body, Store(session), .hand(clock))
            // Back to schema 2.
            try session.writeBlocking { unit in
                try unit.plainConnection.script(
                    """
                    DROP TABLE lane_part_conditions;
                    DROP INDEX device_tokens_due_part;
                    DROP TABLE broadcasts, broadcast_series, broadcast_streams, external_ids, tenant_badges, app_policies;
                    ALTER TABLE inboxes DROP COLUMN badge_policy, DROP COLUMN given_count;
                    ALTER TABLE notifications DROP COLUMN edited_at, DROP COLUMN api_key_id, DROP COLUMN external_id;
                    ALTER TABLE notifications DROP COLUMN payload;
                    ALTER TABLE device_tokens DROP COLUMN kind, DROP COLUMN dismissals, DROP COLUMN emptied_at,
                        DROP COLUMN synced_at;
                    ALTER TABLE idempotency_keys DROP COLUMN made;
                    ALTER TABLE idempotency_keys DROP COLUMN badges;
                    DROP TABLE write_proofs;
                    DELETE FROM campanile_schema WHERE version > 2
                    """)
            }
            session.close()
        }
        let server = try await RunningServer(folder: folder, clock: clock) { [database] in $0.database = database }
        try await stopping(server) { server in
            let answer = try await server.client.post(
                "/notifications", body, as: "Bearer cmp_k", headers: ["Idempotency-Key": "k"])
            #expect((answer.status, answer.header("idempotency-replayed")) == (201, "true"))
            _ = try Calls.ids(IdempotentAnswer(location: nil, body: answer.body), of: names)
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == Int64(Calls.many))
            #expect(try Self.left(server.app.store) == 0)
        }
    }

    @Test(
        "one that a listed node has under way is left to it, with its key, until the node is silent or has left",
        arguments: [true, false])
    func ofANode(_ isSilent: Bool) async throws {
        let fixture = try Fixture(on: .postgres)
        let node = ServerNode(id: fixture.ids.next(), name: "old", version: "1", address: "127.0.0.1:80")
        _ = try await fixture.store.cluster.renew(node, giving: [], isAnew: false)
        let new = Calls.new(Calls.names(Calls.many))
        try await EarlierCall.leave(new, served: 150, key: Calls.key(), node: node.id, fixture.publisher)
        let publisher = try Calls.restarted(fixture)
        try await publisher.finishEarlierCalls()
        #expect(try Self.left(fixture.store) == 1)
        #expect(await Calls.isConflict { _ = try await publisher.publish(new, app: "default", once: Calls.key()) })
        if !isSilent { try await fixture.store.cluster.leave(node) }
        try await publisher.finishEarlierCalls { $0 == node.id && isSilent }
        #expect(try Self.left(fixture.store) == 0)
        #expect(try await publisher.publish(new, app: "default", once: Calls.key()).isReplay)
        #expect(try Calls.served(fixture) == (Calls.many, true))
    }

    @Test("a node that serves finishes one that an older node leaves beside it")
    func besideAnOlderNode() async throws {
        let address = try PostgresServer.shared.get().makeDatabase()
        let server = try await RunningServer { $0.database = address }
        try await stopping(server) { server in
            let new = Calls.new(Calls.names(Calls.many))
            let publisher = try publisher(server.app.store, server.world)
            try await EarlierCall.leave(new, served: 150, key: Calls.key(), publisher)
            try await lookUntil { try Self.left(server.app.store) == 0 }
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == Int64(Calls.many))
            #expect(try await publisher.publish(new, app: "default", once: Calls.key()).isReplay)
        }
    }

    @Test("of nodes that find one at once, one finishes it")
    func once() async throws {
        let fixture = try Fixture(on: .postgres)
        let new = Calls.new(Calls.names(Calls.many))
        try await EarlierCall.leave(new, served: 150, key: Calls.key(), fixture.publisher)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<3 {
                let publisher = try Calls.restarted(fixture)
                group.addTask { try await publisher.finishEarlierCalls() }
            }
            try await group.waitForAll()
        }
        #expect(try Self.left(fixture.store) == 0)
        #expect(try Calls.served(fixture) == (Calls.many, true))
    }
}
