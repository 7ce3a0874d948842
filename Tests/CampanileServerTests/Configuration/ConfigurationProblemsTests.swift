import Foundation
import Testing

@testable import CampanileServer

/// A file with something wrong in it, and the whole report about it.
struct WrongFile: Sendable, CustomTestStringConvertible {
    let yaml: String
    let report: [String]

    init(_ yaml: String, _ report: String...) {
        self.yaml = yaml
        self.report = report
    }

    var testDescription: String { yaml }

    static let values: [WrongFile] = [
        .init("port: 70000", #"file:1: port must be a whole number from 0 to 65535, and is "70000""#),
        .init("port: -1", #"file:1: port must be a whole number from 0 to 65535, and is "-1""#),
        .init("port: 0777", #"file:1: port must be a whole number from 0 to 65535, and is "0777""#),
        .init("port: 1e3", #"file:1: port must be a whole number from 0 to 65535, and is "1e3""#),
        .init("port: '3001'", "file:1: port must be a whole number from 0 to 65535, without quotes"),
        .init("\nport:\n", "file:2: port has no value; write one or remove the line"),
        .init("port: [1]", "file:1: port must be a single value"),
        .init("host: ''", "file:1: host is empty; write a value or remove it"),
        .init(
            "host: http://a.test",
            #"file:1: host must be an IP address or a host name, without scheme and port, and is "http://a.test""#),
        .init(
            "host: 127.0.0.256",
            #"file:1: host must be an IP address or a host name, without scheme and port, and is "127.0.0.256""#),
        .init("host: true", "file:1: host must be text, and is a boolean; in quotes it would be text"),
        .init(
            "database: ':memory:'", "file:1: database must be the path of a file, or postgres://user@host/name; this is neither"),
        .init("database: '{dir}'", #"file:1: database must be a file, and "{dir}" is a directory"#),
        .init("console: yes", #"file:1: console must be true or false, and is "yes""#),
        .init("console: 'true'", "file:1: console must be true or false, without quotes"),
        .init("badge: {policy: opened}", #"file:1: badge.policy must be unread or since_opened or given, and is "opened""#),
        .init(
            "badge:\n  policy: sinceOpened",
            #"file:2: badge.policy must be unread or since_opened or given, and is "sinceOpened"; did you mean since_opened?"#),
        .init("badge: on", "file:1: badge must be a map of settings"),
        .init("native_user_agents: MyApp/", #"file:1: native_user_agents must be a list, such as ["…"]"#),
        .init("native_user_agents:", #"file:1: native_user_agents must be a list, such as ["…"]"#),
        .init(
            "native_user_agents:\n  - A\n  - ''\n  - {a: b}",
            "file:3: native_user_agents[1] is empty; write a value or remove it",
            "file:4: native_user_agents[2] must be a single value"),
        .init(
            "native_user_agents: [\"a\\nb\"]", "file:1: native_user_agents[0] must be one line of text without control characters"
        ),
    ]

    static let sections: [WrongFile] =
        [
            .init("jwt: {secret: short}", "file:1: jwt.secret must be at least 32 bytes long, and is 5"),
            .init("jwt: {issuer: ''}", "file:1: jwt.issuer is empty; write a value or remove it"),
            .init("jwt: {jwks_file: '{dir}/none.json'}", #"file:1: jwt.jwks_file names "{dir}/none.json", which isn't there"#),
            .init("jwt: {jwks_file: '{dir}'}", #"file:1: jwt.jwks_file names "{dir}", which is a directory"#),
            .init("jwt: {jwks_file: '{dir}/key.p8'}", #"file:1: jwt.jwks_file names "{dir}/key.p8", which is not a JWK set"#),
            .init(
                "jwt:\n  secret: \(SettingSample.longA)\n  jwks_file: '{dir}/jwks.json'",
                "file:3: jwt.secret (file:2) and jwt.jwks_file can't both be set; remove one of them"),
            .init(
                "cable:\n  signed_stream_key: \(SettingSample.longA)\n  secret_key_base: \(SettingSample.longB)",
                "file:3: cable.signed_stream_key (file:2) and cable.secret_key_base can't both be set; remove one of them"),
            .init(
                "cable: {stream_name: all}",
                "file:1: cable.stream_name must hold {user_id} once: without it all users would share one stream"),
            .init(
                "cable: {stream_name: '{user_id}{x}'}",
                "file:1: cable.stream_name must have no placeholders but {user_id} and {app}"),
            .init(
                "cable: {signed_streams_only: true}",
                "file:1: cable.signed_streams_only has no effect without cable.signed_stream_key or cable.secret_key_base"),
            .init("metrics: {token: short}", "file:1: metrics.token must be at least 16 bytes long, and is 5"),
            .init(
                "metrics: {token: 'sixteen bytes or more'}",
                "file:1: metrics.token must hold only letters, digits and - . _ ~ + /, with = at the end"),
            .init("port: 80\nmetrics: {port: 80}", "file:2: metrics.port must differ from port, and both are 80"),
            .init(
                "push: {ca_file: '{dir}/key.p8'}",
                #"file:1: push.ca_file names "{dir}/key.p8", which holds no certificate in PEM"#),
            .init("categories: {A: {sound: ''}}", "file:1: categories.A.sound is empty; write a value or remove it"),
            .init("categories: [A]", "file:1: categories must be a map of settings"),
        ]
        + [
            "*", "https://a.test/", "https://a.test:443", "https://A.test", "a.test", "ftp://a.test", "https://u:p@a.test",
            "https://a.test?q", "null", "http://a.test:70000", "https://a.test:0",
        ].map {
            .init(
                "allowed_origins: ['\($0)']",
                "file:1: allowed_origins[0] must be an origin such as https://app.example.com, without a path, a default port "
                    + "or capitals")
        }
        + [
            "localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1", "10.0.0.0/8/8", "010.0.0.0/8", "127.0.0.1:80",
            "[::1]",
            "fe80::1%eth0", "10.0.0.0/255.0.0.0", "::/129",
        ].map {
            .init(
                "trusted_proxies: [127.0.0.1, '\($0)']",
                #"file:1: trusted_proxies[1] must be an IP address or a network such as 10.0.0.0/8, and is "\#($0)""#)
        }
        + [
            ("10.1.2.3/8", "10.0.0.0/8", "10.1.2.3"), ("2001:db8::1/32", "2001:db8::/32", "2001:db8::1"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8", "10.1.2.3"), ("192.168.1.1/0", "0.0.0.0/0", "192.168.1.1"),
        ].map { text, network, address in
            .init(
                "trusted_proxies: ['\(text)']",
                #"file:1: trusted_proxies[0] must be an IP address or a network such as 10.0.0.0/8, and is "\#(text)": "#
                    + "write \(network) for the network, or \(address) for the address alone")
        } + [.init("trusted_proxies: 127.0.0.1", #"file:1: trusted_proxies must be a list, such as ["…"]"#)]

    static let apps: [WrongFile] =
        [
            .init(
                "apps:\n  default:\n    apns:\n      key_file: '{dir}/none.p8'\n      topic: a b\n",
                "file:3: apps.default.apns.key_id is missing",
                "file:3: apps.default.apns.team_id is missing",
                #"file:4: apps.default.apns.key_file names "{dir}/none.p8", which isn't there"#,
                "file:5: apps.default.apns.topic must not hold white space"),
            .init(
                "apps: {a: {apns: {key_file: '{dir}/ca.pem', key_id: K, team_id: T, topic: t}}}",
                #"file:1: apps.a.apns.key_file names "{dir}/ca.pem", which is not a private key from Apple (PEM, PKCS #8)"#),
            .init(
                "apps: {a: {fcm: {service_account_file: '{dir}/jwks.json'}}}",
                #"file:1: apps.a.fcm.service_account_file names "{dir}/jwks.json", which is not the JSON of a Google service account"#
            ),
            .init("apps: {a: {fcm: }}", "file:1: apps.a.fcm.service_account_file is missing"),
            .init("apps: {a b: {}}", #"file:1: the name of an app must be at most 64 letters, digits and . _ -, and is "a b""#),
            .init("apps:\n  a-b: {}\n  a_b: {}", "file:3: the apps a-b and a_b have the same name in environment variables"),
        ]
        + [
            "http://a.test", "https://a.test/path", "https://a.test?q=1", "https://u:p@a.test", "https://", "a.test",
            "https://a b",
            "https://a.test:0", "https://a.test:70000",
        ].map {
            .init(
                "apps: {a: {fcm: {service_account_file: '{dir}/account.json', url: '\($0)'}}}",
                "file:1: apps.a.fcm.url must be an https URL of a host and, if need be, a port, such as https://127.0.0.1:2197")
        }

    static let trees: [WrongFile] =
        [
            .init(
                "deep_links: {a/b: {}}",
                #"file:1: the name of a screen in deep_links must be one segment of a path, without spaces and any of / \ ? # % :, or a parameter such as :id, and is "a/b""#
            ),
            .init(
                "deep_links:\n  a:\n    children:\n      ':id': {}\n      ':no': {children: {':no': {}}}\n      ':a-b': {}",
                #"file:5: deep_links.a.children.:no: :id and :no would match the same links: a level has one parameter"#,
                #"file:5: deep_links.a.children.:no.children.:no: :no is a parameter above already; give this one another name"#,
                #"file:6: the name of a screen in deep_links.a.children must be one segment of a path, without spaces and any of / \ ? # % :, or a parameter such as :id, and is ":a-b""#
            ),
            .init(
                "deep_links:\n  a: {web: home}\n  b: {web: '//x'}\n  c: {web: '/c/:id'}\n  d: {query: {x: number, y: {type: text}, z: [a]}}",
                #"file:2: deep_links.a.web must be a path that begins with /, and is "home""#,
                "file:3: deep_links.b.web must not begin with //: browsers take the next part for a host",
                #"file:4: deep_links.c.web has ":id", which isn't a parameter of the screen's path"#,
                #"file:5: deep_links.d.query.x must be string or integer or boolean, and is "number""#,
                #"file:5: deep_links.d.query.y.type must be string or integer or boolean, and is "text""#,
                "file:5: deep_links.d.query.z must be a map of settings"),
            .init(
                "deep_links:\n  a: {min_app_version: {otherwise: no_push}}\n  b: {min_app_version: {ios: v2, otherwise: nopush}}",
                "file:2: deep_links.a.min_app_version: no version is named: write ios, android or both",
                #"file:3: deep_links.b.min_app_version.ios must be a version such as 2.1.0, and is "v2""#,
                #"file:3: deep_links.b.min_app_version.otherwise must be without_link or no_push, and is "nopush"; did you mean no_push?"#
            ),
            .init(
                "deep_links: \(String(repeating: "{a: {children: ", count: 12)){b: {}}\(String(repeating: "}}", count: 12))",
                "file:1: deep_links.\(Array(repeating: "a.children", count: 12).joined(separator: ".")) is a level too deep: 12 are taken"
            ),
            .init(
                "deep_links: {a: {query: {\((0...32).map { "k\($0): string" }.joined(separator: ", "))}}}",
                "file:1: deep_links.a.query must hold at most 32 keys"),
            .init("deep_links: {a: {min_app_version: 2.1}}", "file:1: deep_links.a.min_app_version must be a map of settings"),
            .init(
                "deep_links: {a: {children: {\(String(repeating: "b", count: 129)): {}}, query: {\(String(repeating: "c", count: 129)): string}}}",
                #"file:1: a key of deep_links.a.query must be at most 128 bytes, and is "\#(String(repeating: "c", count: 60))…""#,
                #"file:1: the name of a screen in deep_links.a.children must be at most 128 bytes, and is "\#(String(repeating: "b", count: 60))…""#
            ),
            .init(
                "deep_links: {a: {children: {\((1...500).map { "a\($0): {}" }.joined(separator: ", "))}}, b: {children: {\((1...499).map { "b\($0): {}" }.joined(separator: ", "))}}}",
                "file:1: deep_links must hold at most 1000 screens, and holds 1001"),
            .init(
                "deep_links:\n  a:\n    children:\n      b:\n        titel: x",
                #"file:5: there is no setting "titel" in deep_links.a.children.b; did you mean title?"#),
            .init(
                "path_configuration: {ios: {v 1: {}}}",
                #"file:1: the name of a version in path_configuration.ios must be v1, v2 and so on, and is "v 1""#),
            .init(
                "path_configuration:\n  ios:\n    v1:\n      rules:\n        - patterns: ['(']\n          properties: {}\n",
                #"file:5: path_configuration.ios.v1.rules[0].patterns[0] must be a regular expression, and is "(""#),
            .init(
                "path_configuration:\n  android:\n    v1:\n      rules:\n        - {patterns: []}\n        - x\n",
                "file:5: path_configuration.android.v1.rules[0] must have at least one of patterns",
                "file:5: path_configuration.android.v1.rules[0] must have properties",
                "file:6: path_configuration.android.v1.rules[1] must be a map with patterns and properties"),
            .init(
                "path_configuration: {ios: {v1: {rules: {}}}}",
                "file:1: path_configuration.ios.v1.rules must be a list of rules"),
            .init(
                "path_configuration: {ios: {v1: {settings: {a: 99999999999999999999}}}}",
                "file:1: path_configuration.ios.v1.settings.a must be a number of at most 64 bits, or text in quotes"),
        ]
        + ["yes", "Off", "0777", "0x1F", "1_000", ".inf"].map {
            .init(
                "path_configuration: {ios: {v1: {settings: {a: \($0)}}}}",
                "file:1: path_configuration.ios.v1.settings.a is a boolean or a number to some readers of YAML: write true, "
                    + "false or digits, or put it in quotes")
        }

    static let unknown: [WrongFile] = [
        .init("prot: 1", #"file:1: there is no setting "prot"; did you mean port?"#),
        .init("nativeUserAgents: []", #"file:1: there is no setting "nativeUserAgents"; did you mean native_user_agents?"#),
        .init("policy: unread", #"file:1: there is no setting "policy"; did you mean badge.policy?"#),
        .init("jwt: {secrets: x}", #"file:1: there is no setting "secrets" in jwt; did you mean secret?"#),
        .init("zzzzz: 1", #"file:1: there is no setting "zzzzz""#),
        .init("jwt: {console: x}", #"file:1: there is no setting "console" in jwt; did you mean console at the top level?"#),
        .init("path_configuration: {windows: {}}", #"file:1: there is no setting "windows" in path_configuration"#),
    ]

    static let notation: [WrongFile] = [
        .init("port: 1\nhost: [", "file:3: this is not YAML: did not find expected node content"),
        .init("port: 1\n\thost: a", "file:2: this is not YAML: found a tab character that violates indentation"),
        .init("port: 1\nhost: a\nport: 2", #"file:1: "port" is written more than once in the same map; the first is here"#),
        .init("apps: {a: {}, a: {}}", #"file:1: "a" is written more than once in the same map; the first is here"#),
        .init("port: 1\n---\nport: 2", "file:2: a second document starts here; the file must hold one"),
        .init("port: *x", "file:1: found undefined alias"),
        .init("port: 1\n\"a\u{1}\"", "file:2: this is not YAML: control characters are not allowed"),
        .init("- port", #"file:1: the file must be a map of settings, such as "port: 3001""#),
        .init("port 3001", #"file:1: the file must be a map of settings, such as "port: 3001""#),
        .init("host: !local a", "file:1: YAML tags (!) are not supported"),
        .init("[a]: b", "file:1: the name of a setting must be text"),
        .init(
            "apps: {a: &a {}, b: {<<: *a}}", "file:1: merge keys (<<) are not supported: write the settings out"),
    ]
}

@Suite("Configuration: what is reported")
struct ConfigurationProblemsTests {
    let folder: ConfigurationFolder

    init() throws {
        folder = try ConfigurationFolder()
    }

    @Test(
        "Whatever is wrong in the file is reported with its line",
        arguments: [
            WrongFile.values, WrongFile.sections, WrongFile.apps, WrongFile.trees, WrongFile.unknown, WrongFile.notation,
        ].flatMap(\.self))
    func file(wrong: WrongFile) throws {
        let report = try folder.problems(wrong.yaml)
        #expect(report == wrong.report)
    }

    @Test("Problems of all sources are reported together: lines, variables, flags")
    func together() throws {
        let report = try folder.problems(
            "port: x\nbadge:\n  policy: none\nfoo: 1\n",
            environment: ["CAMPANILE_JWT_SECRET": "short", "CAMPANILE_BADGE_SYNC_ON_READ": "1", "CAMPANILE_HOSTS": "a"],
            flags: .init(host: "a b", port: 65_536))
        #expect(
            report == [
                #"file:1: port must be a whole number from 0 to 65535, and is "x""#,
                #"file:3: badge.policy must be unread or since_opened or given, and is "none""#,
                #"file:4: there is no setting "foo""#,
                #"CAMPANILE_BADGE_SYNC_ON_READ: badge.sync_on_read must be true or false, and is "1""#,
                "CAMPANILE_HOSTS: there is no such setting; did you mean CAMPANILE_HOST?",
                "CAMPANILE_JWT_SECRET: jwt.secret must be at least 32 bytes long, and is 5",
                #"--host: host must be an IP address or a host name, without scheme and port, and is "a b""#,
                #"--port: port must be a whole number from 0 to 65535, and is "65536""#,
            ])
    }

    @Test("What is written twice is reported for one map at a time, without the file's other problems and with other sources'")
    func repetitions() throws {
        let badge = "badge:\n  policy: none\n  policy: unread\n"
        let rest = "port: 1\nport: 3\nprot: 5\nhost: a b\nhost: c\n"
        let ofVariable = "CAMPANILE_PORT: port must be a whole number from 0 to 65535, and is \"y\""
        #expect(
            try folder.problems(badge + rest, environment: ["CAMPANILE_PORT": "y"]) == [
                #"file:2: "policy" is written more than once in the same map; the first is here"#, ofVariable,
            ])
        #expect(
            try folder.problems(rest) == [
                #"file:4: "host", "port" is written more than once in the same map; the first is here"#
            ])
    }

    @Test(
        "A file that says something twice is not said to be wrong where it isn't",
        arguments: [
            ("native_user_agents:\n- a\nhost: b\nnative_user_agents:\n- c\n", ["native_user_agents"]),
            ("{\n\"host\": \"a\",\n\"apps\": {\n},\n\"apps\": {\n}\n}", ["apps"]),
            ("apps: {\n  a: {},\n  a: {} }", ["a"]),
            ("host: a\nbadge: &x\n  policy: unread\nhost: &y b\njwt: {issuer: *y}\n", ["host"]),
            ("{port: 1, port: 2, host: a, host: b}", ["host", "port"]),
        ])
    func onlyRepetitions(yaml: String, keys: [String]) throws {
        let named = keys.map { "\"\($0)\"" }.joined(separator: ", ")
        let report = try folder.problems(yaml)
        #expect(
            report.count == 1 && report[0].hasSuffix("\(named) is written more than once in the same map; the first is here"))
    }

    @Test("Lines may end as on Windows")
    func carriageReturns() throws {
        #expect(
            try folder.problems("port: 1\r\nhost: a\r\nprot: 3\r\n") == [
                #"file:3: there is no setting "prot"; did you mean port?"#
            ])
    }

    @Test("A value that another source overrides must be right too")
    func overridden() throws {
        let report = try folder.problems("port: x", environment: ["CAMPANILE_PORT": "y"], flags: .init(port: 1))
        #expect(report.map { $0.prefix(14) } == ["file:1: port m", "CAMPANILE_PORT"])
    }

    @Test("A secret in one source and a key set in another are still both")
    func bothOverSources() throws {
        let report = try folder.problems(
            "jwt: {jwks_file: '{dir}/jwks.json'}", environment: ["CAMPANILE_JWT_SECRET": SettingSample.longA])
        #expect(
            report == ["file:1: jwt.secret (CAMPANILE_JWT_SECRET) and jwt.jwks_file can't both be set; remove one of them"])
    }

    @Test(
        "An unknown variable is reported with what was probably meant",
        arguments: [
            ("CAMPANILE_PROT", "there is no such setting; did you mean CAMPANILE_PORT?"),
            ("CAMPANILE_JWTSECRET", "there is no such setting; did you mean CAMPANILE_JWT_SECRET?"),
            (
                "CAMPANILE_APPS_DEFAULT_APNS_KEYID",
                "there is no such setting; did you mean CAMPANILE_APPS_DEFAULT_APNS_KEY_ID?"
            ),
            (
                "CAMPANILE_APPS_SHOP_FCM_URL",
                "there is no such setting; apps get their names in the file, and only the app default needs no entry there"
            ),
            ("CAMPANILE_DEEP_LINKS_HOME_TITLE", "deep_links can be set in the file only"),
            ("CAMPANILE_CATEGORIES", "categories can be set in the file only"),
            ("CAMPANILE_PATH_CONFIGURATION_IOS", "path_configuration can be set in the file only"),
            ("CAMPANILE_HOTS", "there is no such setting; did you mean CAMPANILE_HOST?"),
            ("CAMPANILE_PORTS", "there is no such setting; did you mean CAMPANILE_PORT?"),
            ("CAMPANILE_CONSOL", "there is no such setting; did you mean CAMPANILE_CONSOLE?"),
            ("CAMPANILE_BADGE_SYNC_ONREAD", "there is no such setting; did you mean CAMPANILE_BADGE_SYNC_ON_READ?"),
        ])
    func variables(name: String, message: String) throws {
        #expect(try folder.problems(nil, environment: [name: "x"]) == ["\(name): \(message)"])
    }

    @Test(
        "A variable that is nearly no setting is passed over, and told",
        arguments: [
            "CAMPANILE_SOMETHING_ELSE", "CAMPANILE_", "CAMPANILE_HOME", "CAMPANILE_ROOT", "CAMPANILE_ENV", "CAMPANILE_IMAGE_TAG",
            "CAMPANILE_SERVICE", "CAMPANILE_URL_OLD", "CAMPANILE_PORT_NUMBER",
        ])
    func foreign(name: String) throws {
        let configuration = try folder.load("port: 4", environment: [name: "x", "CAMPANILE_HOST": "::1"])
        #expect(configuration.passedOver == .init(unknown: [name]))
        #expect((configuration.port, configuration.host) == (4, "::1"))
    }

    @Test(
        "What Kubernetes says of Services is no setting, under whatever name that begins like ours",
        arguments: [
            "CAMPANILE", "CAMPANILE_SIMULATOR", "CAMPANILE_METRICS", "CAMPANILE_APPS",
        ])
    func serviceLinks(service: String) throws {
        let links = [
            "PORT": "tcp://10.0.0.1:80", "SERVICE_HOST": "fd00::1", "SERVICE_PORT": "80", "SERVICE_PORT_HTTP_2": "81",
            "PORT_80_TCP": "tcp://10.0.0.1:80", "PORT_80_TCP_PORT": "80", "PORT_80_TCP_PROTO": "tcp",
            "PORT_80_TCP_ADDR": "10.0.0.1", "PORT_53_UDP": "udp://[fd00::1]:53",
        ].map { ("\(service)_\($0)", $1) }
        let configuration = try folder.load("port: 4", environment: Dictionary(uniqueKeysWithValues: links))
        #expect(configuration.passedOver == .init(serviceLinks: links.map(\.0).sorted()))
        #expect(configuration.port == 4 && configuration.metrics.port == nil)
    }

    @Test(
        "A port of ours that is no port is a mistake, whatever it looks like",
        arguments: [
            "abc", "tcp:10.0.0.1", "http://10.0.0.1:80", "3001/tcp", "tcp://",
        ])
    func wrongPort(value: String) throws {
        let problems = try folder.problems(nil, environment: ["CAMPANILE_PORT": value])
        #expect(problems.count == 1 && problems[0].hasPrefix("CAMPANILE_PORT: port must be a whole number"))
    }

    @Test("An empty variable is a problem and not a default, as is an empty element of a list")
    func emptyVariables() throws {
        let environment = ["CAMPANILE_JWT_ISSUER": "", "CAMPANILE_NATIVE_USER_AGENTS": "A/,,B/"]
        #expect(
            try folder.problems(nil, environment: environment) == [
                "CAMPANILE_JWT_ISSUER: jwt.issuer is empty; write a value or remove it",
                "CAMPANILE_NATIVE_USER_AGENTS: native_user_agents[1] is empty; write a value or remove it",
            ])
    }

    @Test("A variable of an app begins it, and what is missing is reported there")
    func halfAnApp() throws {
        let environment = ["CAMPANILE_APPS_DEFAULT_FCM_URL": "https://a.test"]
        #expect(
            try folder.problems(nil, environment: environment) == [
                "CAMPANILE_APPS_DEFAULT_FCM_URL: apps.default.fcm.service_account_file is missing"
            ])
    }

    @Test("A flag that nothing would use, or that is no URL, is a problem")
    func uselessFlags() throws {
        let flags = Configuration.Flags(apnsURL: "https://a.test", fcmURL: "a.test", pushCA: "")
        #expect(
            try folder.problems(nil, flags: flags) == [
                "--apns-url: no app has apns, so no push would use the URL",
                "--fcm-url: the URL must be an https URL of a host and, if need be, a port, such as https://127.0.0.1:2197",
                "--push-ca: push.ca_file is empty; write a value or remove it",
            ])
    }

    @Test("What may stand in a file that isn't YAML is not called missing")
    func brokenFile() throws {
        let report = try folder.problems(
            "apps: [", environment: ["CAMPANILE_APPS_DEFAULT_FCM_URL": "https://a.test", "CAMPANILE_PORT": "x"],
            flags: .init(apnsURL: "https://a.test"))
        #expect(
            report == [
                "file:2: this is not YAML: did not find expected node content",
                #"CAMPANILE_PORT: port must be a whole number from 0 to 65535, and is "x""#,
            ])
    }

    @Test("Aliases of aliases are counted where they stand, and end before they fill the memory")
    func aliasesOfAliases() throws {
        let ten = Array(repeating: "*a", count: 10).joined(separator: ", ")
        let lines = (0..<20).map { "            a\($0): &a [\($0 == 0 ? "1" : ten)]" }
        let yaml = "path_configuration:\n  ios:\n    v1:\n      settings:\n" + lines.joined(separator: "\n")
        let report = try folder.problems(yaml)
        #expect(report == ["file: the file holds more than 100000 values, counting every use of an alias"])
    }

    @Test("A file that was asked for must be there, be a file, be text and have an end")
    func unreadableFiles() throws {
        func report(_ file: String, isRequired: Bool) -> [String] {
            do {
                _ = try Configuration.load(file: file, fileIsRequired: isRequired, environment: [:], flags: .init())
                return []
            } catch {
                return error.problems.map { "\($0)".replacing(folder.path, with: "{dir}") }
            }
        }
        let folderPath = folder.path
        #expect(
            report("\(folderPath)/none.yaml", isRequired: true) == ["{dir}/none.yaml: the configuration file isn't there"])
        #expect(report(folderPath, isRequired: false) == ["{dir}: the configuration file is a directory"])
        try Data([0xFF, 0xFE, 0x41]).write(to: URL(filePath: "\(folderPath)/latin.yaml"))
        #expect(
            report("\(folderPath)/latin.yaml", isRequired: false) == [
                "{dir}/latin.yaml: the configuration file is not UTF-8 text"
            ])
        try Data(repeating: UInt8(ascii: "#"), count: 1 << 20 + 1).write(to: URL(filePath: "\(folderPath)/large.yaml"))
        #expect(
            report("\(folderPath)/large.yaml", isRequired: false)
                == ["{dir}/large.yaml: the configuration file is larger than 1048576 bytes"])
    }

    @Test("The description counts the problems and gives each a line")
    func description() {
        let one = ConfigurationProblems.Problem(origin: .file("a.yaml", line: 10), message: "x")
        let two = ConfigurationProblems.Problem(origin: .file("a.yaml", line: 9), message: "y")
        let three = ConfigurationProblems.Problem(origin: .environment("CAMPANILE_A"), message: "z")
        #expect("\(ConfigurationProblems([one]))" == "The configuration has a problem:\n  a.yaml:10: x")
        #expect(
            "\(ConfigurationProblems([three, one, two]))"
                == "The configuration has 3 problems:\n  a.yaml:9: y\n  a.yaml:10: x\n  CAMPANILE_A: z")
    }

    @Test("Text from outside stands in a message short and on one line")
    func quotedText() throws {
        let long = String(repeating: "x", count: 100)
        let report = try folder.problems(
            "port: \"a\\n\\e[31m\(long)\"\nconsole: \"\(long)\"", environment: ["CAMPANILE_PORT": "a\n\u{1B}\(long)"])
        #expect(report.count == 3)
        #expect(report.allSatisfy { !$0.contains("\n") && !$0.contains("\u{1B}") && !$0.contains(long) })
    }
}
