import ArgumentParser
import CampanileCore
import CampanileServer
import Glibc

/// The options of every command but `simulator`: the places of the settings and the database.
struct CommonOptions: ParsableArguments {
    @Option(help: "The SQLite file, or postgres://user@host/name without a password (default: data/campanile.sqlite).")
    var database: String?

    @Option(help: "The configuration file (default: campanile.yaml if it is there).")
    var config: String?

    /// The settings of a command other than `serve`.
    func load() throws -> Configuration {
        var flags = Configuration.Flags()
        flags.database = database
        let configuration = try loadForOneCommand(flags)
        tellPassedOver(configuration)
        return configuration
    }

    /// Loads the settings of a command other than `serve`, with other flags.
    func loadForOneCommand(_ flags: Configuration.Flags) throws -> Configuration {
        var flags = flags
        flags.isForOneCommand = true
        return try load(flags)
    }

    /// Prints the environment's unknown variables, for a command other than `serve`.
    func tellPassedOver(_ configuration: Configuration) {
        let unknown = configuration.passedOver.unknown
        guard !unknown.isEmpty else { return }
        say("Ignored, because there is no such setting: \(unknown.joined(separator: ", "))")
    }

    func load(_ flags: Configuration.Flags) throws -> Configuration {
        try Configuration.load(
            file: config ?? Configuration.defaultFile, fileIsRequired: config != nil, environment: Environment.settings,
            flags: flags)
    }

    /// Runs a command's work, beside a server or without one.
    /// - Parameter isMade: whether to create a missing database.
    func operations(_ configuration: Configuration, isMade: Bool = true) throws -> OperatorCommands {
        let progress = ProgressLine()
        defer { progress.end() }
        return try OperatorCommands(configuration, isMade: isMade, world: .live) { done, all in
            progress.show(done < all ? "Copying the file as it is" : "Bringing the schema up to date", done, of: all)
        }
    }
}

/// The settings of the environment.
enum Environment {
    static var all: [String: String] {
        var variables: [String: String] = [:]
        var entry = environ
        while let text = entry.pointee {
            let parts = String(cString: text).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { variables[String(parts[0])] = String(parts[1]) }
            entry += 1
        }
        return variables
    }

    static var settings: [String: String] { all.filter { !UnsafeOptions.variables.contains($0.key) } }
}

/// A word for a shell, in quotes if it needs them.
func shellWord(_ word: String) -> String {
    let isPlain =
        !word.isEmpty
        && word.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default: "_-./:@%+=,".utf8.contains(byte)
            }
        }
    return isPlain ? word : "'" + word.replacing("'", with: "'\\''") + "'"
}

/// Prints a line for people.
func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = write(STDERR_FILENO, bytes, bytes.count)
}
