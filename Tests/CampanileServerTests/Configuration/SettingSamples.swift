import CampanileCore
import Foundation
import Logging
import Push
import Testing

@testable import CampanileServer

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
        ) { $0.badge.contentAvailable.rawValue },
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
            "apps.*.badge.policy", "apps: {default: {badge: {policy: given}}}", "given",
            ("CAMPANILE_APPS_DEFAULT_BADGE_POLICY", "since_opened", "since_opened")
        ) { $0.apps["default"]?.badgePolicy?.rawValue ?? "nil" },
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
            "apps.*.apns.mutable_content", apns("mutable_content", "true").replacing("'true'", with: "true"), "true",
            ("CAMPANILE_APPS_DEFAULT_APNS_MUTABLE_CONTENT", "false", "false")
        ) { "\($0.apps["default"]?.mutableContent ?? false)" },
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
        ) { $0.cable.keys.signedStreamKey?.exposed ?? "nil" },
        .init(
            "cable.secret_key_base", "cable: {secret_key_base: \(longA)}", longA,
            ("CAMPANILE_CABLE_SECRET_KEY_BASE", longB, longB)
        ) { $0.cable.keys.secretKeyBase?.exposed ?? "nil" },
        .init(
            "cable.anycable_secret", "cable: {anycable_secret: \(longA)}", longA,
            ("CAMPANILE_CABLE_ANYCABLE_SECRET", longB, longB)
        ) { $0.cable.keys.anyCableSecret?.exposed ?? "nil" },
        .init(
            "apps.*.cable.signed_stream_key", "apps: {default: {cable: {signed_stream_key: \(longA)}}}", longA,
            ("CAMPANILE_APPS_DEFAULT_CABLE_SIGNED_STREAM_KEY", longB, longB)
        ) { $0.apps["default"]?.cable.signedStreamKey?.exposed ?? "nil" },
        .init(
            "apps.*.cable.secret_key_base", "apps: {default: {cable: {secret_key_base: \(longA)}}}", longA,
            ("CAMPANILE_APPS_DEFAULT_CABLE_SECRET_KEY_BASE", longB, longB)
        ) { $0.apps["default"]?.cable.secretKeyBase?.exposed ?? "nil" },
        .init(
            "apps.*.cable.anycable_secret", "apps: {default: {cable: {anycable_secret: \(longA)}}}", longA,
            ("CAMPANILE_APPS_DEFAULT_CABLE_ANYCABLE_SECRET", longB, longB)
        ) { $0.apps["default"]?.cable.anyCableSecret?.exposed ?? "nil" },
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
            .init("path_configuration.sign_in", "path_configuration: {sign_in: [^/in, ^/join], ios: {v1: {}}}", "^/in ^/join") {
                $0.pathConfiguration.ios["v1"]?.signIn.joined(separator: " ") ?? "nil"
            },
            .init(
                "apps.*.path_configuration.sign_in",
                "apps: {a: {path_configuration: {sign_in: [^/a], android: {v1: {rules: "
                    + "[{patterns: [.*], properties: {uri: a}}]}}}}}", "^/a"
            ) { $0.apps["a"]?.pathConfiguration?.android["v1"]?.signIn.joined(separator: " ") ?? "nil" },
        ]
    }()

    private static let trees: [SettingSample] =
        [
            .init("categories_only", "categories_only: true", "true", ("CAMPANILE_CATEGORIES_ONLY", "false", "false")) {
                "\($0.categoriesOnly)"
            },
            .init("categories.*.interruption_level", "categories: {NO: {interruption_level: time-sensitive}}", "time-sensitive") {
                $0.categories["NO"]?.fields.string("interruption_level") ?? "nil"
            },
            // The name stands for any, as it does under path_configuration.
            .init("categories.*.android.*", "categories: {NO: {android: {channel_id: c}}}", "c") {
                $0.categories["NO"]?.fields.string("android.channel_id") ?? "nil"
            },
            .init("categories.*.relevance_score", "categories: {NO: {relevance_score: 0.5}}", "0.5") {
                "\($0.categories["NO"]?.fields["relevance_score"].map { String(decoding: $0.text, as: UTF8.self) } ?? "nil")"
            },
            .init("categories.*.priority", "categories: {NO: {priority: normal}}", "normal") {
                $0.categories["NO"]?.fields.string("priority") ?? "nil"
            },
            .init("categories.*.buttons", "categories: {NO: {buttons: REPLY}}", "REPLY") {
                $0.categories["NO"]?.fields.string("buttons") ?? "nil"
            },
            .init("categories.*.ttl", "categories: {NO: {ttl: 2h}}", "7200") {
                "\($0.categories["NO"]?.lifetimeSeconds ?? 0)"
            },
            .init("categories.*.dismiss", "categories: {NO: {dismiss: read}}", "read") {
                $0.categories["NO"]?.dismiss.rawValue ?? "nil"
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
