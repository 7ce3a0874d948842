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

/// One setting, as the file and the environment say it, and what comes of either.
struct SettingSample: Sendable, CustomTestStringConvertible {
    let setting: String
    let yaml: String
    let fromFile: String
    /// The environment's text and what comes of it; nil for what only the file can say.
    let variable: (name: String, text: String, read: String)?
    let read: @Sendable (Configuration) -> String

    init(
        _ setting: String, _ yaml: String, _ fromFile: String, _ variable: (String, String, String)? = nil,
        read: @escaping @Sendable (Configuration) -> String
    ) {
        self.setting = setting
        self.yaml = yaml
        self.fromFile = fromFile
        self.variable = variable
        self.read = read
    }

    var testDescription: String { setting }

    static let longA = String(repeating: "a", count: 32)
    static let longB = String(repeating: "b", count: 32)

    /// A sample for every setting that the reader knows, which a test holds it to.
    static let all: [SettingSample] = server + apps + features + screens + trees + keeping

    private static let server: [SettingSample] = [
        .init("host", "host: 0.0.0.0", "0.0.0.0", ("CAMPANILE_HOST", "::1", "::1")) { $0.host },
        .init("port", "port: 4000", "4000", ("CAMPANILE_PORT", "4001", "4001")) { "\($0.port)" },
        .init("database", "database: a.sqlite", "a.sqlite", ("CAMPANILE_DATABASE", "b.sqlite", "b.sqlite")) { $0.database },
        .init("jwt.secret", "jwt: {secret: \(longA)}", longA, ("CAMPANILE_JWT_SECRET", longB, longB)) {
            $0.jwt.secret?.exposed ?? "nil"
        },
        .init(
            "jwt.jwks_file", "jwt: {jwks_file: '{dir}/jwks.json'}", "{dir}/jwks.json",
            ("CAMPANILE_JWT_JWKS_FILE", "{dir}/other-jwks.json", "{dir}/other-jwks.json")
        ) { $0.jwt.jwksFile ?? "nil" },
        .init("jwt.issuer", "jwt: {issuer: a}", "a", ("CAMPANILE_JWT_ISSUER", "b", "b")) { $0.jwt.issuer ?? "nil" },
        .init("jwt.audience", "jwt: {audience: a}", "a", ("CAMPANILE_JWT_AUDIENCE", "b", "b")) {
            $0.jwt.audience ?? "nil"
        },
        .init(
            "native_user_agents", "native_user_agents: ['MyApp/', 12]", "MyApp/|12",
            ("CAMPANILE_NATIVE_USER_AGENTS", "A/, B/", "A/|B/")
        ) { $0.nativeUserAgents.joined(separator: "|") },
        .init(
            "badge.policy", "badge: {policy: since_opened}", "since_opened",
            ("CAMPANILE_BADGE_POLICY", "unread", "unread")
        ) { $0.badge.policy.rawValue },
        .init(
            "badge.sync_on_read", "badge: {sync_on_read: false}", "false", ("CAMPANILE_BADGE_SYNC_ON_READ", "true", "true")
        ) { "\($0.badge.syncOnRead)" },
        .init(
            "badge.content_available", "badge: {content_available: false}", "false",
            ("CAMPANILE_BADGE_CONTENT_AVAILABLE", "true", "true")
        ) { "\($0.badge.contentAvailable)" },
        .init(
            "badge.android_data", "badge: {android_data: true}", "true", ("CAMPANILE_BADGE_ANDROID_DATA", "false", "false")
        ) { "\($0.badge.androidData)" },
        .init(
            "badge.clear_on_native_list", "badge: {clear_on_native_list: false}", "false",
            ("CAMPANILE_BADGE_CLEAR_ON_NATIVE_LIST", "true", "true")
        ) { "\($0.badge.clearOnNativeList)" },
        .init("console", "console: true", "true", ("CAMPANILE_CONSOLE", "false", "false")) { "\($0.console)" },
    ]

    private static func apns(_ setting: String, _ value: String) -> String {
        let all = [
            "key_file": "{dir}/key.p8", "key_id": "K", "team_id": "T", "topic": "t", "url": "https://localhost",
        ].merging([setting: value]) { $1 }
        return "apps: {default: {apns: {\(all.map { "\($0): '\($1)'" }.joined(separator: ", "))}}}"
    }

    private static let apps: [SettingSample] = [
        .init(
            "apps.*.apns.key_file", apns("key_file", "{dir}/key.p8"), "{dir}/key.p8",
            ("CAMPANILE_APPS_DEFAULT_APNS_KEY_FILE", "{dir}/other.p8", "{dir}/other.p8")
        ) { $0.apps["default"]?.apns?.keyFile ?? "nil" },
        .init("apps.*.apns.key_id", apns("key_id", "A1"), "A1", ("CAMPANILE_APPS_DEFAULT_APNS_KEY_ID", "B1", "B1")) {
            $0.apps["default"]?.apns?.keyID ?? "nil"
        },
        .init("apps.*.apns.team_id", apns("team_id", "A2"), "A2", ("CAMPANILE_APPS_DEFAULT_APNS_TEAM_ID", "B2", "B2")) {
            $0.apps["default"]?.apns?.teamID ?? "nil"
        },
        .init("apps.*.apns.topic", apns("topic", "a.b"), "a.b", ("CAMPANILE_APPS_DEFAULT_APNS_TOPIC", "c.d", "c.d")) {
            $0.apps["default"]?.apns?.topic ?? "nil"
        },
        .init(
            "apps.*.apns.url", apns("url", "https://127.0.0.1:2197"), "https://127.0.0.1:2197",
            ("CAMPANILE_APPS_DEFAULT_APNS_URL", "https://[::1]:1/", "https://[::1]:1/")
        ) { $0.apps["default"]?.apns?.url?.absoluteString ?? "nil" },
        .init(
            "apps.*.fcm.service_account_file", "apps: {default: {fcm: {service_account_file: '{dir}/account.json'}}}",
            "{dir}/account.json",
            ("CAMPANILE_APPS_DEFAULT_FCM_SERVICE_ACCOUNT_FILE", "{dir}/other.json", "{dir}/other.json")
        ) { $0.apps["default"]?.fcm?.serviceAccountFile ?? "nil" },
        .init(
            "apps.*.fcm.url",
            "apps: {default: {fcm: {service_account_file: '{dir}/account.json', url: 'https://localhost'}}}",
            "https://localhost", ("CAMPANILE_APPS_DEFAULT_FCM_URL", "https://fcm.test", "https://fcm.test")
        ) { $0.apps["default"]?.fcm?.url?.absoluteString ?? "nil" },
    ]

    private static let features: [SettingSample] = [
        .init(
            "push.unanswered", "push: {unanswered: give_up}", "give_up",
            ("CAMPANILE_PUSH_UNANSWERED", "resend", "resend")
        ) { $0.push.unanswered.rawValue },
        .init(
            "push.dead_token_percent", "push: {dead_token_percent: 25}", "25",
            ("CAMPANILE_PUSH_DEAD_TOKEN_PERCENT", "30", "30")
        ) { "\($0.push.deadTokenPercent)" },
        .init(
            "badge.never_zero_while_others_remain", "badge: {never_zero_while_others_remain: true}", "true",
            ("CAMPANILE_BADGE_NEVER_ZERO_WHILE_OTHERS_REMAIN", "false", "false")
        ) { "\($0.badge.neverZeroWhileOthersRemain)" },
        .init(
            "push.ca_file", "push: {ca_file: '{dir}/ca.pem'}", "{dir}/ca.pem",
            ("CAMPANILE_PUSH_CA_FILE", "{dir}/other.pem", "{dir}/other.pem")
        ) { $0.push.caFile ?? "nil" },
        .init(
            "streams.cookie", "streams: {cookie: session_token}", "session_token",
            ("CAMPANILE_STREAMS_COOKIE", "other", "other")
        ) { $0.streams.cookie ?? "nil" },
        .init(
            "streams.per_user", "streams: {per_user: 3}", "3", ("CAMPANILE_STREAMS_PER_USER", "4", "4")
        ) { "\($0.streams.perUser)" },
        .init(
            "streams.total", "streams: {total: 30}", "30", ("CAMPANILE_STREAMS_TOTAL", "40", "40")
        ) { "\($0.streams.total)" },
        .init(
            "cable.signed_stream_key", "cable: {signed_stream_key: \(longA)}", longA,
            ("CAMPANILE_CABLE_SIGNED_STREAM_KEY", longB, longB)
        ) { $0.cable.signedStreamKey?.exposed ?? "nil" },
        .init(
            "cable.secret_key_base", "cable: {secret_key_base: \(longA)}", longA,
            ("CAMPANILE_CABLE_SECRET_KEY_BASE", longB, longB)
        ) { $0.cable.secretKeyBase?.exposed ?? "nil" },
        .init(
            "cable.stream_name", "cable: {stream_name: 'a:{user_id}'}", "a:{user_id}",
            ("CAMPANILE_CABLE_STREAM_NAME", "b:{user_id}", "b:{user_id}")
        ) { $0.cable.streamName },
        .init(
            "cable.signed_streams_only", "cable: {signed_streams_only: true, signed_stream_key: \(longA)}", "true",
            ("CAMPANILE_CABLE_SIGNED_STREAMS_ONLY", "false", "false")
        ) { "\($0.cable.signedStreamsOnly)" },
        .init(
            "allowed_origins", "allowed_origins: ['https://a.test', 'http://localhost:3000']",
            "https://a.test|http://localhost:3000",
            ("CAMPANILE_ALLOWED_ORIGINS", "https://[::1]:8443", "https://[::1]:8443")
        ) { $0.allowedOrigins.joined(separator: "|") },
        .init(
            "trusted_proxies", "trusted_proxies: [127.0.0.1, '2001:db8::/32']", "127.0.0.1/32|2001:db8::/32",
            ("CAMPANILE_TRUSTED_PROXIES", "10.0.0.0/8, ::1", "10.0.0.0/8|::1/128")
        ) { $0.trustedProxies.map { "\($0)" }.joined(separator: "|") },
        .init("log_level", "log_level: warning", "warning", ("CAMPANILE_LOG_LEVEL", "debug", "debug")) { $0.logLevel.rawValue },
        .init("metrics.token", "metrics: {token: \(longA)}", longA, ("CAMPANILE_METRICS_TOKEN", longB, longB)) {
            $0.metrics.token?.exposed ?? "nil"
        },
        .init("metrics.port", "metrics: {port: 9000}", "9000", ("CAMPANILE_METRICS_PORT", "9001", "9001")) {
            $0.metrics.port.map(String.init) ?? "nil"
        },
    ]

    private static let screens: [SettingSample] = {
        let query = "deep_links: {home: {query: {a: integer, b: {type: boolean, required: true}}}}"
        let version = "deep_links: {home: {min_app_version: {ios: 2.1.0, android: 3, otherwise: no_push}}}"
        let minimum: @Sendable (Configuration) -> DeepLinkTree.MinimumVersion? = { $0.deepLinks.nodes["home"]?.minimumVersion }
        return [
            .init("deep_links.*.title", "deep_links: {home: {title: No}}", "No") { $0.deepLinks.nodes["home"]?.title ?? "nil" },
            .init("deep_links.*.web", "deep_links: {home: {children: {':id': {web: '/h/:id?x=1'}}}}", "/h/:id?x=1") {
                $0.deepLinks.nodes["home"]?.children[":id"]?.web ?? "nil"
            },
            .init("deep_links.*.children", "deep_links: {home: {children: {상품: {children: {b: {}}}}}}", "b") {
                $0.deepLinks.nodes["home"]?.children["상품"]?.children.map(\.segment).joined() ?? "nil"
            },
            .init("deep_links.*.query", query, "a,b") {
                $0.deepLinks.nodes["home"]?.query.map(\.key).joined(separator: ",") ?? "nil"
            },
            .init("deep_links.*.query.*.type", query, "integer,boolean") {
                $0.deepLinks.nodes["home"]?.query.map(\.kind.rawValue).joined(separator: ",") ?? "nil"
            },
            .init("deep_links.*.query.*.required", query, "false,true") {
                $0.deepLinks.nodes["home"]?.query.map { "\($0.isRequired)" }.joined(separator: ",") ?? "nil"
            },
            .init("deep_links.*.min_app_version", version, "true") { "\(minimum($0) != nil)" },
            .init("deep_links.*.min_app_version.ios", version, "2.1.0") { minimum($0)?.ios?.text ?? "nil" },
            .init("deep_links.*.min_app_version.android", version, "3") { minimum($0)?.android?.text ?? "nil" },
            .init("deep_links.*.min_app_version.otherwise", version, "no_push") { minimum($0)?.otherwise.rawValue ?? "nil" },
            .init("apps.*.deep_links", "apps: {a: {deep_links: {cart: {}}}}", "cart") {
                $0.apps["a"]?.deepLinks?.paths.joined() ?? "nil"
            },
            .init("apps.*.categories", "apps: {a: {categories: {X: {sound: y}}}}", "y") {
                $0.apps["a"]?.categories?["X"]?.sound ?? "nil"
            },
            .init(
                "apps.*.categories_only", "apps: {default: {categories_only: true}}", "true",
                ("CAMPANILE_APPS_DEFAULT_CATEGORIES_ONLY", "false", "false")
            ) { $0.apps["default"]?.categoriesOnly.map { "\($0)" } ?? "nil" },
            .init("apps.*.path_configuration", "apps: {a: {path_configuration: {ios: {v2: {}}}}}", "v2") {
                $0.apps["a"]?.pathConfiguration?.ios.keys.joined() ?? "nil"
            },
        ]
    }()

    private static let trees: [SettingSample] =
        [
            .init("categories_only", "categories_only: true", "true", ("CAMPANILE_CATEGORIES_ONLY", "false", "false")) {
                "\($0.categoriesOnly)"
            },
            .init("categories.*.interruption_level", "categories: {NO: {interruption_level: time-sensitive}}", "time-sensitive") {
                $0.categories["NO"]?.interruptionLevel?.rawValue ?? "nil"
            },
            // The name stands for any, as it does under path_configuration.
            .init("categories.*.android.*", "categories: {NO: {android: {channel_id: c}}}", "c") {
                $0.categories["NO"]?.androidChannelID ?? "nil"
            },
            .init("categories.*.sound", "categories: {NO: {sound: chime.caf}}", "chime.caf") {
                $0.categories["NO"]?.sound ?? "nil"
            },
        ]
        + ["ios", "android"].flatMap { platform in
            let version: @Sendable (Configuration) -> Configuration.PathConfiguration.Version? = {
                (platform == "ios" ? $0.pathConfiguration.ios : $0.pathConfiguration.android)["v1"]
            }
            let uri = "{patterns: [.*], properties: {uri: 'hotwire://fragment/web'}}"
            let rule = "path_configuration: {\(platform): {v1: {rules: [{patterns: [a, b$], properties: {x: 1}}, \(uri)]}}}"
            let tabs = """
                path_configuration: {\(platform): {v1: {rules: [\(uri)], settings: {tabs: \
                [{title: T, icon: i, selected_icon: s, path: /p, notifications: true}]}}}}
                """
            let tab: @Sendable (Configuration) -> Configuration.PathConfiguration.Tab? = { version($0)?.tabs.first }
            func tabSample(_ key: String, _ value: String, _ read: @escaping @Sendable (Configuration) -> String) -> SettingSample
            {
                SettingSample("path_configuration.\(platform).*.settings.tabs[].\(key)", tabs, value, read: read)
            }
            return [
                tabSample("title", "T") { tab($0)?.title ?? "nil" },
                tabSample("icon", "i") { tab($0)?.icon ?? "nil" },
                tabSample("selected_icon", "s") { tab($0)?.selectedIcon ?? "nil" },
                tabSample("path", "/p") { tab($0)?.path ?? "nil" },
                tabSample("notifications", "true") { "\(tab($0)?.isNotifications == true)" },
                SettingSample(
                    "path_configuration.\(platform).*.settings",
                    "path_configuration: {\(platform): {v1: {settings: {search: true}, rules: [\(uri)]}}}", "true"
                ) { "\(version($0)?.settings["search"] == .bool(true))" },
                SettingSample("path_configuration.\(platform).*.rules[].patterns", rule, "a|b$") {
                    version($0)?.rules.first?.patterns.joined(separator: "|") ?? "nil"
                },
                SettingSample("path_configuration.\(platform).*.rules[].properties", rule, "true") {
                    "\(version($0)?.rules.first?.properties["x"] == .integer(1))"
                },
            ]
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
        #expect(defaults.badge.contentAvailable)
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
