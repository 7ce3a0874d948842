import CampanileCore

/// The tables `large_calls` and `large_call_parts`, which only older programs fill.
protocol LargeCallReading {
    /// The oldest first.
    func unfinished() throws -> [LargeCall]
}

protocol LargeCallRepository: LargeCallReading {
    /// Keeps everybody else from going on with the call, until the transaction ends.
    /// - Returns: how far it is; nil: it is done.
    func take(_ id: Int64) throws -> LargeCall?

    /// The call is done: its parts go with it.
    func delete(_ call: Int64) throws

    /// What is still to be created isn't pushed.
    func withholdPushes() throws
}
