import CampanileCore
import HTTPEngine

/// `GET /configurations/{name}`: what a Hotwire Native app fetches when it starts, `ios_v1.json` or `android_v1.json`.
struct PathConfigurationResource: Sendable {
    private let documents: PerApp<[String: PublicDocument]>

    init(_ configuration: Configuration) {
        documents = PerApp(configuration) { app in
            let paths = configuration.apps[app]?.pathConfiguration ?? configuration.pathConfiguration
            return DevicePlatform.allCases.reduce(into: [:]) { documents, platform in
                for (name, version) in platform == .ios ? paths.ios : paths.android {
                    documents["\(platform.rawValue)_\(name).json"] = PublicDocument(version.json(platform))
                }
            }
        }
    }

    func get(_ request: Request) throws -> Answer {
        let documents = documents[try request.askedApp()]
        guard let document = request.parameter(0).flatMap({ documents[$0] }) else { throw ClientError.notFound }
        return .now(document.response(to: request))
    }
}

extension Configuration.PathConfiguration.Version {
    /// The rules that are made stand before the file's, so that these win: of rules that match, Hotwire Native takes the last.
    func json(_ platform: DevicePlatform) -> JSONValue {
        let members = settings.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, $0.value.json) }
        let made = [
            JSONValue.Member("sign_in", .array(signIn.map { .string($0) })), .init("tabs", .array(tabs.map(\.json))),
        ]
        return .object([
            .init("settings", .object(members + made)),
            .init("rules", .array((madeRules(platform) + rules).map(\.json))),
        ])
    }
}

extension Configuration.PathConfiguration.Tab {
    fileprivate var json: JSONValue {
        func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
        return .object([
            .init("title", text(title)), .init("icon", text(icon)), .init("selected_icon", text(selectedIcon)),
            .init("path", .string(path)), .init("notifications", .bool(isNotifications)),
        ])
    }
}

extension Configuration.PathConfiguration.Rule {
    fileprivate var json: JSONValue {
        let members = properties.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, $0.value.json) }
        return .object([
            .init("patterns", .array(patterns.map { .string($0) })), .init("properties", .object(members)),
        ])
    }
}

extension Configuration.Value {
    fileprivate var json: JSONValue {
        switch self {
        case .null: .null
        case .bool(let bool): .bool(bool)
        case .integer(let integer): .integer(Int64(integer))
        case .number(let number): .number("\(number)")
        case .text(let text): .string(text)
        case .list(let values): .array(values.map(\.json))
        case .object(let members): .object(members.sorted { $0.key < $1.key }.map { .init($0.key, $0.value.json) })
        }
    }
}
