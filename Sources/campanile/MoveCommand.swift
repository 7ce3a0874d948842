import ArgumentParser
import CampanileCore
import CampanileServer

struct Move: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: """
            Copy a SQLite file that no server has open into an empty PostgreSQL database. Stopped or killed and run again, it goes on \
            where it was; nodes refuse the database until it is done. The file stays as it is.
            """)

    @OptionGroup var common: CommonOptions
    @Argument(help: "The SQLite file.") var from: String
    @Argument(help: "postgres://user@host/name, without a password (default: the configured database).") var to: String?

    func run() async throws {
        let configuration = try common.load()
        if let to, DatabaseAddress.holdsPassword(to) { throw OperatorError("TO \(DatabaseAddress.passwordRefusal).") }
        let target = to ?? configuration.database
        let signals = TerminationSignals()
        let progress = ProgressLine()
        defer { progress.end() }
        let report = try DatabaseMove(from: from, to: target, world: .live).run { part, done, all in
            switch part {
            case .copy: progress.show("Copying", done, of: all)
            case .audit: progress.show("Counting", done, of: all)
            }
            if signals.isStopAsked { throw OperatorError("Stopped. The same command goes on from here.") }
        }
        progress.end()
        for line in report.lines { say(line) }
    }
}
