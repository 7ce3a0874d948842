import CSQLite

/// The prepared statements of one connection, found by the address of their text. Open addressing, at most half full.
/// It never removes a statement, because a program has a fixed number of texts.
///
/// A dictionary would hash the address with SipHash and count references: more than a tenth of a one-row read.
struct StatementTable: ~Copyable {
    private struct Slot {
        /// 0 is a free slot: no text lies at address 0.
        var address: UInt
        var statement: OpaquePointer?
    }

    private var slots: UnsafeMutableBufferPointer<Slot>
    private var count = 0

    init() {
        slots = Self.emptySlots(64)
    }

    deinit {
        slots.deallocate()
    }

    func find(_ address: UInt) -> OpaquePointer? {
        var index = start(address)
        while true {
            let slot = slots[index]
            if slot.address == address { return slot.statement }
            if slot.address == 0 { return nil }
            index = (index + 1) & (slots.count - 1)
        }
    }

    mutating func insert(_ statement: OpaquePointer, at address: UInt) {
        if (count + 1) * 2 > slots.count { grow() }
        place(Slot(address: address, statement: statement))
        count += 1
    }

    /// Frees every statement. The table is empty afterwards.
    mutating func finalizeAll() {
        for index in slots.indices {
            sqlite3_finalize(slots[index].statement)
            slots[index] = Slot(address: 0, statement: nil)
        }
        count = 0
    }

    private mutating func grow() {
        let old = slots
        slots = Self.emptySlots(old.count * 2)
        for slot in old where slot.address != 0 { place(slot) }
        old.deallocate()
    }

    private func place(_ slot: Slot) {
        var index = start(slot.address)
        while slots[index].address != 0 { index = (index + 1) & (slots.count - 1) }
        slots[index] = slot
    }

    /// Fibonacci hashing: the upper bits of the product depend on all bits of the address.
    private func start(_ address: UInt) -> Int {
        Int((address &* 0x9E37_79B9_7F4A_7C15) >> 32) & (slots.count - 1)
    }

    private static func emptySlots(_ count: Int) -> UnsafeMutableBufferPointer<Slot> {
        let slots = UnsafeMutableBufferPointer<Slot>.allocate(capacity: count)
        slots.initialize(repeating: Slot(address: 0, statement: nil))
        return slots
    }
}
