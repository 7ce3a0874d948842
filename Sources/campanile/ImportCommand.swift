import ArgumentParser
import CampanileCore
import CampanileServer

struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: """
            Take over what another system keeps, beside a running server or without one. Nothing is pushed, and no icon's number \
            changes.
            """,
        subcommands: [Devices.self, Notifications.self])

    struct Devices: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Import device tokens: user_id, token, platform, last_registered_at and what else a registration has.")

        @OptionGroup var source: ImportSource

        func run() async throws { try await source.run(.devices) }
    }

    struct Notifications: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Import inboxes: user_id, title, created_at, external_id and what else a notification has, and read_at.")

        @OptionGroup var source: ImportSource

        func run() async throws { try await source.run(.notifications) }
    }
}

/// The arguments of both.
struct ImportSource: ParsableArguments {
    @OptionGroup var common: CommonOptions
    @Argument(help: "CSV with a header, or one JSON object a line (.ndjson, .jsonl); - is standard input.") var file: String
    @Option(help: "The app of the users.") var app = AppName.standard
    @Flag(
        help:
            "Only check the file, and say what would be done with each record by itself: doubles in the file, and devices beyond a user's fifty, count as imported."
    )
    var dryRun = false

    func run(_ kind: DatabaseImport.Kind) async throws {
        let configuration = try common.load()
        let signals = TerminationSignals()
        let progress = ProgressLine()
        defer { progress.end() }
        let report = try await DatabaseImport(of: kind, configuration, app: app, world: .live).run(
            file, isDryRun: dryRun
        ) { part, done, all in
            switch part {
            case .check: progress.show("Checking", done, of: all)
            case .write: progress.show("Importing", done, of: all)
            }
        } isStopped: {
            signals.isStopAsked
        }
        progress.end()
        for mistake in report.mistakes { say("line \(mistake.line): \(mistake.sentence)") }
        for line in report.lines(kind, isDryRun: dryRun) { say(line) }
        if report.mistakeCount > 0 || report.isStopped { throw ExitCode(1) }
    }
}

extension ImportReport {
    /// Says what was done, for people.
    fileprivate func lines(_ kind: DatabaseImport.Kind, isDryRun: Bool) -> [String] {
        guard mistakeCount == 0 else {
            let shown = mistakeCount > mistakes.count ? " The first \(mistakes.count) are above." : ""
            return [
                "\(count(mistakeCount, "mistake")) in \(count(faultyRecords, "record")) of \(records).\(shown) Nothing was imported."
            ]
        }
        let noun = kind == .devices ? "device" : "notification"
        var lines = ["\(isDryRun ? "Would import" : "Imported") \(count(self[.made], noun)) of \(count(records, "record"))."]
        if self[.known] > 0 {
            let stay = isDryRun ? "would stay" : self[.known] == 1 ? "stays" : "stay"
            lines.append("\(self[.known]) \(self[.known] == 1 ? "was" : "were") here already, and \(stay).")
        }
        if self[.left] > 0 {
            lines.append(
                "\(self[.left]) left out: since that registration they signed out, got another identifier, or their tokens died.")
        }
        if self[.renewed] > 0 { lines.append("\(self[.renewed]) with a newer registration than here.") }
        if self[.moved] > 0 { lines.append("\(self[.moved]) of another user, with a newer registration than here.") }
        if self[.surplus] > 0 { lines.append("\(self[.surplus]) left out: their users have fifty newer devices.") }
        if isStopped { lines.append("Stopped before the end. The same command goes on from there.") }
        return lines
    }

    private func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
}
