import Testing

@testable import CampanileServer

extension SettingSample {
    static let keeping: [SettingSample] = [
        .init(
            "database_checkpoints", "database_checkpoints: false", "false", ("CAMPANILE_DATABASE_CHECKPOINTS", "true", "true")
        ) { "\($0.databaseCheckpoints)" },
        .init(
            "database_read_timeout", "database_read_timeout: 5s", "5000", ("CAMPANILE_DATABASE_READ_TIMEOUT", "1m", "60000")
        ) { "\($0.databaseReadMilliseconds)" },
        .init("backup.directory", "backup: {directory: a}", "a", ("CAMPANILE_BACKUP_DIRECTORY", "b", "b")) {
            $0.backup.directory ?? "nil"
        },
        .init("backup.every", "backup: {every: 90s}", "90000", ("CAMPANILE_BACKUP_EVERY", "2d", "172800000")) {
            "\($0.backup.everyMilliseconds)"
        },
        .init("backup.keep", "backup: {keep: 3}", "3", ("CAMPANILE_BACKUP_KEEP", "30", "30")) { "\($0.backup.keep)" },
        .init(
            "retention.notifications", "retention: {notifications: 1h}", "3600000",
            ("CAMPANILE_RETENTION_NOTIFICATIONS", "never", "nil")
        ) { $0.retention.notificationsMilliseconds.map { "\($0)" } ?? "nil" },
        .init("retention.per_inbox", "retention: {per_inbox: 5}", "5", ("CAMPANILE_RETENTION_PER_INBOX", "never", "nil")) {
            $0.retention.perInbox.map { "\($0)" } ?? "nil"
        },
        .init(
            "retention.deliveries", "retention: {deliveries: 1h}", "3600000",
            ("CAMPANILE_RETENTION_DELIVERIES", "2h", "7200000")
        ) { "\($0.retention.deliveriesMilliseconds)" },
        .init(
            "retention.device_tokens", "retention: {device_tokens: 2d}", "172800000",
            ("CAMPANILE_RETENTION_DEVICE_TOKENS", "never", "nil")
        ) { $0.retention.deviceTokensMilliseconds.map { "\($0)" } ?? "nil" },
        .init(
            "retention.outbox_keys", "retention: {outbox_keys: 1d}", "86400000",
            ("CAMPANILE_RETENTION_OUTBOX_KEYS", "31d", "2678400000")
        ) { "\($0.retention.outboxKeysMilliseconds)" },
        .init("broadcasts.keep", "broadcasts: {keep: 1m}", "60000", ("CAMPANILE_BROADCASTS_KEEP", "1h", "3600000")) {
            "\($0.broadcasts.milliseconds)"
        },
        .init("broadcasts.per_stream", "broadcasts: {per_stream: 1}", "1", ("CAMPANILE_BROADCASTS_PER_STREAM", "1000", "1000")) {
            "\($0.broadcasts.perStream)"
        },
        .init("broadcasts.bytes", "broadcasts: {bytes: 1024KiB}", "1048576", ("CAMPANILE_BROADCASTS_BYTES", "2GiB", "2147483648"))
        {
            "\($0.broadcasts.bytes)"
        },
    ]
}

@Suite("Configuration: what is kept")
struct KeepingSettingsTests {
    private static let rule = "must be a whole number with a unit (s, m, h or d), such as 24h or 30d"

    private static let wrong: [WrongFile] =
        ["24", "h", "1.5h", "-1d", "0d", "1w", "1 h", "1000000d", "24H"].map {
            WrongFile("backup: {every: \($0)}", "file:1: backup.every \(rule), and is \"\($0)\"")
        } + [
            WrongFile("backup: {every: 59s}", "file:1: backup.every must be at least 1m, and is \"59s\""),
            WrongFile("backup: {keep: 0}", "file:1: backup.keep must be a whole number from 1 to 10000, and is \"0\""),
            WrongFile(
                "backup: {directory: '{dir}/key.p8'}",
                "file:1: backup.directory must be a directory, and \"{dir}/key.p8\" is a file"),
            WrongFile(
                "retention: {notifications: always}",
                "file:1: retention.notifications \(rule), and is \"always\"; never is a value too"),
            WrongFile(
                "retention: {per_inbox: 0}",
                "file:1: retention.per_inbox must be a whole number from 1 to 10000000, and is \"0\"; never is a value too"),
            WrongFile(
                "retention: {outbox_keys: 23h}", "file:1: retention.outbox_keys must be at least 1d, and is \"23h\""),
            WrongFile("retention: {deliveries: never}", "file:1: retention.deliveries \(rule), and is \"never\""),
            WrongFile(
                "retention: {device_tokens: 1d}",
                "file:1: retention.device_tokens must be at least 2d, and is \"1d\"; never is a value too"),
        ]

    @Test("what is wrong is said, with what would be right", arguments: wrong)
    func report(_ file: WrongFile) throws {
        #expect(try ConfigurationFolder().problems(file.yaml) == file.report)
    }
}
