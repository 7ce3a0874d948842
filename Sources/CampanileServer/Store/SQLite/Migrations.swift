import SQLEngine

/// The schema's history, embedded in the program from the folder migrations/: forward only. A test compares the two.
enum Migrations {
    /// "Camp" in ASCII: marks a SQLite file as Campanile's.
    static let applicationID: Int32 = 0x4361_6D70

    static let all: [Migration] = [
        Migration(version: 1, name: "m0001_init", sql: text(PackageResources.m0001_init_sql)),
        Migration(version: 2, name: "m0002_delivery", sql: text(PackageResources.m0002_delivery_sql)),
        Migration(version: 3, name: "m0003_busy_devices", sql: text(PackageResources.m0003_busy_devices_sql)),
        Migration(version: 4, name: "m0004_realtime", sql: text(PackageResources.m0004_realtime_sql)),
        Migration(version: 5, name: "m0005_cheap_checks", sql: text(PackageResources.m0005_cheap_checks_sql)),
        Migration(version: 6, name: "m0006_unread_from", sql: text(PackageResources.m0006_unread_from_sql)),
        Migration(version: 7, name: "m0007_withheld", sql: text(PackageResources.m0007_withheld_sql)),
        Migration(version: 8, name: "m0008_key_kinds", sql: text(PackageResources.m0008_key_kinds_sql)),
        Migration(version: 9, name: "m0009_traceparent", sql: text(PackageResources.m0009_traceparent_sql)),
        Migration(version: 10, name: "m0010_restore", sql: text(PackageResources.m0010_restore_sql)),
        Migration(version: 11, name: "m0011_seen", sql: text(PackageResources.m0011_seen_sql)),
        Migration(version: 12, name: "m0012_in_parts", sql: text(PackageResources.m0012_in_parts_sql)),
        Migration(version: 13, name: "m0013_import", sql: text(PackageResources.m0013_import_sql)),
        Migration(version: 14, name: "m0014_unsuccessful", sql: text(PackageResources.m0014_unsuccessful_sql)),
        Migration(version: 15, name: "m0015_retained", sql: text(PackageResources.m0015_retained_sql)),
        Migration(version: 16, name: "m0016_left", sql: text(PackageResources.m0016_left_sql)),
    ]

    static var migrator: Migrator { Migrator(migrations: all, applicationID: applicationID) }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
