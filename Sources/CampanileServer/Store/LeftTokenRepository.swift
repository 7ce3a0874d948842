import CampanileCore

/// The table `left_tokens`: device tokens that left, so that an older registration doesn't bring them back.
protocol LeftTokenReading {
    /// When a token left; nil: it didn't, or came back, or it is unknown.
    func leftAt(app: String, token: String) throws -> Timestamp?
}

protocol LeftTokenRepository: LeftTokenReading {
    /// Notes that a device leaves, before it is taken out. An inbox keeps the last few of its own: whoever registers and deletes tokens
    /// all day makes nobody else's forgotten.
    func insert(_ device: DeviceID, from inbox: InboxID) throws

    func delete(app: String, token: String) throws

    /// Forgets those that left long ago.
    /// - Returns: how many; fewer than the limit when there are no more.
    func purge(before time: Timestamp, limit: Int) throws -> Int
}
