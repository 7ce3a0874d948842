/// The number as text: none at zero, and no longer than fits.
public enum BadgeText {
    /// Beside a bell: up to 9, then `9+`; nil for no badge.
    public static func bell(_ count: Int) -> String? { text(count, upTo: 9) }

    /// On a tab: up to 99, then `99+`; nil for no badge.
    public static func tab(_ count: Int) -> String? { text(count, upTo: 99) }

    private static func text(_ count: Int, upTo limit: Int) -> String? {
        guard count > 0 else { return nil }
        return count > limit ? "\(limit)+" : String(count)
    }
}
