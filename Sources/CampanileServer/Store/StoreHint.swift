import CampanileCore

/// A thing that a write will look at and change, named before it begins. A store that orders writes by locks takes the locks of a
/// group of writes at once and in one order, reads all of it in one go, and runs writes with the same first hint one after the
/// other. A hint that is missing costs time and changes nothing else, and so does one too many. SQLite needs none.
package enum StoreHint: Hashable, Sendable {
    /// The inbox of a user, whether there is one or not, and the devices in it.
    case user(app: String, userID: String)
    /// An inbox that is known, and the devices in it.
    case inbox(InboxID)
    /// A device to be settled or claimed, without its inbox.
    case device(DeviceID)
    /// A device that registers, whoever's it is until then.
    case token(app: String, String)
    /// The series of an app's broadcasts.
    case broadcasts(app: String)
    /// A producer's `Idempotency-Key`.
    case key(String, producer: APIKeyID)
}
