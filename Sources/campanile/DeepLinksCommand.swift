import ArgumentParser
import CampanileCore
import CampanileServer

struct DeepLinksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deep-links", abstract: "The screens that deep links may name.", subcommands: [Check.self, Table.self])

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Say which screens a deep link names, or why it is refused (exit status 1).")

        @OptionGroup var common: CommonOptions
        @Argument(help: "The deep link, as a producer would send it.") var link: String
        @Option(help: "The app whose screens count.") var app = AppName.standard

        func run() async throws {
            let rules = try common.rules(of: app)
            let mistakes = rules.sentences(aboutDeepLink: link)
            guard mistakes.isEmpty else { throw OperatorError(mistakes.joined(separator: "\n")) }
            for line in rules.chain(ofDeepLink: link) { print(line) }
        }
    }

    struct Table: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "The screens as a table in Markdown, for people.")

        @OptionGroup var common: CommonOptions
        @Option(help: "The app whose screens count.") var app = AppName.standard

        func run() async throws {
            for line in try common.rules(of: app).table { print(line) }
        }
    }
}

extension CommonOptions {
    /// The configuration for an app. Says so if the configuration doesn't name the app: the name may be misspelt.
    fileprivate func rules(of app: String) throws -> NotificationRules {
        try OperatorCommands.check(app)
        let configuration = try load()
        if app != AppName.standard, configuration.apps[app] == nil {
            say("The configuration has no app \(app): its top level applies.")
        }
        return configuration.notificationRules(of: app)
    }
}
