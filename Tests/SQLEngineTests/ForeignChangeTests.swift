import SQLEngine
import TestSupport
import Testing

@Suite("Changes by somebody else")
struct ForeignChangeTests {
    @Test("own writes, reads and checkpoints aren't reported, those of another connection are, once")
    func onlyForeign() throws {
        let fixture = try Fixture()
        let other = try Database(path: fixture.folder.file())
        let notices = Counter()
        fixture.database.onForeignChange { notices.add() }
        try fixture.database.pollForeignChange()
        let before = notices.current

        try fixture.database.writeBlocking { _ = try insertThing($0.connection, "own") }
        try fixture.database.checkpoint(truncate: true)
        try fixture.database.writeBlocking { _ = try insertThing($0.connection, "own again") }
        _ = try fixture.count
        try fixture.database.pollForeignChange()
        #expect(notices.current == before)

        try other.writeBlocking { _ = try insertThing($0.connection, "foreign") }
        try fixture.database.pollForeignChange()
        try fixture.database.pollForeignChange()
        #expect(notices.current == before + 1)
    }

    @Test("the notice comes by itself to a database that does nothing", .endsIfItHangs)
    func byItself() async throws {
        let fixture = try Fixture()
        let other = try Database(path: fixture.folder.file())
        let (notices, continuation) = AsyncStream.makeStream(of: Void.self)
        fixture.database.onForeignChange { continuation.yield() }
        try await other.write { _ = try insertThing($0.connection, "foreign") }
        for await _ in notices { break }
        #expect(try fixture.count == 1)
    }
}
