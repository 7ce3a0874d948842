import CampanileCore

/// The table `departed_devices`: devices that left an inbox while much was owed to them. From then on that counts as settled,
/// whatever its rows still say, and nothing of it is sent.
protocol DepartedDeviceReading {
    func isAny() throws -> Bool

    /// Whether anything is left of what was owed to a device when it left an inbox.
    func isLeft(of device: DeviceID) throws -> Bool

    func first() throws -> DepartedDevice?

    func find(_ device: DeviceID, from inbox: InboxID) throws -> DepartedDevice?
}

protocol DepartedDeviceRepository: DepartedDeviceReading {
    func insert(_ device: DeviceID, from inbox: InboxID, token: String) throws

    /// What is left of it is due before a place, the rest was settled.
    func shorten(_ departed: DepartedDevice, to end: DuePlace) throws

    /// Nothing is left of it.
    func delete(_ departed: DepartedDevice) throws
}

/// A device that left an inbox while much was owed to it.
struct DepartedDevice: Sendable {
    let device: DeviceID
    let inbox: InboxID
    let token: String
    let at: Timestamp
    /// What is left is due before this, and not after it.
    let end: DuePlace
}
