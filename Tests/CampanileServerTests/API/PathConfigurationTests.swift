import CampanileCore
import Foundation
import Testing

@testable import CampanileServer

/// The files that Hotwire Native apps fetch when they start.
@Suite struct PathConfigurationTests {
    private static let yaml = """
        path_configuration:
          ios:
            v1:
              settings:
                search: true
                limits: { small: 1, "large": 2.5 }
                tabs:
                  - { title: Home, icon: house, selected_icon: house.fill, path: / }
                  - { icon: bell, path: /notifications, notifications: true }
                  - { title: "A+", path: /a+b }
              rules:
                - patterns: ["/new$"]
                  properties: { context: modal, pull_to_refresh_enabled: false, mine: [1, x] }
          android:
            v1: { rules: [{ patterns: [".*"], properties: { uri: "hotwire://fragment/web" } }] }
            v2:
              settings: { tabs: [{ title: T, path: /t }] }
              rules: [{ patterns: ["^"], properties: { uri: "hotwire://fragment/mine" } }]
        apps:
          shop: { path_configuration: { sign_in: ['^/login(\\?|$)'], ios: { v1: {} } } }
        """

    private func served(_ body: (RunningServer) async throws -> Void) async throws {
        let folder = try ConfigurationFolder()
        let read = try folder.load(Self.yaml)
        try await withServer(
            {
                $0.pathConfiguration = read.pathConfiguration
                $0.apps = read.apps
            }, body)
    }

    @Test("the settings come with the tabs, and rules for the tabs and the sign-in stand before the file's")
    func document() async throws {
        try await served { server in
            let answer = try await server.client.get("/configurations/ios_v1.json")
            #expect(answer.status == 200)
            #expect(answer.header("content-type") == "application/json")
            let expected = #"""
                {"settings":{"limits":{"large":2.5,"small":1},"search":true,\#
                "sign_in":["^/sign_in","^/sign_up","^/session/new","^/users/sign_in","^/users/sign_up"],"tabs":[\#
                {"title":"Home","icon":"house","selected_icon":"house.fill","path":"/","notifications":false},\#
                {"title":null,"icon":"bell","selected_icon":null,"path":"/notifications","notifications":true},\#
                {"title":"A+","icon":null,"selected_icon":null,"path":"/a+b","notifications":false}]},"rules":[\#
                {"patterns":["^/?(\\?|$)","^/notifications(\\?|$)","^/a\\+b(\\?|$)"],"properties":{"presentation":"replace"}},\#
                {"patterns":["^/sign_in","^/sign_up","^/session/new","^/users/sign_in","^/users/sign_up"],\#
                "properties":{"context":"modal","modal_dismiss_gesture_enabled":false}},\#
                {"patterns":["/new$"],"properties":{"context":"modal","mine":[1,"x"],"pull_to_refresh_enabled":false}}]}
                """#
            #expect(String(decoding: answer.body, as: UTF8.self) == expected)
        }
    }

    @Test(
        "sign_in names the pages where a session begins, in the settings and in the rule that makes them modal; without any there is no rule",
        arguments: [("[^/enter, '^/join$']", #"["^/enter","^/join$"]"#), ("[]", "[]")])
    func signIn(patterns: String, expected: String) async throws {
        let read = try ConfigurationFolder().load(
            """
            path_configuration:
              sign_in: \(patterns)
              ios: { v1: {} }
              android: { v1: { rules: [{ patterns: [".*"], properties: { uri: a } }] } }
            """)
        try await withServer({ $0.pathConfiguration = read.pathConfiguration }) { server in
            for name in ["ios_v1", "android_v1"] {
                let document = try await server.client.get("/configurations/\(name).json").json
                let written = try #require(document["settings"]?["sign_in"])
                #expect(String(decoding: written.text, as: UTF8.self) == expected)
                let modal = document["rules"]?.array.first { $0["properties"]?["context"] == "modal" }
                #expect(modal?["patterns"] == (written.array.isEmpty ? nil : written))
            }
        }
    }

    @Test("on iOS a sign-in page can't be swiped away; Android has no such gesture")
    func dismissal() async throws {
        try await served { server in
            let ios = try await server.client.get("/configurations/ios_v1.json").json
            #expect(properties(ios, "/session/new")["modal_dismiss_gesture_enabled"] == false)
            #expect(properties(ios, "/a+b")["modal_dismiss_gesture_enabled"] == nil)
            let android = try await server.client.get("/configurations/android_v1.json").json
            #expect(properties(android, "/users/sign_in")["context"] == "modal")
            #expect(properties(android, "/users/sign_in")["modal_dismiss_gesture_enabled"] == nil)
        }
    }

    /// Of all rules that match, the later ones win: Hotwire Native, PathConfiguration.
    private func properties(_ document: JSONValue, _ path: String) -> [String: JSONValue] {
        var properties: [String: JSONValue] = [:]
        for rule in document["rules"]?.array ?? [] {
            let patterns = (rule["patterns"]?.array ?? []).compactMap(\.string)
            guard patterns.contains(where: { path.range(of: $0, options: .regularExpression) != nil }),
                case .object(let members)? = rule["properties"]
            else { continue }
            for member in members { properties[member.key] = member.value }
        }
        return properties
    }

    @Test("a tab's path replaces, with and without a query, and the paths below it don't")
    func tabs() async throws {
        try await served { server in
            let document = try await server.client.get("/configurations/ios_v1.json").json
            for path in ["/", "/?a=b", "", "?a=b", "/notifications", "/notifications?page=2", "/a+b"] {
                #expect(properties(document, path)["presentation"] == "replace", "\(path)")
            }
            for path in ["/notifications/1", "/notificationsettings", "/aab", "/x/notifications"] {
                #expect(properties(document, path)["presentation"] == nil, "\(path)")
            }
            #expect(properties(document, "/sign_in?next=/a")["context"] == "modal")
            #expect(properties(document, "/sign_in/new")["context"] == "modal")
        }
    }

    @Test("on Android every path has an uri, also those of the rules that are made, and the file's wins")
    func android() async throws {
        try await served { server in
            let document = try await server.client.get("/configurations/android_v2.json").json
            for path in ["/t", "/sign_up", "/elsewhere"] {
                #expect(properties(document, path)["uri"] == "hotwire://fragment/mine", "\(path)")
            }
            #expect(properties(document, "/t")["presentation"] == "replace")
            let made = document["rules"]?.array.prefix(2).compactMap { $0["properties"]?["uri"] }
            #expect(made == ["hotwire://fragment/web", "hotwire://fragment/web"])
        }
    }

    @Test("documents have an entity tag and may be kept; another version, platform or name is not found")
    func tags() async throws {
        try await served { server in
            let answer = try await server.client.get("/configurations/android_v1.json")
            let tag = try #require(answer.header("etag"))
            #expect(answer.header("cache-control") == "public, max-age=300")
            let known = try await server.client.get("/configurations/android_v1.json", headers: ["If-None-Match": tag])
            #expect((known.status, known.body.count) == (304, 0))
            #expect(try await server.client.get("/configurations/ios_v1.json").header("etag") != tag)
            for name in ["ios_v2.json", "ios_v1", "windows_v1.json", "ios_v1.json.json", "v1.json", "%FF", "ios_V1.json"] {
                let missing = try await server.client.get("/configurations/\(name)")
                #expect((missing.status, missing.code) == (404, "not_found"), "\(name)")
            }
        }
    }

    @Test("the start warns of every version that has tabs and none for the inbox")
    func withoutInboxTab() async throws {
        let read = try ConfigurationFolder().load(
            Self.yaml + "\n  b: { path_configuration: { ios: { v3: { settings: { tabs: [{ title: T, path: /t }] } } } } }")
        let log = KeptLog()
        let server = try await RunningServer(logger: log.logger) {
            $0.pathConfiguration = read.pathConfiguration
            $0.apps = read.apps
        }
        await server.stop()
        let warnings = log.lines.filter { $0.contains("No tab has notifications: true") }
        #expect(
            warnings.map { $0.split(separator: "version=").last } == [
                "path_configuration.android.v2", "apps.b.path_configuration.ios.v3",
            ])
    }

    @Test("an app has its own configurations where it says so, in the place of the top level's")
    func apps() async throws {
        try await served { server in
            let own = try await server.client.get("/configurations/ios_v1.json?app=shop")
            let expected = #"""
                {"settings":{"sign_in":["^/login(\\?|$)"],"tabs":[]},"rules":[{"patterns":["^/login(\\?|$)"],\#
                "properties":{"context":"modal","modal_dismiss_gesture_enabled":false}}]}
                """#
            #expect(String(decoding: own.body, as: UTF8.self) == expected)
            #expect(try await server.client.get("/configurations/android_v1.json?app=shop").status == 404)
            #expect(try await server.client.get("/configurations/android_v1.json?app=other").status == 200)
            #expect(try await server.client.get("/configurations/ios_v1.json?app=a/b").errorFields == ["app"])
        }
    }
}

/// Path configurations that an app couldn't use are found at start.
@Suite struct WrongPathConfigurationTests {
    private let folder: ConfigurationFolder

    init() throws { folder = try ConfigurationFolder() }

    private func problems(_ platform: String, _ version: String) throws -> [String] {
        try folder.problems("path_configuration: {\(platform): {v1: \(version)}}").map {
            $0.replacing("file:1: path_configuration.\(platform).v1", with: "…")
        }
    }

    @Test(
        "tabs without what makes a tab are named",
        arguments: [
            ("true", ["….settings.tabs must be a list of tabs"]),
            ("[x]", ["….settings.tabs[0] must be a map with path and title or icon"]),
            ("[{title: A}]", ["….settings.tabs[0].path is missing"]),
            ("[{path: /a}]", ["….settings.tabs[0] must have a title, an icon or both"]),
            (
                "[{title: A, path: a}]",
                [#"….settings.tabs[0].path must be a path that begins with / and has no query, and is "a""#]
            ),
            (
                "[{title: A, path: '/a?b=c'}]",
                [#"….settings.tabs[0].path must be a path that begins with / and has no query, and is "/a?b=c""#]
            ),
            (
                "[{title: A, path: //a}]",
                ["….settings.tabs[0].path must not begin with //: browsers take the next part for a host"]
            ),
            (
                "[{title: A, path: /a, selectedIcon: b}]",
                [
                    #"file:1: there is no setting "selectedIcon" in path_configuration.ios.v1.settings.tabs[0]; did you mean selected_icon?"#
                ]
            ),
            (
                "[{title: A, path: /a, badge: 1}]",
                [
                    #"file:1: there is no setting "badge" in path_configuration.ios.v1.settings.tabs[0]"#
                ]
            ),
            (
                "[{title: A, path: /a}, {icon: b, path: /b}, {icon: c, path: /a}]",
                [
                    "….settings.tabs[2].path is that of tabs[0] already: each tab must have its own path"
                ]
            ),
            (
                "[\((0...20).map { "{icon: a, path: /\($0)}" }.joined(separator: ", "))]",
                ["….settings.tabs must hold at most 20 tabs"]
            ),
            (
                "[{title: A, path: /a, notifications: true}, {icon: b, path: /b, notifications: true}]",
                [
                    "….settings.tabs must have one tab with notifications: true at most"
                ]
            ),
        ])
    func tabs(tabs: String, expected: [String]) throws {
        #expect(try problems("ios", "{settings: {tabs: \(tabs)}}") == expected)
    }

    @Test(
        "a property that Hotwire Native reads must be what it reads; the app's own may be anything",
        arguments: [
            ("context: modals", ["….rules[0].properties.context must be default or modal"]),
            (
                "presentation: 1",
                [
                    "….rules[0].properties.presentation must be default or pop or replace or replace_root or clear_all or refresh or none"
                ]
            ),
            ("pull_to_refresh_enabled: 'true'", ["….rules[0].properties.pull_to_refresh_enabled must be true or false"]),
            ("uri: ''", ["….rules[0].properties.uri must be text"]), ("mine: {a: [1]}", []), ("presentation: replace_root", []),
        ])
    func properties(property: String, expected: [String]) throws {
        #expect(try problems("ios", "{rules: [{patterns: [a], properties: {\(property)}}]}") == expected)
    }

    @Test(
        "a presentation is one that the platform has",
        arguments: [
            (
                "ios", "push",
                [
                    "….rules[1].properties.presentation must be default or pop or replace or replace_root or clear_all or refresh or none"
                ]
            ),
            ("android", "push", []), ("ios", "clear_all", []), ("android", "clear_all", []),
        ])
    func presentations(platform: String, word: String, expected: [String]) throws {
        let rules = "[{patterns: [.*], properties: {uri: a}}, {patterns: [a$], properties: {presentation: \(word)}}]"
        #expect(try problems(platform, "{rules: \(rules)}") == expected)
    }

    @Test(
        "on Android no path may end up both modal and replace_root, at which the app throws",
        arguments: [
            (
                "{patterns: [/a$], properties: {context: modal, presentation: replace_root}}",
                [
                    "….rules[1].properties has context: modal with presentation: replace_root, at which Hotwire Native for Android throws"
                ]
            ),
            (
                "{patterns: [^/sign], properties: {presentation: replace_root}}",
                [
                    "…: /sign_in would be modal and replace_root, at which Hotwire Native for Android throws: give it another presentation"
                ]
            ),
            (
                "{patterns: [^/SIGN_UP], properties: {presentation: replace_root}}",
                [
                    "…: /sign_up would be modal and replace_root, at which Hotwire Native for Android throws: give it another presentation"
                ]
            ),
            ("{patterns: [^/sign], properties: {context: default, presentation: replace_root}}", []),
        ])
    func modalRoots(rule: String, expected: [String]) throws {
        #expect(try problems("android", "{rules: [{patterns: [.*], properties: {uri: a}}, \(rule)]}") == expected)
        #expect(try problems("ios", "{rules: [\(rule)]}") == [])
    }

    @Test(
        "on iOS a tab's path must not be clear_all, because the tab would stay blank",
        arguments: [
            ("[^/a$]", true), ("[.*]", true), ("[^/A$]", false), ("[^/a/b]", false),
        ])
    func blankTabs(patterns: String, isBlank: Bool) throws {
        let version =
            "settings: {tabs: [{title: A, path: /a}]}, rules: [{patterns: \(patterns), properties: {presentation: clear_all}}"
        let complaint = "…: the tab /a would be clear_all and stay blank: give it another presentation"
        #expect(try problems("ios", "{\(version)]}") == (isBlank ? [complaint] : []))
        #expect(try problems("ios", "{\(version), {patterns: [/a], properties: {presentation: replace}}]}") == [])
    }

    @Test(
        "sign_in is a list of regular expressions, and settings.sign_in is the server's to write",
        arguments: [
            ("sign_in: /login", ["file:1: path_configuration.sign_in must be a list, such as [\"…\"]"]),
            ("sign_in: ['(']", ["file:1: path_configuration.sign_in[0] must be a regular expression, and is \"(\""]),
            (
                "sign_in: [/login], ios: {v1: {settings: {sign_in: [/login]}}}",
                [
                    "file:1: path_configuration.ios.v1.settings.sign_in is made from path_configuration.sign_in: set the patterns there"
                ]
            ),
        ])
    func signIn(written: String, expected: [String]) throws {
        #expect(try folder.problems("path_configuration: {\(written)}") == expected)
    }

    @Test("the conflict on Android is found for a sign-in page of the file's own, where its pattern is a path written out")
    func ownSignIn() throws {
        func problems(_ pattern: String) throws -> [String] {
            let rules = "{patterns: [.*], properties: {uri: a}}, {patterns: [/enter], properties: {presentation: replace_root}}"
            return try folder.problems("path_configuration: {sign_in: ['\(pattern)'], android: {v1: {rules: [\(rules)]}}}")
        }
        #expect(try problems("^/enter$").count == 1)
        #expect(try problems("^/enter/now").count == 1)
        #expect(try problems("^/elsewhere") == [])
    }

    @Test("there are at most 500 rules")
    func manyRules() throws {
        let rules = { (count: Int) in
            "[" + Array(repeating: "{patterns: [a], properties: {}}", count: count).joined(separator: ", ") + "]"
        }
        #expect(try problems("ios", "{rules: \(rules(500))}") == [])
        #expect(try problems("ios", "{rules: \(rules(501))}") == ["….rules must hold at most 500 rules"])
    }

    @Test(
        "a version is v and a number from 1",
        arguments: [("1", false), ("foo", false), ("v0", false), ("v01", false), ("V1", false), ("v10", true)])
    func versionNames(name: String, isRight: Bool) throws {
        let complaint = #"file:1: the name of a version in path_configuration.ios must be v1, v2 and so on, and is "\#(name)""#
        #expect(try folder.problems("path_configuration: {ios: {'\(name)': {}}}") == (isRight ? [] : [complaint]))
    }

    @Test(
        "an Android version must give every path an uri",
        arguments: [
            ("{}", false), ("{rules: [{patterns: ['.*'], properties: {context: modal}}]}", false),
            ("{rules: [{patterns: ['^/a'], properties: {uri: 'hotwire://fragment/web'}}]}", false),
            ("{rules: [{patterns: ['^/$', '^/a'], properties: {uri: a}}]}", false),
            ("{rules: [{patterns: ['^(?!/native).*'], properties: {uri: a}}]}", false),
            ("{rules: [{patterns: ['^/$'], properties: {uri: a}}, {patterns: ['^/.+[^x]$'], properties: {uri: a}}]}", false),
            ("{rules: [{patterns: ['^.$'], properties: {uri: a}}]}", false),
            ("{rules: [{patterns: ['.+'], properties: {uri: a}}]}", true),
            ("{rules: [{patterns: ['^/.*$'], properties: {uri: a}}]}", true),
            ("{rules: [{patterns: ['^'], properties: {uri: a}}]}", true),
            ("{rules: [{patterns: ['/'], properties: {uri: a}}]}", true),
            ("{rules: [{patterns: [x, '.*'], properties: {uri: 'hotwire://fragment/web'}}]}", true),
            ("{rules: [{patterns: ['^/'], properties: {uri: a}}, {patterns: [b], properties: {context: modal}}]}", true),
        ])
    func uris(version: String, isRight: Bool) throws {
        let missing =
            #"…: Android needs an uri for every path: begin with a rule such as { patterns: [".*"], properties: { uri: "hotwire://fragment/web" } }"#
        #expect(try problems("android", version) == (isRight ? [] : [missing]))
    }
}
