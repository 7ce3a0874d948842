import SQLEngine

/// The history of PostgreSQL's schema, embedded in the program from the folder migrations/postgres/: forward only. A test compares
/// the two.
enum PostgresMigrations {
    static let all: [Migration] = [
        Migration(version: 1, name: "p0001_init", sql: text(PackageResources.p0001_init_sql)),
        Migration(version: 2, name: "p0002_revocations", sql: text(PackageResources.p0002_revocations_sql)),
    ]

    static var migrator: PostgresMigrator { PostgresMigrator(migrations: all) }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
