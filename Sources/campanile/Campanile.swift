import ArgumentParser
import CampanileServer
import Glibc

/// The command line. Every command but `simulator` takes `--database` and `--config`; output for programs goes to standard output,
/// messages for people to standard error.
@main
struct Campanile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "campanile",
        abstract: "The notification backend behind a native app: inbox, device registry, badge and push.",
        version: OperatorCommands.version,
        subcommands: [
            Serve.self, Migrate.self, Keys.self, Token.self, Revoke.self, StreamName.self, Notify.self,
            BadgeCommand.self,
            Explain.self, Stats.self, Health.self, Backup.self, Restore.self, Import.self, DeepLinksCommand.self,
            DoctorCommand.self, Nodes.self, Move.self, SimulatorCommand.self,
        ])

    static func main() async {
        do {
            var command = try await asyncParseAsRoot()
            if var command = command as? any AsyncParsableCommand { try await command.run() } else { try command.run() }
            end(.success)
        } catch {
            let (text, status) = (fullMessage(for: error), exitCode(for: error))
            if !text.isEmpty { if status == .success { print(text) } else { say(text) } }
            end(status)
        }
    }

    /// Ends the process. Where libpq was opened, the destructors of libraries don't run: a thread that still waits for PostgreSQL may be
    /// inside OpenSSL or Kerberos, and would use what these free.
    private static func end(_ status: ExitCode) -> Never {
        guard Store.isLibpqOpen else { Glibc.exit(status.rawValue) }
        fflush(nil)
        _exit(status.rawValue)
    }
}
