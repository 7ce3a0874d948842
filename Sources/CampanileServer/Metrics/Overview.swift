import CampanileCore

/// The state of one app on the server, which its operators see first.
struct Overview: Sendable {
    /// The app's pushes to one provider.
    struct Provider: Sendable {
        let provider: DeviceProvider
        let isSandboxed: Bool
        let report: LaneReport
        /// The alerts that are owed; nil when the database can't say.
        let owed: OwedAlerts.Tally?
        let answers: [LastHour.Answers?]
    }

    let app: String
    let now: Timestamp
    let startedAt: Timestamp
    let providers: [Provider]
    let lastHour: LastHour.Reading
    /// The app's own streams that pages listen to on this node.
    let heard: HeardStreams
    /// None of the app's tokens is deleted before this time, because too many died at once.
    let sparesTokensUntil: Timestamp?
}

extension ServerMetrics {
    /// Takes as long as counting what is owed: not for a thread that others wait for.
    func overview(of app: String) async -> Overview {
        let owed = try? await self.owed.byLane()
        let now = world.now()
        let reports = deliveryWorker.pushes.laneReports
        let lastHour = deliveryWorker.pushes.lastHour.reading(of: app, at: now)
        let providers = DeviceProvider.allCases.map { provider in
            let lane = Lane(app: app, provider: provider)
            return Overview.Provider(
                provider: provider, isSandboxed: isSandboxed(lane), report: reports[lane] ?? LaneReport(),
                owed: owed.map { $0[lane] ?? OwedAlerts.Tally() }, answers: lastHour.answers[provider] ?? [])
        }
        return Overview(
            app: app, now: now, startedAt: startedAt, providers: providers, lastHour: lastHour,
            heard: await realtime.broadcasts.heard(of: ExactText(app)),
            sparesTokensUntil: deliveryWorker.exchange.sparesTokens(of: app))
    }
}
