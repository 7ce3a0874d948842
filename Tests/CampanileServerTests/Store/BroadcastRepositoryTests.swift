import CampanileCore
import Logging
import SQLEngine
import Testing

@testable import CampanileServer

/// A series of broadcasts: it keeps, drops, and tells those who come back.
@Suite("Broadcasts in the database")
struct BroadcastRepositoryTests {
    private let fixture: Fixture

    init() throws { fixture = try Fixture() }

    private static func keeping(_ perStream: Int = 100, bytes: Int64 = 1 << 20, milliseconds: Int64 = 60_000) -> BroadcastKeeping
    {
        var keeping = BroadcastKeeping()
        keeping.perStream = perStream
        keeping.bytes = bytes
        keeping.milliseconds = milliseconds
        return keeping
    }

    private static func broadcast(_ stream: String, _ text: String, id: String? = nil) -> Broadcast {
        Broadcast(stream: stream, id: id, message: "\"\(text)\"")
    }

    @discardableResult
    private func add(_ broadcasts: [Broadcast], app: String = "shop", _ keeping: BroadcastKeeping = keeping()) async throws -> Int
    {
        try await fixture.store.write { try $0.broadcasts.add(broadcasts, app: app, keeping) { "epoch-\(app)" } }
    }

    private func start(
        _ stream: String, app: String = "shop", _ place: BroadcastPlace, _ keeping: BroadcastKeeping = keeping()
    ) throws -> BroadcastStart {
        try fixture.store.readBlocking { try $0.broadcasts.start(of: stream, app: app, from: place, keeping) }
    }

    private func part(_ stream: String, after offset: Int64, _ keeping: BroadcastKeeping = keeping()) throws -> BroadcastPart {
        try fixture.store.readBlocking { try $0.broadcasts.part(of: stream, app: "shop", after: offset, keeping) }
    }

    private func after(_ offset: Int64, epoch: String = "epoch-shop") -> BroadcastPlace {
        .after(BroadcastPosition(epoch: epoch, offset: offset))
    }

    @Test("an app's broadcasts form one series, whatever their streams, and each app has its own")
    func series() async throws {
        #expect(try await add([Self.broadcast("a", "1"), Self.broadcast("b", "2")]) == 2)
        #expect(try await add([Self.broadcast("a", "3")]) == 1)
        #expect(try await add([Self.broadcast("a", "other")], app: "other") == 1)
        let all = try fixture.store.readBlocking { try $0.broadcasts.after(0, app: "shop", limit: 10) }
        #expect(all.map(\.offset) == [1, 2, 3])
        #expect(all.map(\.message) == ["\"1\"", "\"2\"", "\"3\""])
        #expect(try part("a", after: 0).broadcasts.map(\.offset) == [1, 3])
        #expect(
            try fixture.store.readBlocking { try $0.broadcasts.series(of: "other")?.position }
                == BroadcastPosition(epoch: "epoch-other", offset: 1))
    }

    @Test("an id goes once while it is kept, in a call and in later ones, and another app's is another")
    func ids() async throws {
        #expect(try await add([Self.broadcast("a", "1", id: "x"), Self.broadcast("a", "2", id: "x")]) == 1)
        #expect(try await add([Self.broadcast("b", "3", id: "x"), Self.broadcast("b", "4", id: "y")]) == 1)
        #expect(try await add([Self.broadcast("a", "5", id: "x")], app: "other") == 1)
        #expect(try part("a", after: 0).broadcasts.map(\.message) == ["\"1\""])
        #expect(try part("b", after: 0).broadcasts.map(\.message) == ["\"4\""])
    }

    @Test("an id is known for a minute, also of one that its stream has no place for")
    func idBeyondPlace() async throws {
        let keeping = Self.keeping(3, milliseconds: 300_000)
        let repeated = [Self.broadcast("a", "1", id: "x")]
        try await add(repeated, keeping)
        for seconds in [0, 45] {
            fixture.clock.advance(milliseconds: Int64(seconds) * 1_000)
            for _ in 0..<6 { try await add([Self.broadcast("a", "other")], keeping) }
            #expect(try await add(repeated, keeping) == 0)
        }
        fixture.clock.advance(milliseconds: 16_000)
        try await add([Self.broadcast("a", "other")], keeping)
        #expect(try await add(repeated, keeping) == 1)
    }

    @Test("whoever is as far behind as is kept goes on there, and one further behind is told")
    func perStream() async throws {
        let keeping = Self.keeping(3)
        for number in 1...6 { try await add([Self.broadcast("a", "\(number)"), Self.broadcast("b", "x")], keeping) }
        // The offsets of "a" are 1, 3, 5, 7, 9, 11.
        #expect(try start("a", after(5), keeping) == .after(5))
        #expect(try part("a", after: 5, keeping).broadcasts.map(\.message) == ["\"4\"", "\"5\"", "\"6\""])
        #expect(try start("a", after(4), keeping) == .lost)
        #expect(try part("a", after: 4, keeping).hasGap)
    }

    @Test("what was dropped under fewer for a stream is missing under more too")
    func raised() async throws {
        for number in 1...6 { try await add([Self.broadcast("a", "\(number)")], Self.keeping(3, milliseconds: 300_000)) }
        fixture.clock.advance(milliseconds: 60_001)
        let more = Self.keeping(100, milliseconds: 300_000)
        try await add([Self.broadcast("a", "7")], Self.keeping(3, milliseconds: 300_000))
        #expect(try start("a", after(3), more) == .lost)
        #expect(try start("a", after(4), more) == .after(4))
        #expect(try part("a", after: 4, more).broadcasts.map(\.offset) == [5, 6, 7])
    }

    @Test("what is new is whole unless some of it was dropped, whatever gap a promoted standby left")
    func news() async throws {
        let keeping = Self.keeping(3, milliseconds: 300_000)
        func isWhole(after offset: Int64) throws -> Bool {
            try fixture.store.readBlocking { try $0.broadcasts.news(of: "shop", after: offset, limit: 100).isWhole }
        }
        for number in 1...6 { try await add([Self.broadcast("a", "\(number)")], keeping) }
        #expect(try isWhole(after: 0))
        fixture.clock.advance(milliseconds: 60_001)
        try await add([Self.broadcast("a", "7")], keeping)
        // As many are left as a stream may have: 5, 6 and 7.
        #expect(try (0...5).map(isWhole) == [false, false, false, false, true, true])
        try await fixture.store.write {
            try $0.writing.run("UPDATE broadcasts SET sequence = 17 WHERE sequence = 7")
            try $0.writing.run("UPDATE broadcast_series SET last_sequence = 17")
        }
        #expect(try (3...6).map(isWhole) == [false, true, true, true])
        fixture.clock.advance(milliseconds: 300_001)
        _ = try await fixture.store.write { try $0.broadcasts.purge(app: "shop", keeping, limit: 100) }
        #expect(try [6, 16, 17].map(isWhole) == [false, false, true])
    }

    @Test(
        "the housekeeping keeps broadcasts for as long as the settings say, whether more or less than usual",
        arguments: [60, 3_600])
    func kept(_ seconds: Int64) async throws {
        var configuration = Configuration()
        configuration.broadcasts = Self.keeping(milliseconds: seconds * 1_000)
        let housekeeping = Housekeeping(
            database: fixture.store, configuration: configuration, world: fixture.world, logger: Logger(label: "test"),
            pause: .zero)
        try await add([Self.broadcast("a", "old")], configuration.broadcasts)
        fixture.clock.advance(seconds: 20)
        try await add([Self.broadcast("a", "young")], configuration.broadcasts)
        func left(after more: Int64) async throws -> [Int64] {
            fixture.clock.advance(seconds: more)
            try await housekeeping.tidyUp()
            return try fixture.store.readBlocking { try $0.broadcasts.after(0, app: "shop", limit: 10) }.map(\.offset)
        }
        #expect(try await left(after: seconds - 25) == [1, 2])
        #expect(try await left(after: 10) == [2])
        #expect(try await left(after: 20) == [])
    }

    @Test("what was dropped stays known where nodes' clocks differ")
    func clocks() async throws {
        let keeping = Self.keeping(1, milliseconds: 300_000)
        fixture.clock.advance(milliseconds: 10_000)
        try await add([Self.broadcast("a", "1")], keeping)
        fixture.clock.advance(milliseconds: -10_000)
        try await add([Self.broadcast("a", "2")], keeping)
        fixture.clock.advance(milliseconds: 60_001)
        try await add([Self.broadcast("a", "3")], keeping)
        let kept = try fixture.store.readBlocking { try $0.broadcasts.after(0, app: "shop", limit: 10) }
        #expect(kept.map(\.offset) == [1, 3], "the clock of the first was ahead")
        fixture.clock.advance(milliseconds: 260_000)
        _ = try await fixture.store.write { try $0.broadcasts.purge(app: "shop", keeping, limit: 100) }
        #expect(try start("a", after(1), keeping) == .lost)
        #expect(try start("a", after(2), keeping) == .after(2))
    }

    @Test("a place of another series, or beyond the last broadcast, is none")
    func foreign() async throws {
        try await add([Self.broadcast("a", "1")])
        #expect(try start("a", after(1)) == .after(1))
        #expect(try start("a", after(2)) == .lost)
        #expect(try start("a", after(1, epoch: "another")) == .lost)
        #expect(try start("a", app: "silent", after(1)) == .lost)
        #expect(try start("a", app: "silent", after(0)) == .after(0))
    }

    @Test("what has had its time, and what has no room, is dropped, the oldest first")
    func dropped() async throws {
        try await add([Self.broadcast("a", "old")])
        fixture.clock.advance(milliseconds: 60_001)
        try await add([Self.broadcast("a", "new")])
        #expect(try start("a", after(0)) == .lost)
        #expect(try start("a", after(1)) == .after(1))
        let large = String(repeating: "x", count: 400_000)
        for _ in 0..<3 { try await add([Self.broadcast("a", large)]) }
        let kept = try fixture.store.readBlocking { try $0.broadcasts.after(0, app: "shop", limit: 10) }
        #expect(kept.map(\.offset) == [4, 5])
        let bytes = try fixture.store.readBlocking { try $0.broadcasts.series(of: "shop")?.bytes }
        #expect(bytes == Int64(kept.reduce(0) { $0 + $1.message.utf8.count + 1 }))
    }

    @Test("whoever listens to a silent stream isn't told that something is missing when others' broadcasts are dropped")
    func silentStreams() async throws {
        try await add([Self.broadcast("busy", "1"), Self.broadcast("silent", "2")])
        fixture.clock.advance(milliseconds: 60_001)
        let later = Timestamp(milliseconds: fixture.clock.now.milliseconds - 1)
        try await add([Self.broadcast("busy", "3")])
        #expect(try start("never", after(0)) == .after(0))
        #expect(try part("never", after: 0) == BroadcastPart(through: 3))
        #expect(try start("silent", after(2)) == .after(2))
        #expect(try start("silent", .since(later)) == .after(3))
        for stream in ["silent", "busy"] {
            #expect(try start(stream, after(0)) == .lost)
            #expect(try part(stream, after: 0).hasGap)
        }
    }

    @Test("of streams beyond those that are remembered it is said that something may be missing")
    func forgottenStreams() async throws {
        for number in 1...5 { try await add([Self.broadcast("\(number)", "x")]) }
        fixture.clock.advance(milliseconds: 60_001)
        for _ in 0..<2 {
            _ = try await fixture.store.write { try $0.broadcasts.purge(app: "shop", Self.keeping(), limit: 100, streams: 2) }
        }
        #expect(try (2...4).map { try start("never", after($0)) } == [.lost, .after(3), .after(4)])
        #expect(try start("5", after(4)) == .lost)
        #expect(try start("5", after(5)) == .after(5))
        #expect(try start("1", after(3)) == .after(3))
    }

    @Test("from a time on comes what was broadcast then, unless something from then on was dropped")
    func since() async throws {
        try await add([Self.broadcast("a", "1")])
        let between = Timestamp(milliseconds: fixture.clock.now.milliseconds + 500)
        fixture.clock.advance(milliseconds: 1_000)
        try await add([Self.broadcast("a", "2")])
        #expect(try start("a", .since(between)) == .after(1))
        #expect(try start("a", .since(Timestamp(milliseconds: 0))) == .lost)
        fixture.clock.advance(milliseconds: 60_000)
        try await add([Self.broadcast("b", "3")])
        #expect(try start("a", .since(between)) == .lost)
    }

    @Test("a part holds as much as one message may have, and says where the next begins")
    func parts() async throws {
        let text = String(repeating: "x", count: 30_000)
        for _ in 0..<5 { try await add([Self.broadcast("a", text)]) }
        try await add([Self.broadcast("b", "x")])
        let first = try part("a", after: 0)
        #expect((first.broadcasts.map(\.offset), first.through, first.isWhole) == ([1, 2], 2, false))
        let last = try part("a", after: 4)
        #expect((last.broadcasts.map(\.offset), last.through, last.isWhole) == ([5], 6, true))
    }

    @Test("a restored database begins other series")
    func restored() async throws {
        try await add([Self.broadcast("a", "1")])
        fixture.clock.advance(milliseconds: 1_000)
        try await fixture.store.write { try $0.broadcasts.forgetAll { "later" } }
        let position = try await fixture.store.write { try $0.broadcasts.begin(app: "shop") { "never" }.position }
        #expect(position == BroadcastPosition(epoch: "later", offset: 1))
        #expect(try start("a", after(1)) == .lost)
        let now = fixture.clock.now.milliseconds
        #expect(try start("a", .since(Timestamp(milliseconds: now - 500))) == .lost)
        #expect(try start("a", .since(Timestamp(milliseconds: now + 1))) == .after(1))
    }
}
