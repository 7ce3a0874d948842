package import CampanileCore

/// One running program among those that serve a PostgreSQL database together.
package struct ServerNode: Sendable {
    /// Of this start: a program that starts again is another node.
    package let id: UUIDv7
    /// The host's name, for people.
    package let name: String
    package let version: String
    /// The address at which it serves: host and port.
    package let address: String

    package init(id: UUIDv7, name: String, version: String, address: String) {
        self.id = id
        self.name = name
        self.version = version
        self.address = address
    }
}

/// A node as the others see it.
package struct NodeReport: Sendable {
    package let node: ServerNode
    package let startedAt: Timestamp
    /// The time at which it was last heard of, and the time since, both by the database's clock.
    package let seenAt: Timestamp
    package let silentMilliseconds: Int64
    /// The shards of device tokens whose pushes it sends.
    package let shards: Int

    /// True while the others count on it.
    package var isAlive: Bool { silentMilliseconds < Limits.nodeSilenceMilliseconds }
}
