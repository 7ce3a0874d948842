import CampanileCore
import Foundation
import SQLEngine
import Testing

@testable import CampanileServer

/// A file to import, in a folder of its own.
struct SourceFile {
    let folder = TemporaryFolder()
    let path: String

    init(_ bytes: some Sequence<UInt8>, named name: String = "file.csv") throws {
        path = folder.path + "/" + name
        try Data(Array(bytes)).write(to: URL(filePath: path))
    }

    init(_ text: String, named name: String = "file.csv") throws { try self.init(text.utf8, named: name) }

    func open() throws -> ImportFile { try ImportFile(path, copiesTo: folder.path) }

    /// Reads all records.
    func records(_ columns: Set<String> = ["a", "b", "c"], required: [String] = []) throws -> [ImportRecord] {
        var reader = try RecordReader(open(), columns: columns, required: required)
        var records: [ImportRecord] = []
        while let record = try reader.next() { records.append(record) }
        return records
    }
}

extension ImportRecord {
    /// Its fields in short, or what is wrong with it.
    var summary: String {
        switch content {
        case .success(let members):
            members.map { "\($0.key)=\(String(decoding: $0.value.text, as: UTF8.self))" }.joined(separator: " ")
        case .failure(let mistake): mistake.sentence
        }
    }
}

extension Fixture {
    /// Imports notifications as the command does, without a server beside.
    func importNotifications(
        _ text: String, named name: String = "file.csv", app: String = AppName.standard, isDryRun: Bool = false,
        rules: NotificationRules = NotificationRules(), isStopped: @escaping @Sendable () -> Bool = { false }
    ) async throws -> ImportReport {
        let work = NotificationImport(
            app: app, rules: rules,
            deliveriesMilliseconds: Configuration.Retention().deliveriesMilliseconds, random: world.random)
        return try await FileImport(
            work: work, database: store, world: world, isAlone: true, progress: { _, _, _ in }, isStopped: isStopped
        ).run(try SourceFile(text, named: name).open(), isDryRun: isDryRun)
    }

    func importDevices(_ text: String, isDryRun: Bool = false) async throws -> ImportReport {
        let work = DeviceImport(app: AppName.standard, registry: registry)
        return try await FileImport(
            work: work, database: store, world: world, isAlone: true, progress: { _, _, _ in }, isStopped: { false }
        ).run(try SourceFile(text).open(), isDryRun: isDryRun)
    }

    /// The titles of a user's notifications as the list shows them, the unread ones with a star.
    func titles(_ user: User? = nil) throws -> [String] {
        var titles: [String] = []
        try store.readBlocking { connection in
            guard let inbox = try (user ?? alice).inbox(in: connection) else { return }
            _ = try connection.notifications.page(NotificationFilter(limit: 100_000), inbox: inbox) { row in
                titles.append(String(decoding: row.title, as: UTF8.self) + (row.readAt == nil ? "*" : ""))
            }
        }
        return titles
    }

    func importedCount() throws -> Int64 {
        try number("SELECT count(*) FROM imported_entries") ?? 0
    }

    /// Everything that an import could have changed.
    func contents() throws -> [String] {
        let statements: [SQL] = [
            """
            SELECT 'inbox ' || id || quote(user_id) || unread_count || '/' || unread_since_cleared || armed || '/' || uncounted
                || quote(cleared_id) || quote(newest_id) || version || quote(unread_from) FROM inboxes ORDER BY id
            """,
            """
            SELECT 'notification ' || inbox_id || quote(id) || created_at || quote(read_at) || title || quote(data)
            FROM notifications ORDER BY inbox_id, id
            """,
            "SELECT 'entry ' || app || ' ' || external_id FROM imported_entries ORDER BY app, external_id",
            """
            SELECT 'delivery ' || quote(notification_id) || device_id || state || quote(reason) FROM deliveries
            ORDER BY notification_id, device_id
            """,
            "SELECT 'event ' || sequence || ' ' || inbox_id || type FROM events ORDER BY sequence",
            """
            SELECT 'device ' || id || ' ' || inbox_id || token || platform || environment || last_registered_at
                || quote(told_count) || quote(badge_due_at) || quote(due_at) || attempted FROM device_tokens ORDER BY id
            """,
        ]
        return try database.read { connection in
            try statements.flatMap { statement in try connection.all(statement) { $0.text(0) } }
        }
    }

    /// A line of CSV for a notification.
    static func line(
        _ title: String, user: String = "alice", at: Timestamp, readAt: Timestamp? = nil, id: String? = nil
    ) -> String {
        "\(user),\(title),\(at),\(readAt?.description ?? ""),\(id ?? title)\n"
    }

    static let header = "user_id,title,created_at,read_at,external_id\n"

    func time(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: clock.now.milliseconds + milliseconds) }
}
