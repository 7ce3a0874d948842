import CampanileCore
import SQLEngine

private let found: SQL = "sequence, stream, message, except_sid"
private let knownID: SQL = "SELECT id FROM broadcasts WHERE app = $1 AND id = $2"
private let knownIDs: SQL = "SELECT id FROM broadcasts WHERE app = $1 AND id = ANY ($2)"

/// The tables `broadcasts`, `broadcast_series` and `broadcast_streams`. A transaction adds under the lock of the app's series, so offsets become visible in
/// their order.
struct BroadcastRepository<Access: StoreAccess> {
    let access: Access

    /// The series of an app; nil: it has never broadcast.
    func series(of app: String) throws -> BroadcastSeries? {
        try access.connection.first(
            """
            SELECT epoch, last_sequence, dropped_through, forgotten_through, forgotten_at, bytes FROM broadcast_series WHERE app = $1
            """, app
        ) { row in
            BroadcastSeries(
                epoch: row.text(0), lastOffset: row.number(1), droppedThrough: row.number(2),
                forgotten: Dropped(offset: row.number(3), at: row.time(4)), bytes: row.number(5))
        }
    }

    /// The apps that have broadcast.
    func apps() throws -> [String] {
        try access.connection.all("SELECT app FROM broadcast_series ORDER BY app") { $0.text(0) }
    }

    /// The last offset of each app.
    func lastOffsets() throws -> [ExactText: Int64] {
        let all = try access.connection.all("SELECT app, last_sequence FROM broadcast_series ORDER BY app") {
            (ExactText($0.text(0)), $0.number(1))
        }
        return Dictionary(uniqueKeysWithValues: all)
    }

    /// The broadcasts of an app after an offset, oldest first.
    func after(_ offset: Int64, app: String, limit: Int) throws -> [KeptBroadcast] {
        try access.connection.all(
            "SELECT \(found) FROM broadcasts WHERE app = $1 AND sequence > $2 ORDER BY sequence LIMIT $3", app, offset, limit,
            map: KeptBroadcast.init)
    }

    /// Everything that an app has broadcast after an offset.
    func news(of app: String, after offset: Int64, limit: Int) throws -> BroadcastNews {
        let series = try series(of: app)
        let broadcasts = try after(offset, app: app, limit: limit)
        let isWhole = try hasNoGap(broadcasts, after: offset, series) || !isDropped(after: offset, app: app, series)
        return BroadcastNews(series: series, broadcasts: broadcasts, isWhole: isWhole)
    }

    private func hasNoGap(_ broadcasts: [KeptBroadcast], after offset: Int64, _ series: BroadcastSeries?) -> Bool {
        zip(broadcasts, (offset + 1)...).allSatisfy { $0.offset == $1 }
            && (!broadcasts.isEmpty || series?.lastOffset ?? 0 <= offset)
    }

    /// Returns whether a broadcast after an offset was dropped. A gap alone proves no loss: a promoted standby's begin at a later offset.
    private func isDropped(after offset: Int64, app: String, _ series: BroadcastSeries?) throws -> Bool {
        guard let series else { return false }
        if series.droppedThrough > offset || series.forgotten.offset > offset { return true }
        return try access.connection.first(
            "SELECT 1 FROM broadcast_streams WHERE app = $1 AND dropped_through > $2 LIMIT 1", app, offset
        ) { _ in true } ?? false
    }

    /// Finds where a stream's listener goes on that has what came up to a place.
    func start(of stream: String, app: String, from place: BroadcastPlace, _ keeping: BroadcastKeeping) throws -> BroadcastStart {
        guard let series = try series(of: app) else {
            if case .after(let position) = place, position.offset > 0 { return .lost }
            return .after(0)
        }
        let dropped = try lastDropped(of: stream, app: app, series, keeping)
        switch place {
        case .after(let position):
            return position.offset >= dropped.offset && position.epoch == series.epoch && position.offset <= series.lastOffset
                ? .after(position.offset) : .lost
        case .since(let time):
            guard time > dropped.at else { return .lost }
            let next = try access.connection.first(
                """
                SELECT sequence FROM broadcasts WHERE app = $1 AND stream = $2 AND created_at >= $3 ORDER BY sequence LIMIT 1
                """, app, stream, time
            ) { $0.number(0) }
            return .after(next.map { $0 - 1 } ?? series.lastOffset)
        }
    }

    /// The next of a stream's broadcasts, in as many as are sent in one go.
    func part(of stream: String, app: String, after offset: Int64, _ keeping: BroadcastKeeping) throws -> BroadcastPart {
        guard let series = try series(of: app) else { return BroadcastPart(through: offset) }
        guard offset >= (try lastDropped(of: stream, app: app, series, keeping).offset) else {
            return BroadcastPart(through: offset, hasGap: true)
        }
        // Sizes first: the texts of what goes later aren't read.
        let sizes = try access.connection.all(
            "SELECT sequence, bytes FROM broadcasts WHERE app = $1 AND stream = $2 AND sequence > $3 ORDER BY sequence LIMIT $4",
            app, stream, offset, Limits.broadcastsPerLook + 1
        ) { (offset: $0.number(0), bytes: $0.number(1)) }
        var (count, bytes): (Int, Int64) = (0, 0)
        for one in sizes.prefix(Limits.broadcastsPerLook) {
            bytes += one.bytes
            guard count == 0 || bytes <= Limits.broadcastBytes else { break }
            count += 1
        }
        let isWhole = count == sizes.count
        let through = isWhole ? series.lastOffset : sizes[count - 1].offset
        let broadcasts = try access.connection.all(
            """
            SELECT \(found) FROM broadcasts WHERE app = $1 AND stream = $2 AND sequence > $3 AND sequence <= $4 ORDER BY sequence
            """, app, stream, offset, through, map: KeptBroadcast.init)
        return BroadcastPart(broadcasts: broadcasts, through: through, isWhole: isWhole)
    }

    /// The last of a stream's that is no more for clients: beyond as many as they get, or dropped.
    private func lastDropped(
        of stream: String, app: String, _ series: BroadcastSeries, _ keeping: BroadcastKeeping
    ) throws -> Dropped {
        let beyond = try access.connection.first(
            """
            SELECT sequence, created_at FROM broadcasts WHERE app = $1 AND stream = $2 ORDER BY sequence DESC LIMIT 1 OFFSET $3
            """, app, stream, keeping.perStream
        ) { Dropped(offset: $0.number(0), at: $0.time(1)) }
        let noted =
            try access.connection.first(
                "SELECT dropped_through, dropped_at FROM broadcast_streams WHERE app = $1 AND stream = $2", app, stream
            ) { Dropped(offset: $0.number(0), at: $0.time(1)) } ?? series.forgotten
        guard let beyond, beyond.offset > noted.offset else { return noted }
        return beyond
    }
}

extension BroadcastRepository where Access == StoreTransaction {
    /// Adds broadcasts to an app's series, in order, and drops what has no place or has had its time.
    /// - Parameter makeEpoch: names a new series.
    /// - Returns: how many weren't there.
    func add(_ broadcasts: [Broadcast], app: String, _ keeping: BroadcastKeeping, makeEpoch: () -> String) throws -> Int {
        var series = try lockedSeries(of: app, makeEpoch)
        var known = try known(broadcasts, app: app)
        var count = 0
        for broadcast in broadcasts {
            if let id = broadcast.id, !known.insert(ExactText(id)).inserted { continue }
            series.lastOffset += 1
            series.bytes += Int64(broadcast.bytes)
            count += 1
            try access.writing.queue(
                """
                INSERT INTO broadcasts (app, sequence, stream, id, message, except_sid, bytes, created_at)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                """, app, series.lastOffset, broadcast.stream, broadcast.id, broadcast.message, broadcast.exceptSID,
                broadcast.bytes,
                access.now)
        }
        guard count > 0 else { return 0 }
        let limit = 2 * count + Limits.broadcastsDroppedAtLeast
        for stream in Set(broadcasts.map { ExactText($0.stream) }) {
            series.bytes -= try drop(from: stream, app: app, keeping.perStream, limit: limit)
        }
        try drop(from: &series, app: app, keeping, limit: limit)
        try store(series, app: app)
        return count
    }

    /// Begins an app's series, if it has none.
    func begin(app: String, makeEpoch: () -> String) throws -> BroadcastSeries { try lockedSeries(of: app, makeEpoch) }

    /// Drops what has had its time, and forgets what was dropped of the streams that have been silent for longest.
    /// - Parameter streams: of how many it stays known.
    /// - Returns: whether there may be more.
    func purge(
        app: String, _ keeping: BroadcastKeeping, limit: Int, streams: Int = Limits.broadcastStreamsRemembered
    ) throws -> Bool {
        guard try series(of: app) != nil else { return false }
        var series = try lockedSeries(of: app) { "" }
        let before = series
        try drop(from: &series, app: app, keeping, limit: limit)
        try forget(from: &series, app: app, most: streams, limit: limit)
        if series != before { try store(series, app: app) }
        return series.droppedThrough != before.droppedThrough || series.forgotten != before.forgotten
    }

    /// A restored database begins other series: what its clients saw since the backup isn't in it.
    /// - Parameter makeEpoch: names one.
    func forgetAll(makeEpoch: () -> String) throws {
        try access.writing.run("DELETE FROM broadcasts")
        try access.writing.run("DELETE FROM broadcast_streams")
        for app in try apps() {
            try access.writing.run(
                """
                UPDATE broadcast_series SET epoch = $2, dropped_through = last_sequence, forgotten_through = last_sequence,
                    forgotten_at = $3, bytes = 0
                WHERE app = $1
                """, app, makeEpoch(), access.now)
        }
    }

    private func lockedSeries(of app: String, _ makeEpoch: () -> String) throws -> BroadcastSeries {
        if let series = try locked(app) { return series }
        try access.writing.run(
            """
            INSERT INTO broadcast_series (app, epoch, last_sequence, dropped_through, forgotten_through, forgotten_at, bytes)
            VALUES ($1, $2, $3, $3, $3, $4, 0) ON CONFLICT DO NOTHING
            """, app, makeEpoch(), (access.unit?.firstSequence ?? 1) - 1, access.now)
        guard let series = try locked(app) else {
            throw SQLError(code: .corrupt, message: "broadcast_series has no row of the app \(app)")
        }
        return series
    }

    private func locked(_ app: String) throws -> BroadcastSeries? {
        guard let unit = access.unit else { return try series(of: app) }
        try unit.plainConnection.queue("SELECT 1 FROM broadcast_series WHERE app = $1 FOR UPDATE", app)
        guard var series = try series(of: app) else { return nil }
        // The primary before a failover may have given offsets that its standby never got. Nothing else gets them.
        series.lastOffset = max(series.lastOffset, unit.firstSequence - 1)
        return series
    }

    /// The ids among those of broadcasts that the app has sent, and that are kept.
    private func known(_ broadcasts: [Broadcast], app: String) throws -> Set<ExactText> {
        let ids = broadcasts.compactMap(\.id)
        guard !ids.isEmpty else { return [] }
        switch try access.connection {
        case .sqlite(let connection):
            return Set(try ids.filter { try connection.first(knownID, app, $0) { _ in true } != nil }.map { ExactText($0) })
        case .postgres(let connection):
            return Set(try connection.all(knownIDs, app, try PostgresArray(ids)) { ExactText($0.text(0)) })
        }
    }

    /// Drops a stream's oldest beyond the newest so many. The very last stay a while, so that each node has read them and their ids are known.
    /// Looks at no more than the limit.
    /// - Returns: their bytes.
    private func drop(from stream: ExactText, app: String, _ most: Int, limit: Int) throws -> Int64 {
        let dropped = try access.writing.all(
            """
            DELETE FROM broadcasts WHERE app = $1 AND sequence IN (
                SELECT sequence FROM broadcasts WHERE app = $1 AND stream = $2 AND sequence <= (
                    SELECT sequence FROM broadcasts WHERE app = $1 AND stream = $2 ORDER BY sequence DESC LIMIT 1 OFFSET $3)
                ORDER BY sequence LIMIT $4)
                AND created_at <= $5
            RETURNING sequence, created_at, bytes
            """, app, stream.text, most, limit,
            Timestamp(milliseconds: access.now.milliseconds - Limits.broadcastGraceMilliseconds)
        ) { (Dropped(offset: $0.number(0), at: $0.time(1)), bytes: $0.number(2)) }
        if let last = dropped.map(\.0).max(by: { $0.offset < $1.offset }) { try note([stream: last], app: app) }
        return dropped.reduce(0) { $0 + $1.bytes }
    }

    /// Drops the oldest of an app that have had their time or have no room.
    private func drop(from series: inout BroadcastSeries, app: String, _ keeping: BroadcastKeeping, limit: Int) throws {
        let oldest = try access.connection.all(
            "SELECT sequence, created_at, bytes, stream FROM broadcasts WHERE app = $1 ORDER BY sequence LIMIT $2", app, limit
        ) { (dropped: Dropped(offset: $0.number(0), at: $0.time(1)), bytes: $0.number(2), stream: ExactText($0.text(3))) }
        let end = access.now.milliseconds - keeping.milliseconds
        var last: [ExactText: Dropped] = [:]
        for one in oldest {
            guard one.dropped.at.milliseconds <= end || series.bytes > keeping.bytes else { break }
            last[one.stream] = one.dropped
            series.bytes -= one.bytes
            series.droppedThrough = one.dropped.offset
        }
        guard !last.isEmpty else { return }
        try access.writing.run("DELETE FROM broadcasts WHERE app = $1 AND sequence <= $2", app, series.droppedThrough)
        try note(last, app: app)
    }

    /// Notes the last one dropped of each of some streams: what was noted before may be later, where nodes' clocks differ.
    private func note(_ last: [ExactText: Dropped], app: String) throws {
        for (stream, dropped) in last {
            try access.writing.queue(
                """
                INSERT INTO broadcast_streams (app, stream, dropped_through, dropped_at) VALUES ($1, $2, $3, $4)
                ON CONFLICT (app, stream) DO UPDATE SET dropped_through = excluded.dropped_through, dropped_at = excluded.dropped_at
                WHERE broadcast_streams.dropped_through < excluded.dropped_through
                """, app, stream.text, dropped.offset, dropped.at)
        }
    }

    /// Forgets what was dropped of the streams beyond the newest so many: of them it is only known that it may have been the last of all.
    private func forget(from series: inout BroadcastSeries, app: String, most: Int, limit: Int) throws {
        let forgotten = try access.writing.all(
            """
            DELETE FROM broadcast_streams WHERE app = $1 AND dropped_through IN (
                SELECT dropped_through FROM broadcast_streams WHERE app = $1 AND dropped_through <= (
                    SELECT dropped_through FROM broadcast_streams WHERE app = $1 ORDER BY dropped_through DESC LIMIT 1 OFFSET $2)
                ORDER BY dropped_through LIMIT $3)
            RETURNING dropped_through, dropped_at
            """, app, most, limit
        ) { Dropped(offset: $0.number(0), at: $0.time(1)) }
        if let last = forgotten.max(by: { $0.offset < $1.offset }), last.offset > series.forgotten.offset {
            series.forgotten = last
        }
    }

    private func store(_ series: BroadcastSeries, app: String) throws {
        try access.writing.queue(
            """
            UPDATE broadcast_series SET last_sequence = $2, dropped_through = $3, forgotten_through = $4, forgotten_at = $5, bytes = $6
            WHERE app = $1
            """, app, series.lastOffset, series.droppedThrough, series.forgotten.offset, series.forgotten.at, series.bytes)
    }
}

extension KeptBroadcast {
    /// Reads a row that begins with `found`.
    fileprivate init(_ row: borrowing some SQLRow & ~Copyable) {
        self.init(offset: row.number(0), stream: row.text(1), message: row.text(2), exceptSID: row.textOrNil(3))
    }
}
