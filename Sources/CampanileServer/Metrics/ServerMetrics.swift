import CampanileCore
import HTTPEngine
import SQLEngine
import SystemSupport

/// The figures that a server tells of itself to those who watch it. Counters count from its start.
struct ServerMetrics: Sendable {
    /// The counts of requests; nil when they aren't counted.
    let requests: RequestCounts?
    let database: Store
    let deliveryWorker: DeliveryWorker
    let owed: OwedAlerts
    let badgeDrift: BadgeDrift
    let realtime: Realtime
    /// The lanes that the configuration has credentials for: they are shown from the start.
    let configuredLanes: Set<Lane>
    /// Tells whether the sandbox takes the pushes of a lane.
    let isSandboxed: @Sendable (Lane) -> Bool
    /// Gives the time at which the newest of the server's own backups was begun, if there is one; nil when it makes none.
    let newestBackup: (@Sendable (_ now: Timestamp) -> Timestamp?)?
    let startedAt: Timestamp
    let world: World

    /// Everything in the format of OpenMetrics, without what concerns apps that aren't for the caller. What can't be found out
    /// now is left out. Takes milliseconds, and longer the more alerts are owed: not for a thread that others wait for.
    func text(for insight: Insight) async -> [UInt8] {
        var text = OpenMetricsText()
        writeRequests(&text)
        writeLanes(&text, await lanes(insight))
        writeBadges(&text)
        writeStreams(&text)
        writeDatabase(&text, await database.sizes())
        writeBackups(&text)
        writeProcess(&text)
        return text.finish()
    }

    private func writeRequests(_ text: inout OpenMetricsText) {
        let series = requests?.series ?? []
        text.family(
            "campanile_http_requests", .counter,
            "Requests that are over, by the pattern of their route, method and status; 0 if the client left before its answer.")
        for one in series {
            for (status, count) in one.statuses {
                text.add([("route", one.route), ("method", one.method), ("status", status)], count)
            }
        }
        text.family(
            "campanile_http_request_duration_seconds", .histogram, unit: "seconds",
            "Time from the request line to the end of the answer, or until a stream began.")
        for one in series {
            text.add([("route", one.route), ("method", one.method)], one.nanoseconds, perUnit: 1_000_000_000)
        }
    }

    private func writeBadges(_ text: inout OpenMetricsText) {
        let (recounted, found) = badgeDrift.counts
        text.family("campanile_badge_recounts", .counter, "Inboxes whose counts were held against a recount.")
        text.add([], recounted)
        text.family("campanile_badge_drift", .counter, "Those of them that were wrong.")
        text.add([], found)
    }

    private func writeStreams(_ text: inout OpenMetricsText) {
        let events = realtime.shards.map(\.loop.statistics)
        let cable = realtime.cable.counts
        func both(_ name: String, _ kind: OpenMetricsText.Kind, _ help: String, _ ofEvents: Int, _ ofCable: Int) {
            text.family(name, kind, help)
            text.add([("kind", "events")], ofEvents)
            text.add([("kind", "cable")], ofCable)
        }
        both(
            "campanile_streams_open", .gauge, "Open streams: event streams, and WebSockets on /cable.",
            events.reduce(0) { $0 + $1.open }, cable.open)
        both(
            "campanile_streams_opened", .counter, "Streams that were opened.", events.reduce(0) { $0 + Int($1.opened) },
            cable.accepted)
        both(
            "campanile_streams_cut", .counter, "Streams that were cut because their reader was too slow.",
            events.reduce(0) { $0 + Int($1.cutAsTooSlow) }, cable.cutOff)
        let broadcasts = realtime.broadcasts.counts
        text.family("campanile_broadcasts", .counter, "Broadcasts of apps that this process took, each once for its id.")
        text.add([], broadcasts.taken)
        text.family("campanile_broadcast_histories", .counter, "Cable clients that asked for what they missed.")
        for (reply, count) in broadcasts.histories { text.add([("outcome", reply.word)], count) }
    }

    private func writeDatabase(_ text: inout OpenMetricsText, _ sizes: (file: Int?, log: Int?)) {
        let writer = database.writerStatistics
        text.family("campanile_writer_group_size", .histogram, "Writes that were made in one transaction.")
        text.add([], writer.groupSizes)
        text.family(
            "campanile_writer_commit_duration_seconds", .histogram, unit: "seconds",
            "Time of the commits, most of it the disk's.")
        text.add([], writer.commitNanoseconds, perUnit: 1_000_000_000)
        text.family(
            "campanile_writer_hold_duration_seconds", .histogram, unit: "seconds",
            "Time that one write held the writer with its own statements, without the commit.")
        text.add([], writer.holdNanoseconds, perUnit: 1_000_000_000)
        text.family("campanile_writer_waiting", .gauge, "Writes that wait for the writer.")
        text.add([], database.waitingWrites)
        text.family("campanile_writer_refusals", .counter, "Writes that failed because the database couldn't be written.")
        text.add([], database.refusals.count)
        text.family("campanile_database_size_bytes", .gauge, unit: "bytes", "Size of the database's file.")
        if let size = sizes.file { text.add([], size) }
        text.family(
            "campanile_database_wal_size_bytes", .gauge, unit: "bytes",
            "Size of the write-ahead log's file, which keeps its size when the log begins anew.")
        if let size = sizes.log { text.add([], size) }
    }

    private func writeBackups(_ text: inout OpenMetricsText) {
        text.family(
            "campanile_backup_age_seconds", .gauge, unit: "seconds",
            "Time since the newest of the server's own backups was begun; infinite while there is none.")
        guard let newestBackup else { return }
        let now = world.now()
        // An alarm for an old one must find one that was never made, too.
        guard let newest = newestBackup(now) else { return text.add([], "+Inf") }
        text.add([], OpenMetricsText.decimal(UInt64(now.milliseconds - newest.milliseconds), per: 1_000))
    }

    /// Under the names that Prometheus' own libraries use.
    private func writeProcess(_ text: inout OpenMetricsText) {
        let figures = ProcessFigures()
        text.family("process_resident_memory_bytes", .gauge, unit: "bytes", "Resident memory.")
        if let bytes = figures.residentBytes { text.add([], bytes) }
        text.family("process_open_fds", .gauge, "Open descriptors.")
        if let count = figures.openDescriptors { text.add([], count) }
        text.family("process_max_fds", .gauge, "The most descriptors that may be open.")
        if let count = figures.descriptorLimit { text.add([], count) }
        text.family("process_cpu_seconds", .counter, unit: "seconds", "Processor time, of the program and of the system for it.")
        text.add([], OpenMetricsText.decimal(figures.cpuNanoseconds, per: 1_000_000_000))
        text.family("process_start_time_seconds", .gauge, unit: "seconds", "When the server started, since 1970 UTC.")
        text.add([], OpenMetricsText.decimal(UInt64(max(0, startedAt.milliseconds)), per: 1_000))
    }
}
