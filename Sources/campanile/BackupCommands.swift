import ArgumentParser
import CampanileCore
import CampanileServer

struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy the SQLite file, also beside a running server, to one that `restore` takes. Prints the new file's name.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The new file, or a folder in which it is named by the time: campanile-20261122T171500Z.sqlite.")
    var path: String

    func run() async throws {
        let configuration = try common.load()
        let target = DatabaseBackup.target(path, now: World.live.now())
        let signals = TerminationSignals()
        let progress = ProgressLine()
        defer { progress.end() }
        try DatabaseBackup(of: configuration.database).make(at: target) { done, all in
            progress.show(done < all ? "Copying" : "Checking the copy", done, of: all)
            if signals.isStopAsked { throw OperatorError("Stopped: nothing was made.") }
        }
        progress.end()
        print(target)
        say("The copy was read again and is sound.")
    }
}

struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Put a backup in the place of a SQLite file that is gone. It overwrites nothing, and no server may run.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The backup.") var path: String
    @Flag(help: "Send the pushes that were owed when the backup was made, which the lost server has probably sent.")
    var pushOwed = false
    @Option(help: "A newer file of the same database that can still be read: says which keys and users changed since.")
    var newer: String?

    func run() async throws {
        let configuration = try common.load()
        let signals = TerminationSignals()
        let progress = ProgressLine()
        defer { progress.end() }
        let restore = DatabaseRestore(of: path, to: configuration.database, world: .live)
        let report = try restore.run(pushesOwed: pushOwed, newer: newer) { done, all in
            progress.show(done < all ? "Copying" : "Checking the copy", done, of: all)
            if signals.isStopAsked { throw OperatorError("Stopped: nothing was restored.") }
        }
        progress.end()
        say("\(path) is restored to \(configuration.database).")
        for line in report.lines { say(line) }
    }
}
