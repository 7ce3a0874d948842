import SQLEngine
import TestSupport
import Testing

/// Commits that wait for a standby which doesn't answer.
@Suite("Commits that wait for a standby", .endsIfItHangs) struct PostgresOverdueTests {
    private let server: PostgresServer
    private let fixture: PostgresFixture
    private let other: PostgresDatabase<Cells>

    init() throws {
        server = try PostgresServer()
        fixture = try PostgresFixture(on: server)
        other = try fixture.session()
        try server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        // A server that only reads its settings again goes on to commit without waiting until its checkpointer has read them.
        server.stop(.fast)
        try server.start()
    }

    /// One lane that gives commits up soon.
    private func hasty(_ overdue: Int) throws -> PostgresDatabase<Cells> {
        try fixture.session {
            $0.statementTimeoutMilliseconds = 0
            $0.answerMarginMilliseconds = 5_000
            $0.overdueCommits = overdue
        }
    }

    private func error(of database: PostgresDatabase<Cells>, _ cell: Int64) async -> SQLError? {
        await failures([Task { try await database.write { $0.add(1, to: cell) } }])[0]
    }

    private func waiting() throws -> Int64 {
        try other.readBlocking {
            try $0.first("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") { $0.int(0) } ?? -1
        }
    }

    private func values() throws -> [Int64] {
        try other.readBlocking { try $0.all("SELECT value FROM cells WHERE id <= 3 ORDER BY id") { $0.int(0) } }
    }

    private func answerAll() throws {
        try server.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    }

    @Test("a commit that isn't answered in time is told as unknown and never cancelled: nobody sees it before the standby has it")
    func unseen() async throws {
        let database = try hasty(8)
        let error = await error(of: database, 1)
        #expect(error?.code == .commitUnknown && error?.isUnavailable == true)
        // Behind a cancellation, which is a connection of its own and would be there by now, as this one is later.
        #expect(await self.error(of: database, 2)?.code == .commitUnknown)
        #expect(try values() == [0, 0, 0])
        try await lookUntil { try waiting() == 2 }
        try answerAll()
        try await lookUntil { try values() == [1, 1, 0] && waiting() == 0 }
    }

    @Test("beyond so many of them writes are refused at once, until the server has answered one")
    func bounded() async throws {
        let database = try hasty(2)
        for cell in [1, 2] as [Int64] { #expect(await error(of: database, cell)?.code == .commitUnknown) }
        for _ in 1...20 {
            let error = await error(of: database, 3)
            #expect(error?.code == .busy && error?.isUnavailable == true)
        }
        try await lookUntil { try waiting() == 2 }
        #expect(try values() == [0, 0, 0])
        try answerAll()
        while await error(of: database, 3)?.code == .busy {}
        // The server answers the two one after the other, and the third may come between them.
        try await lookUntil { try values() == [1, 1, 1] && waiting() == 0 }
    }

    @Test("when the server is gone they count no more")
    func gone() async throws {
        let database = try hasty(1)
        #expect(await error(of: database, 1)?.code == .commitUnknown)
        #expect(await error(of: database, 2)?.code == .busy)
        server.stop(.immediate)
        try server.start()
        // The next one waits for the standby too.
        var code = ResultCode.busy
        while code != .commitUnknown { code = await error(of: database, 2)?.code ?? .ok }
        try answerAll()
        try await lookUntil { try values()[1] == 1 }
    }
}
