import CampanileCore
import Foundation
import Testing

@testable import CampanileServer

@Suite("Configuration: the example file")
struct ConfigurationExampleTests {
    private static let url = HouseRulesTests.root.appending(path: "campanile.example.yaml")

    /// The example with every commented-out setting set. Where it is set already, on the line before, that one goes.
    private func fullExample() throws -> String {
        let text = try String(contentsOf: Self.url, encoding: .utf8)
        var lines: [String] = []
        for line in text.components(separatedBy: "\n") {
            guard let match = line.wholeMatch(of: #/( *)#([^ #].*)/#) else {
                lines.append(line)
                continue
            }
            let setting = String(match.1 + match.2)
            let name = setting.prefix { $0 != ":" } + ":"
            if let last = lines.last, last.hasPrefix(name) { lines.removeLast() }
            lines.append(setting)
        }
        return lines.joined(separator: "\n")
    }

    /// A setting's path with `*` for names of the user's choice and without the depth of the deep-link tree.
    private func shape(_ path: [String]) -> String {
        var shape: [String] = []
        var wasMap = false
        for step in path {
            if wasMap {
                shape.append("*")
                wasMap = false
            } else {
                wasMap = ["apps", "categories", "deep_links", "children", "query", "ios", "android"].contains(step)
                shape.append(step.replacing(#/\[\d+\]/#, with: "[]"))
            }
        }
        let name = shape.joined(separator: ".")
        return name.replacing(#/(\.children\.\*)+/#, with: "")
    }

    private func shapes(_ entries: [WrittenValue.Entry], below path: [String] = []) -> Set<String> {
        var found: Set<String> = []
        for entry in entries {
            let path = path + [entry.key]
            found.insert(shape(path))
            switch entry.value.content {
            case .map(let entries): found.formUnion(shapes(entries, below: path))
            case .list(let elements):
                for (index, element) in elements.enumerated() {
                    guard case .map(let entries) = element.content else { continue }
                    found.formUnion(shapes(entries, below: path.dropLast() + ["\(entry.key)[\(index)]"]))
                }
            case .scalar: break
            }
        }
        return found
    }

    /// Returns what the reader asks for when it reads the full example.
    private func known() throws -> (shapes: Set<String>, written: Set<String>, problems: [ConfigurationProblems.Problem]) {
        let document = ConfigurationDocument.parse(try fullExample(), path: "example")
        let reader = ConfigurationReader(document: document, environment: [:])
        _ = Configuration(reader, .init())
        return (Set(reader.knownSettings.map(shape)), shapes(document.entries), reader.finish())
    }

    @Test("It loads as it stands, and says what the defaults say")
    func asItStands() throws {
        let configuration = try Configuration.load(
            file: Self.url.path(), fileIsRequired: true, environment: [:], flags: .init())
        #expect(configuration == Configuration())
    }

    @Test("It has every setting that the reader knows, set or commented out")
    func complete() throws {
        let known = try known()
        #expect(known.shapes.count > 50)
        #expect(known.shapes.subtracting(known.written) == [])
        #expect(known.problems.filter { $0.message.contains("there is no setting") } == [])
    }

    @Test("With everything set, only what nobody may use as it stands is wrong: its secrets, its files, its pairs")
    func everythingSet() throws {
        let messages = try known().problems.map(\.message)
        let expected = [
            "jwt.secret must be at least 32", "jwt.jwks_file names", "apps.default.apns.key_file names",
            "apps.default.fcm.service_account_file names", "push.ca_file names",
            "cable.signed_stream_key must be at least 32", "cable.secret_key_base must be at least 32",
            "cable.anycable_secret must be at least 16", "apps.default.cable.signed_stream_key must be at least 32",
            "apps.default.cable.secret_key_base must be at least 32", "apps.default.cable.anycable_secret must be at least 16",
            "metrics.token must be at least 16",
        ]
        for start in expected { #expect(messages.contains { $0.hasPrefix(start) }, "\(start)") }
        #expect(messages.count == expected.count, "\(messages)")
    }

    @Test("With everything set and these made right, it loads with every value")
    func everythingRight() throws {
        let folder = try ConfigurationFolder()
        let text = try fullExample()
            .replacing("  secret: too-short-on-purpose", with: "  secret: \(SettingSample.longA)")
            .replacing(#/ *jwks_file: .*/#, with: "")
            .replacing("\n  signed_stream_key: too-short-on-purpose", with: "\n  signed_stream_key: \(SettingSample.longA)")
            .replacing("      signed_stream_key: too-short-on-purpose", with: "      signed_stream_key: \(SettingSample.longB)")
            .replacing("\n  anycable_secret: too-short", with: "\n  anycable_secret: \(SettingSample.longA)")
            .replacing("      anycable_secret: too-short", with: "      anycable_secret: \(SettingSample.longB)")
            .replacing(#/ *secret_key_base: .*/#, with: "")
            .replacing("token: too-short", with: "token: \(SettingSample.longB)")
            .replacing("AuthKey_ABC123DEFG.p8", with: "{dir}/key.p8")
            .replacing("service-account.json", with: "{dir}/account.json")
            .replacing(#/ca_file: .*/#, with: "ca_file: '{dir}/ca.pem'")
        let configuration = try folder.load(text)
        #expect(configuration.jwt.audience == "campanile")
        #expect(configuration.nativeUserAgents == ["MyApp/"])
        #expect(configuration.apps["default"]?.apns?.topic == "com.example.app")
        #expect(configuration.apps["default"]?.fcm?.url?.port == 2198)
        #expect(configuration.allowedOrigins.count == 2)
        #expect(configuration.trustedProxies.count == 3)
        #expect(configuration.deepLinks.nodes["home"]?.children["settings"]?.title == "Settings")
        #expect(configuration.categories["NOTICE"]?.sound == "default")
        #expect(configuration.pathConfiguration.ios["v1"]?.rules.first?.patterns == ["/new$", "/edit$"])
        #expect(configuration.pathConfiguration.android["v1"]?.rules.first?.properties["uri"] == .text("hotwire://fragment/web"))
        #expect(configuration.metrics.port == 3002)
    }

    @Test("The samples of the other tests leave no setting out")
    func samples() throws {
        let sections: Set = [
            "jwt", "badge", "apps", "apps.*", "apps.*.apns", "apps.*.fcm", "apps.*.badge", "apps.*.cable", "push", "streams",
            "cable",
            "broadcasts",
            "deep_links", "categories",
            "categories.*.android",
            "path_configuration", "path_configuration.ios", "path_configuration.android", "path_configuration.ios.*.rules",
            "path_configuration.android.*.rules", "metrics", "backup", "retention", "apps.*.path_configuration.ios",
            "apps.*.path_configuration.android",
        ]
        let settings = try known().shapes.subtracting(sections)
        #expect(settings.subtracting(SettingSample.all.map(\.setting)) == [])
        #expect(Set(SettingSample.all.map(\.setting)).subtracting(settings) == [])
    }
}

/// The environment that a server shares with the programs that call it.
@Suite("Configuration: the clients' variables")
struct ClientVariableTests {
    private let folder: ConfigurationFolder

    init() throws {
        folder = try ConfigurationFolder()
    }

    @Test("The clients' variables are nobody's business, and are not told")
    func clients() throws {
        let names = ["URL", "PUBLIC_URL", "APP", "KEY", "KEY_FILE", "BROADCAST_KEY", "BROADCAST_KEY_FILE"]
        let environment = Dictionary(uniqueKeysWithValues: names.map { ("CAMPANILE_" + $0, "x") })
        #expect(try folder.load(nil, environment: environment) == Configuration())
    }

    @Test("Each variable that the gem reads is the server's own or the clients', so that both may have one environment")
    func gem() throws {
        let source = try String(
            contentsOf: HouseRulesTests.root.appending(path: "clients/ruby/lib/campanile/configuration.rb"), encoding: .utf8)
        let read = Set(
            source.matches(of: /(present|setting)\("(CAMPANILE_[A-Z_]+)"/).flatMap { match in
                match.1 == "setting" ? [String(match.2), match.2 + "_FILE"] : [String(match.2)]
            })
        #expect(read.isSuperset(of: ["CAMPANILE_URL", "CAMPANILE_KEY_FILE", "CAMPANILE_JWT_SECRET"]))
        let served = [
            "CAMPANILE_JWT_SECRET": String(repeating: "s", count: 40),
            "CAMPANILE_CABLE_SIGNED_STREAM_KEY": String(repeating: "k", count: 40),
            "CAMPANILE_CABLE_STREAM_NAME": "notifications:{user_id}",
        ]
        let names = read.subtracting(["CAMPANILE_JWT_SECRET_FILE"])
        let environment = Dictionary(uniqueKeysWithValues: names.map { ($0, served[$0] ?? "x") })
        #expect(try folder.load(nil, environment: environment).passedOver == .init())
        let unserved = environment.filter { served[$0.key] == nil }
        #expect(try folder.load(nil, environment: unserved) == Configuration())
    }
}
