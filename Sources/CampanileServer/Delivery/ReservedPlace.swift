import Synchronization

/// A place in flight for a push that is claimed in the transaction that creates it. The place belongs to whoever holds it:
/// when the transaction fails or is run again, what it returned is dropped, and the place with it is free.
final class ReservedPlace: Sendable {
    private let lane: Lane
    private let courier: Courier
    private let isUsed = Atomic<Bool>(false)

    init(_ lane: Lane, of courier: Courier) {
        self.lane = lane
        self.courier = courier
    }

    /// The push goes: its answer frees the place.
    func use() { isUsed.store(true, ordering: .relaxed) }

    deinit {
        if !isUsed.load(ordering: .relaxed) { courier.giveBack(lane) }
    }
}

/// A push that goes once the transaction that claimed it is committed.
struct ReservedPush: Sendable {
    let push: ClaimedPush
    let place: ReservedPlace
}
