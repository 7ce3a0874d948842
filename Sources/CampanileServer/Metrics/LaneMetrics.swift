import CampanileCore

/// The part about lanes: the pushes of each app to each provider, and what they wait for.
extension ServerMetrics {
    /// A lane with all that is known of it.
    struct LaneFigures: Sendable {
        let lane: Lane
        var report = LaneReport()
        /// The alerts that are owed; nil when there are none, or when the database can't say.
        var owed: OwedAlerts.Tally?

        mutating func add(_ other: LaneReport?, _ tally: OwedAlerts.Tally?) {
            if let other {
                report.inFlight += other.inFlight
                report.condition = report.condition ?? other.condition
                report.answers.merge(other.answers, uniquingKeysWith: +)
            }
            if let tally {
                let known = owed ?? OwedAlerts.Tally()
                owed = OwedAlerts.Tally(count: known.count + tally.count, oldest: min(known.oldest, tally.oldest))
            }
        }
    }

    /// The lanes for a caller, in order.
    func lanes(_ insight: Insight) async -> (known: [LaneFigures], isOwedKnown: Bool) {
        let reports = deliveryWorker.pushes.laneReports
        let owed = try? await self.owed.byLane()
        var figures: [Lane: LaneFigures] = [:]
        // What is counted by itself stays by itself: a counter that moved to the others' would seem to fall.
        let named = configuredLanes.union(reports.filter { !$0.value.answers.isEmpty }.keys)
        for lane in named where insight.covers(lane.app) { figures[lane] = LaneFigures(lane: lane) }
        // Only what the caller may see is told apart, or not: the lanes of one app are few.
        for lane in Set(reports.keys).union((owed ?? [:]).keys).sorted() where insight.covers(lane.app) {
            let isNamed = figures[lane] != nil || figures.count < Limits.namedLanes
            let shown = isNamed ? lane : .others(lane.provider)
            figures[shown, default: LaneFigures(lane: shown)].add(reports[lane], owed?[lane])
        }
        return (figures.values.sorted { $0.lane < $1.lane }, owed != nil)
    }

    func writeLanes(_ text: inout OpenMetricsText, _ lanes: (known: [LaneFigures], isOwedKnown: Bool)) {
        writeConditions(&text, lanes.known)
        text.family(
            "campanile_push_answers", .counter,
            "Answers of the providers, or of the sandbox, by what they come to: alerts, and badge pushes.")
        for one in lanes.known {
            for (meaning, count) in one.report.answers.sorted(by: { $0.key < $1.key }) {
                let what: OpenMetricsText.Labels = [
                    ("kind", meaning.isAlert ? "alert" : "badge"), ("outcome", meaning.word.rawValue),
                ]
                text.add(labels(one.lane) + what, count)
            }
        }
        text.family("campanile_pushes_in_flight", .gauge, "Pushes that were sent and not answered.")
        for one in lanes.known { text.add(labels(one.lane), one.report.inFlight) }
        text.family("campanile_deliveries_owed", .gauge, "Alerts that wait in the database.")
        if lanes.isOwedKnown { for one in lanes.known { text.add(labels(one.lane), one.owed?.count ?? 0) } }
        text.family(
            "campanile_deliveries_oldest_owed_age_seconds", .gauge, unit: "seconds",
            "Time since the notification of the oldest alert that waits was created; 0 if none waits.")
        if lanes.isOwedKnown { for one in lanes.known { text.add(labels(one.lane), age(one.owed)) } }
    }

    private func age(_ owed: OwedAlerts.Tally?) -> String {
        let milliseconds = owed.map { max(0, world.now().milliseconds - $0.oldest.milliseconds) } ?? 0
        return OpenMetricsText.decimal(UInt64(milliseconds), per: 1_000)
    }

    private func writeConditions(_ text: inout OpenMetricsText, _ lanes: [LaneFigures]) {
        text.family(
            "campanile_lane_condition", .gauge,
            "1 for how a lane is: running, sandbox (no credentials: no device gets its pushes), outage or parked.")
        for one in lanes {
            let present = one.report.condition?.kind.rawValue ?? (isSandboxed(one.lane) ? "sandbox" : "running")
            for condition in ["running", "sandbox", "outage", "parked"] {
                text.add(labels(one.lane) + [(name: "condition", value: condition)], condition == present ? 1 : 0)
            }
        }
    }

    private func labels(_ lane: Lane) -> OpenMetricsText.Labels {
        [(name: "app", value: lane.app), (name: "provider", value: lane.provider.rawValue)]
    }
}
