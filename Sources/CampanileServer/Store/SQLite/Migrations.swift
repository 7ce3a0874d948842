import CEmbedded
import SQLEngine

/// The schema's history, embedded in the program from the folder migrations/sqlite/: forward only. A test compares the two.
enum Migrations {
    /// "Camp" in ASCII: marks a SQLite file as Campanile's.
    static let applicationID: Int32 = 0x4361_6D70

    static let all: [Migration] = [
        Migration(version: 1, name: "m0001_init"),
        Migration(version: 2, name: "m0002_delivery"),
        Migration(version: 3, name: "m0003_busy_devices"),
        Migration(version: 4, name: "m0004_realtime"),
        Migration(version: 5, name: "m0005_cheap_checks"),
        Migration(version: 6, name: "m0006_unread_from"),
        Migration(version: 7, name: "m0007_withheld"),
        Migration(version: 8, name: "m0008_key_kinds"),
        Migration(version: 9, name: "m0009_traceparent"),
        Migration(version: 10, name: "m0010_restore"),
        Migration(version: 11, name: "m0011_seen"),
        Migration(version: 12, name: "m0012_in_parts"),
        Migration(version: 13, name: "m0013_import"),
        Migration(version: 14, name: "m0014_unsuccessful"),
        Migration(version: 15, name: "m0015_retained"),
        Migration(version: 16, name: "m0016_left"),
        Migration(version: 17, name: "m0017_parts_under_key"),
        Migration(version: 18, name: "m0018_kind"),
        Migration(version: 19, name: "m0019_payload"),
        Migration(version: 20, name: "m0020_payload_aside"),
        Migration(version: 21, name: "m0021_external_ids"),
        Migration(version: 22, name: "m0022_dismissals"),
        Migration(version: 23, name: "m0023_synced_at"),
        Migration(version: 24, name: "m0024_given"),
        Migration(version: 25, name: "m0025_broadcasts"),
        Migration(version: 26, name: "m0026_lane_parts"),
    ]

    static var migrator: Migrator { Migrator(migrations: all, applicationID: applicationID) }
}

extension Migration {
    /// A step whose statements are those of the embedded file `NAME.sql`.
    init(version: Int32, name: String) {
        self.init(version: version, name: name, sql: String(cString: embedded("\(name).sql").text))
    }
}
