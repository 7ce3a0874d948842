import ArgumentParser
import CampanileServer

/// The command line. Every command takes `--database` and `--config`; output for programs goes to standard output,
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
}
