import CampanileCore

/// Compares the wall clock with the monotonic one, to find out whether the clock is why the provider refused a token.
/// "Offset" is wall minus monotonic, in nanoseconds; it changes only when the wall clock is set.
struct ClockWatch: Sendable {
    /// The offset at the start, or at the issue of the last token that the provider accepted.
    private var trustedOffset: Int64
    /// The offset at the issue of the present token.
    private var issueOffset: Int64

    init(_ world: World) {
        trustedOffset = ClockWatch.offset(world)
        issueOffset = trustedOffset
    }

    mutating func issue(_ world: World) { issueOffset = ClockWatch.offset(world) }

    mutating func trust() { trustedOffset = issueOffset }

    private static func offset(_ world: World) -> Int64 {
        let (wall, monotonic) = world.moment()
        return wall.milliseconds * 1_000_000 - monotonic
    }

    /// Returns how far the wall clock has been moved since it was right, in minutes; nil when it stayed within 5.
    func jumpMinutes(_ world: World) -> Int64? {
        let jumps = [ClockWatch.offset(world) - trustedOffset, issueOffset - trustedOffset]
        guard let jump = jumps.first(where: { $0.magnitude > APNsProviderTokens.clockMargin.magnitude }) else { return nil }
        return jump / Int64.minutes(1)
    }

    /// Says why the provider refuses a token that may not be renewed yet.
    func sentence(refused reason: String, age: Int64, key: APNsKey, _ world: World) -> String {
        let now = world.now()
        let said = "APNs answered \(reason)"
        if let minutes = jumpMinutes(world) {
            let way = minutes > 0 ? "forward" : "back"
            return "\(said): the clock of this machine was set \(abs(minutes)) minutes \(way) and says \(now)."
        }
        if reason == "ExpiredProviderToken" {
            return "\(said) to a token made \(age / Int64.minutes(1)) minutes ago: "
                + "the clock of this machine is wrong, it says \(now)."
        }
        return "\(said): key \(key.keyID), team \(key.teamID) and the key file don't belong together, the key was "
            + "revoked, or the clock of this machine is wrong, it says \(now)."
    }
}

extension World {
    /// Both clocks at one moment: reads again if the process was stopped in between.
    func moment() -> (wall: Timestamp, monotonic: Int64) {
        var before = monotonic()
        for _ in 0..<3 {
            let wall = now()
            let after = monotonic()
            if after - before < .milliseconds(100) { return (wall, after) }
            before = after
        }
        return (now(), before)
    }
}
