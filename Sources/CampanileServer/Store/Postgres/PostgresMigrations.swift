import SQLEngine

/// The history of PostgreSQL's schema, embedded in the program from the folder migrations/postgres/: forward only. A test compares
/// the two.
enum PostgresMigrations {
    static let all: [Migration] = [
        Migration(version: 1, name: "p0001_init"),
        Migration(version: 2, name: "p0002_revocations"),
        Migration(version: 3, name: "p0003_parts_under_key"),
        Migration(version: 4, name: "p0004_write_proofs"),
        Migration(version: 5, name: "p0005_kind"),
        Migration(version: 6, name: "p0006_payload"),
        Migration(version: 7, name: "p0007_external_ids"),
        Migration(version: 8, name: "p0008_dismissals"),
        Migration(version: 9, name: "p0009_synced_at"),
        Migration(version: 10, name: "p0010_given"),
        Migration(version: 11, name: "p0011_broadcasts"),
        Migration(version: 12, name: "p0012_lane_parts"),
    ]

    static var migrator: PostgresMigrator { PostgresMigrator(migrations: all) }
}
