import CampanileCore

/// Devices that leave: what was owed to them is settled, at once or in parts.
extension StoreTransaction {
    /// Takes a device out, and settles what was owed to it.
    /// - Parameters:
    ///   - hasLeft: whether it left by itself or is dead, so that an older registration mustn't bring it back; not one that others
    ///     displaced, or that wasn't seen for long.
    ///   - limit: how much of what is owed is settled at once; the rest later, by `settleDeparted`.
    func removeDevice(_ id: DeviceID, hasLeft: Bool, limit: Int = Limits.goneAlertsPerTransaction) throws {
        guard let device = try deviceTokens.device(id) else { return }
        try settleGone(device, limit: limit)
        if hasLeft { try leftTokens.insert(id, from: device.schedule.inbox) }
        try deviceTokens.delete(id)
    }

    /// Settles what is owed and in flight to a device that leaves its inbox, at once or, if it is much, in the end.
    func settleGone(_ device: Device, limit: Int = Limits.goneAlertsPerTransaction) throws {
        let (schedule, token) = (device.schedule, device.target.token)
        if let sending = schedule.sending { try deliveries.settleGone(sending: sending, device: schedule.id, token: token) }
        let settled = try deliveries.settleGone(device: schedule.id, token: token, limit: limit)
        guard settled == limit else { return }
        try departedDevices.insert(schedule.id, from: schedule.inbox, token: token)
    }

    /// Settles as much as one transaction may of what was owed to those that left.
    func settleDeparted() throws {
        var budget = Limits.goneAlertsPerTransaction
        while budget > 0, let departed = try departedDevices.first() {
            // One costs a little even if nothing is left of it.
            budget -= try settle(departed, limit: budget) + 1
        }
    }

    /// Settles as much as one transaction may of what was owed to a device before it left an inbox to which it comes back.
    /// - Returns: false when that was not all.
    func settleDeparted(_ device: DeviceID, from inbox: InboxID) throws -> Bool {
        guard let departed = try departedDevices.find(device, from: inbox) else { return true }
        let limit = Limits.goneAlertsPerTransaction
        return try settle(departed, limit: limit) < limit
    }

    /// The latest due first, and none twice: what is owed to the device's new user is mostly due after all that is left, and isn't
    /// looked at.
    /// - Returns: how many deliveries were looked at; fewer than the limit at the end.
    private func settle(_ departed: DepartedDevice, limit: Int) throws -> Int {
        let places = try deliveries.owed(to: departed.device, before: departed.end, limit: limit)
        if let last = places.last { try deliveries.settleGone(departed, from: last) }
        if places.count == limit, let last = places.last {
            try departedDevices.shorten(departed, to: last)
        } else {
            try departedDevices.delete(departed)
        }
        return places.count
    }
}
