import CampanileCore

/// The tables `large_calls` and `large_call_parts`.
protocol LargeCallReading {
    /// The oldest first.
    func unfinished() throws -> [LargeCall.Unfinished]

    /// Whose these calls are. None on SQLite: its one server takes up what is unfinished when it starts.
    func holders() throws -> [LargeCall.Holder]
}

protocol LargeCallRepository: LargeCallReading {
    /// - Parameter node: who goes on with it; nil: the one server of a SQLite file, or whichever node finds it first.
    func insert(_ new: NewNotification, app: String, key: IdempotencyKey?, node: UUIDv7?) throws -> LargeCall

    /// Gives the node those of the calls that are still as they were seen. Whoever had one does nothing more of it.
    func takeOver(_ calls: [LargeCall.Holder], by node: UUIDv7) throws -> [LargeCall.Unfinished]

    /// Makes sure that the call is still the caller's, until the transaction ends.
    /// - Parameter done: for how many users the caller knows that it is done.
    /// - Returns: what it is done for beyond that. Something only if the answer to an earlier commit was lost.
    /// - Throws: `LargeCall.TakenOver`
    func hold(_ call: LargeCall, after done: Int) throws -> [UUIDv7]

    /// Notes the notifications of the next users.
    /// - Parameter done: for how many users the call is done already.
    func add(_ part: [Recipient], to call: Int64, after done: Int) throws

    /// The call is done: its parts go with it.
    func delete(_ call: Int64) throws

    /// What is still to be created isn't pushed.
    func withholdPushes() throws
}
