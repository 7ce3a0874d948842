import CampanileCore
import Foundation
import Logging
import Push
import Testing

@testable import CampanileServer

/// A folder of its own with what a configuration can name, taken away at the end.
///
/// `{dir}` in a text stands for the folder.
final class ConfigurationFolder {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appending(path: "configuration-\(UUID().uuidString)").path()
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        for name in ["key.p8", "other.p8"] {
            try write(name, "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n")
        }
        for name in ["account.json", "other.json"] {
            try write(name, #"{"project_id": "p", "client_email": "e", "private_key": "k"}"#)
        }
        for name in ["ca.pem", "other.pem", "third.pem"] {
            try write(name, "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
        }
        for name in ["jwks.json", "other-jwks.json"] { try write(name, #"{"keys": []}"#) }
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func write(_ name: String, _ text: String) throws {
        try Data(expand(text).utf8).write(to: URL(filePath: "\(path)/\(name)"))
    }

    func expand(_ text: String) -> String {
        text.replacing("{dir}", with: path)
    }

    func load(
        _ yaml: String?, environment: [String: String] = [:], flags: Configuration.Flags = .init()
    ) throws -> Configuration {
        if let yaml { try write("campanile.yaml", yaml) }
        return try Configuration.load(
            file: yaml == nil ? nil : "\(path)/campanile.yaml", fileIsRequired: true,
            environment: environment.mapValues(expand), flags: flags)
    }

    /// The report, line by line, with `{dir}` for the folder; empty if there is nothing to report.
    func problems(
        _ yaml: String?, environment: [String: String] = [:], flags: Configuration.Flags = .init()
    ) throws -> [String] {
        do {
            _ = try load(yaml, environment: environment, flags: flags)
            return []
        } catch let problems as ConfigurationProblems {
            return problems.problems.map {
                "\($0)".replacing("\(path)/campanile.yaml", with: "file").replacing(path, with: "{dir}")
            }
        }
    }
}

extension [DeepLinkTree.Node] {
    subscript(segment: String) -> DeepLinkTree.Node? { first { $0.segment == segment } }
}

@Suite("Configuration: where settings come from")
struct ConfigurationTests {
    let folder: ConfigurationFolder

    init() throws {
        folder = try ConfigurationFolder()
    }

    @Test("A setting in the file counts", arguments: SettingSample.all)
    func file(sample: SettingSample) throws {
        let configuration = try folder.load(sample.yaml)
        #expect(sample.read(configuration) == folder.expand(sample.fromFile))
        #expect(sample.read(Configuration()) != folder.expand(sample.fromFile) || sample.setting == "badge.policy")
    }

    @Test("The environment wins over the file", arguments: SettingSample.all.filter { $0.variable != nil })
    func environment(sample: SettingSample) throws {
        let variable = try #require(sample.variable)
        #expect(variable.read != sample.fromFile)
        let configuration = try folder.load(sample.yaml, environment: [variable.name: variable.text])
        #expect(sample.read(configuration) == folder.expand(variable.read))
    }

    @Test("A flag wins over the environment and the file")
    func flags() throws {
        let yaml = """
            host: 10.0.0.1
            port: 1
            database: file.sqlite
            push: {ca_file: '{dir}/ca.pem'}
            apps:
              default:
                apns: {key_file: '{dir}/key.p8', key_id: K, team_id: T, topic: t, url: 'https://file.test'}
                fcm: {service_account_file: '{dir}/account.json', url: 'https://file.test'}
              other:
                fcm: {service_account_file: '{dir}/account.json'}
            """
        let environment = [
            "CAMPANILE_HOST": "10.0.0.2", "CAMPANILE_PORT": "2", "CAMPANILE_DATABASE": "variable.sqlite",
            "CAMPANILE_PUSH_CA_FILE": "{dir}/other.pem", "CAMPANILE_APPS_DEFAULT_APNS_URL": "https://variable.test",
            "CAMPANILE_APPS_DEFAULT_FCM_URL": "https://variable.test",
        ]
        let flags = Configuration.Flags(
            host: "10.0.0.3", port: 3, database: "flag.sqlite", apnsURL: "https://apns.test", fcmURL: "https://fcm.test",
            pushCA: folder.expand("{dir}/third.pem"))
        let configuration = try folder.load(yaml, environment: environment, flags: flags)
        #expect(configuration.host == "10.0.0.3")
        #expect(configuration.port == 3)
        #expect(configuration.database == "flag.sqlite")
        #expect(configuration.push.caFile == folder.expand("{dir}/third.pem"))
        #expect(configuration.apps["default"]?.apns?.url?.absoluteString == "https://apns.test")
        #expect(configuration.apps["default"]?.fcm?.url?.absoluteString == "https://fcm.test")
        #expect(configuration.apps["other"]?.fcm?.url?.absoluteString == "https://fcm.test")
        #expect(configuration.apps["other"]?.apns == nil)
    }

    @Test("Nothing configured is valid", arguments: [nil, "", "\n", "# nothing\n", "---\n", "{}", "jwt:\nbadge:\napps:\n"])
    func nothing(yaml: String?) throws {
        #expect(try folder.load(yaml) == Configuration())
    }

    @Test("The defaults are the ones that the contract names")
    func defaults() {
        let defaults = Configuration()
        #expect(defaults.host == "127.0.0.1")
        #expect(defaults.port == 3001)
        #expect(defaults.database == "data/campanile.sqlite")
        #expect(defaults.badge.policy == .unread)
        #expect(defaults.badge.syncOnRead)
        #expect(defaults.badge.contentAvailable == .whenDismissing)
        #expect(!defaults.badge.androidData)
        #expect(defaults.badge.clearOnNativeList)
        #expect(defaults.cable.streamName == "notifications:{user_id}")
        #expect(!defaults.cable.signedStreamsOnly)
        #expect(!defaults.console)
    }

    @Test("A file that nobody asked for need not be there")
    func missingDefaultFile() throws {
        let configuration = try Configuration.load(
            file: "\(folder.path)/none.yaml", fileIsRequired: false, environment: [:], flags: .init())
        #expect(configuration == Configuration())
    }

    @Test("The app default can come from the environment alone")
    func appFromEnvironment() throws {
        let configuration = try folder.load(
            nil,
            environment: [
                "CAMPANILE_APPS_DEFAULT_APNS_KEY_FILE": "{dir}/key.p8", "CAMPANILE_APPS_DEFAULT_APNS_KEY_ID": "K",
                "CAMPANILE_APPS_DEFAULT_APNS_TEAM_ID": "T", "CAMPANILE_APPS_DEFAULT_APNS_TOPIC": "com.example.app",
            ])
        #expect(configuration.apps.keys.sorted() == ["default"])
        #expect(configuration.apps["default"]?.apns?.topic == "com.example.app")
        #expect(configuration.apps["default"]?.fcm == nil)
    }

    @Test("An app that the file names takes its variables under its name in capitals")
    func namedAppFromEnvironment() throws {
        let configuration = try folder.load(
            "apps: {my-shop: {fcm: {service_account_file: '{dir}/account.json'}}, plain: {}}",
            environment: ["CAMPANILE_APPS_MY_SHOP_FCM_URL": "https://stand-in.test"])
        #expect(configuration.apps["my-shop"]?.fcm?.url?.absoluteString == "https://stand-in.test")
        #expect(configuration.apps["plain"] == .init())
    }

    @Test("An empty variable is an empty list for a list, and overrides the file's")
    func emptyList() throws {
        let configuration = try folder.load("native_user_agents: [A]", environment: ["CAMPANILE_NATIVE_USER_AGENTS": ""])
        #expect(configuration.nativeUserAgents.isEmpty)
    }

    @Test("Variables of other programs are left alone")
    func otherVariables() throws {
        #expect(try folder.load(nil, environment: ["PORT": "x", "CAMPANILES": "y", "HOME": "/"]) == Configuration())
    }

    @Test("Free values keep the types that YAML gives them")
    func freeValues() throws {
        let yaml = """
            path_configuration:
              ios:
                v1:
                  settings: {a: 1, b: -1.5e3, c: "1", d: true, e: null, f: [x, {g: ~}], h: 2024-01-01, i: 'yes'}
            """
        let settings = try #require(try folder.load(yaml).pathConfiguration.ios["v1"]?.settings)
        #expect(
            settings == [
                "a": .integer(1), "b": .number(-1500), "c": .text("1"), "d": .bool(true), "e": .null,
                "f": .list([.text("x"), .object(["g": .null])]), "h": .text("2024-01-01"), "i": .text("yes"),
            ])
    }

    @Test("An anchored section can be used again under another name")
    func aliases() throws {
        let yaml = "apps: {a: &a {fcm: {service_account_file: '{dir}/account.json'}}, b: *a}"
        let apps = try folder.load(yaml).apps
        #expect(apps["a"] == apps["b"])
        #expect(apps["b"]?.fcm != nil)
    }

    @Test("In an app an empty deep_links, categories or path_configuration is none of its own, and {} is one with nothing in it")
    func emptySections() throws {
        let yaml = """
            deep_links: {home: {}}
            categories: {NOTICE: {}}
            path_configuration: {ios: {v1: {}}}
            apps:
              null:
                deep_links:
                categories: ~
                path_configuration: null
              own: {deep_links: {}, categories: {}, path_configuration: {}}
            """
        let apps = try folder.load(yaml).apps
        let (unwritten, own) = (try #require(apps["null"]), try #require(apps["own"]))
        #expect(unwritten == Configuration.App())
        #expect(own.deepLinks == DeepLinkTree())
        #expect(own.categories == [:])
        #expect(own.pathConfiguration == Configuration.PathConfiguration())
        let configuration = try folder.load(yaml)
        #expect(configuration.notificationRules(of: "null").deepLinks.paths == ["home"])
        #expect(configuration.notificationRules(of: "own").deepLinks.paths == [])
    }

    @Test("A byte order mark and lines that end as on Windows are read over")
    func markAndLines() throws {
        let configuration = try folder.load("\u{FEFF}port: 4000\r\nhost: ::1\r\n")
        #expect(configuration.port == 4000)
        #expect(configuration.host == "::1")
    }
}
