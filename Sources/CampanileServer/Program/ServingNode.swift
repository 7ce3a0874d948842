import CampanileCore

/// This process among those that serve its database: alone with a file (`AloneNode`), or one of a cluster's nodes (`ClusterNode`).
/// The two nodes and their leases (`PushLeases`) decide all that differs between a file and a cluster. The store decides the rest: SQL, and
/// how it reads and writes.
protocol ServingNode: Sendable {
    /// The device tokens whose pushes this process sends.
    var leases: any PushLeases { get }

    /// The number of badges that may be kept in memory: none where another process' change would be missed for a moment.
    var rememberedBadges: Int { get }

    /// True when retention begins with a run, and not where the last one was.
    var beginsWithRetention: Bool { get }

    /// Tells the parts what happens to the database, before they serve.
    func follow(_ parts: Startup.Parts)

    /// Makes this process known as one that serves, on this port.
    func join(_ parts: Startup.Parts, port: UInt16) throws

    /// Sends again what an earlier process had in flight, if no other does.
    func recover(_ parts: Startup.Parts) async

    /// Works for the cluster until cancelled.
    func run() async

    /// Ends: nothing is in flight any more.
    func leave() async

    /// Takes back what made the process known, after a start that failed.
    func withdraw() async
}
