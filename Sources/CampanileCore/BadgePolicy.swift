/// The notifications that the badge counts: one decision for each app. An inbox keeps the policy that it follows.
///
/// The raw value is the policy's name in the configuration file, in the environment, in the database and in the documentation.
package enum BadgePolicy: String, Sendable, CaseIterable, Codable {
    /// The number of unread notifications while the inbox is armed, 0 otherwise. Creating and un-reading arm an
    /// inbox, clearing disarms it.
    case unread

    /// The number of unread notifications that came after the last clearing.
    case sinceOpened = "since_opened"

    /// The number that a producer gives, because the app has its own inbox elsewhere. No event of the inbox changes it.
    case given
}
