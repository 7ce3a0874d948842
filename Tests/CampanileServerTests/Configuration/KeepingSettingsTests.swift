import Testing

@testable import CampanileServer

extension SettingSample {
    static let keeping: [SettingSample] = [
        .init(
            "database_checkpoints", "database_checkpoints: false", "false", ("CAMPANILE_DATABASE_CHECKPOINTS", "true", "true")
        ) { "\($0.databaseCheckpoints)" },
        .init("backup.directory", "backup: {directory: a}", "a", ("CAMPANILE_BACKUP_DIRECTORY", "b", "b")) {
            $0.backup.directory ?? "nil"
        },
        .init("backup.every", "backup: {every: 90s}", "90000", ("CAMPANILE_BACKUP_EVERY", "2d", "172800000")) {
            "\($0.backup.everyMilliseconds)"
        },
        .init("backup.keep", "backup: {keep: 3}", "3", ("CAMPANILE_BACKUP_KEEP", "30", "30")) { "\($0.backup.keep)" },
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
        ]

    @Test("what is wrong is said, with what would be right", arguments: wrong)
    func report(_ file: WrongFile) throws {
        #expect(try ConfigurationFolder().problems(file.yaml) == file.report)
    }
}
