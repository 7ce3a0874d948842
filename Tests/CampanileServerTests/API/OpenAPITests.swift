import CampanileCore
import Foundation
import HTTPEngine
import Testing
import Yams

@testable import CampanileServer
@testable import Push

/// openapi.yaml and the router's table say the same, in both directions.
@Suite struct OpenAPITests {
    struct Operation: Hashable, CustomStringConvertible {
        let method: String
        let path: String
        let id: String
        let access: String

        var description: String { "\(method) \(path) \(id) \(access)" }
    }

    private static let methods: Set<String> = ["get", "put", "post", "delete", "options", "head", "patch", "trace"]

    private func document() throws -> Node {
        let text = try String(contentsOf: HouseRulesTests.root.appending(path: "openapi.yaml"), encoding: .utf8)
        return try #require(try Yams.compose(yaml: text))
    }

    private func described() throws -> Set<Operation> {
        let document = try document()
        let general = access(document["security"])
        var operations: Set<Operation> = []
        for (path, item) in try #require(document["paths"]?.mapping) {
            for (method, operation) in try #require(item.mapping) where Self.methods.contains(method.string ?? "") {
                operations.insert(
                    Operation(
                        method: (method.string ?? "").uppercased(), path: path.string ?? "",
                        id: operation["operationId"]?.string ?? "",
                        access: operation["security"].map(access) ?? general))
            }
        }
        return operations
    }

    private func access(_ security: Node?) -> String {
        let names = (security?.sequence ?? []).compactMap { $0.mapping.map { $0.keys.first?.string ?? "anyone" } }
        return names.isEmpty ? "anyone" : names.joined(separator: " or ")
    }

    @Test("every route is described and every operation is routed, with the same name and the same credential")
    func both() async throws {
        try await withServer { server in
            let routed = server.app.routes.map { route in
                let access =
                    switch route.handler {
                    case .anyone: "anyone"
                    case .user: "userToken"
                    case .listener: "userToken or accessToken or streamCookie"
                    case .producer: "producerKey"
                    case .userOrProducer: "userToken or producerKey"
                    case .observer: "anyone or operateKey"
                    case .watcher, .operator: "operateKey"
                    case .broadcaster: "broadcastKey"
                    case .anyCable: "broadcastKey"
                    }
                return Operation(
                    method: route.method.name, path: "\(route.pattern)", id: "\(route.operationID)", access: access)
            }
            let described = try described()
            #expect(Set(routed).subtracting(described).isEmpty, "routed and not described")
            #expect(described.subtracting(routed).isEmpty, "described and not routed")
            #expect(routed.count == described.count)
        }
    }

    @Test("the server hands out the contract it is held to")
    func served() async throws {
        try await withServer { server in
            let answer = try await server.client.get("/openapi.yaml")
            let file = try Data(contentsOf: HouseRulesTests.root.appending(path: "openapi.yaml"))
            #expect(answer.status == 200)
            let isSame = answer.body == Array(file)
            #expect(isSame)
        }
    }

    /// The words of every `enum`, by where it stands without the words of the format itself: `Delivery state`.
    private static func enumerations(_ node: Node, at place: [String] = []) -> [String: Set<String>] {
        let silent: Set = [
            "components", "content", "items", "oneOf", "parameters", "paths", "properties", "schema", "schemas",
        ]
        var found: [String: Set<String>] = [:]
        for (key, value) in node.mapping ?? [:] {
            let name = key.string ?? ""
            if name == "enum", let words = value.sequence {
                found[place.joined(separator: " ")] = Set(words.compactMap(\.string))
            } else {
                found.merge(enumerations(value, at: silent.contains(name) ? place : place + [name])) { $0.union($1) }
            }
        }
        for one in node.sequence ?? [] {
            let name = one.mapping == nil ? nil : one["name"]?.string
            found.merge(enumerations(one, at: place + (name.map { [$0] } ?? []))) { $0.union($1) }
        }
        return found
    }

    private static func words<T: CaseIterable & RawRepresentable<String>>(_ type: T.Type) -> Set<String> {
        Set(type.allCases.map(\.rawValue))
    }

    /// The words that the server takes in a field of the payload, such as `android.visibility`.
    private static func words(in field: String) -> Set<String> {
        let shape = field.split(separator: ".").reduce(PayloadShape.object(PayloadField.shapes)) { shape, name in
            switch shape {
            case .object(let fields, _), .open(let fields): fields[String(name)] ?? .bool
            default: .bool
            }
        }
        return if case .word(let words) = shape { Set(words) } else { [] }
    }

    @Test("every enum of the document has the words of the program's own, and there is none that nobody compares")
    func enumerations() throws {
        let states = Self.words(DeliveryState.self)
        let (reasons, nothing) = (Self.words(DeliveryReason.self), Self.words(NothingOwed.self))
        var expected: [String: Set<String>] = [
            "/notifications get status": Self.words(NotificationFilter.Status.self),
            "/badge/stream get format": ["json", "turbo_stream"],
            "/operate/deliveries get state": states.union([DeliveryFilter.nothingOwed]),
            "IOSRegistration provider": [DeviceProvider(defaultFor: .ios).rawValue],
            "AndroidRegistration provider": [DeviceProvider(defaultFor: .android).rawValue],
            "AndroidInstallation provider": [DeviceProvider(defaultFor: .android).rawValue],
            "TokenKind": ["token"],
            "DeviceToken kind": Self.words(DeviceTokenKind.self),
            "OperatedDevice kind": Self.words(DeviceTokenKind.self),
            "Environment": Self.words(DeviceEnvironment.self),
            "Deliveries reason": nothing,
            "Delivery state": states,
            "Delivery reason": reasons,
            "PushAnswer outcome": Self.words(AnswerWord.self),
            "Overview dead_tokens latest provider": Self.words(DeviceProvider.self),
            "ProviderHealth provider": Self.words(DeviceProvider.self),
            "ProviderHealth condition": Self.words(LaneCondition.Kind.self).union(["running", "sandbox"]),
            "OperatedDelivery state": states.union([DeliveryFilter.nothingOwed]),
            "OperatedDelivery reason": reasons.union(nothing),
            "SandboxPushList pushes provider": Self.words(DeviceProvider.self),
            "SandboxPushList pushes platform": Self.words(DevicePlatform.self),
            "InterruptionLevel": Self.words(in: "interruption_level"),
            "APSOverlay interruption-level": Self.words(in: "apns.aps.interruption-level"),
            "Priority": Self.words(in: "priority"),
            "FCMOverlay priority": Self.words(in: "fcm.priority"),
            "AndroidLook visibility": Self.words(in: "android.visibility"),
            "AndroidLook display": Self.words(in: "android.display"),
            "DryRun pushes provider": Self.words(DeviceProvider.self),
            "DryRun pushes platform": Self.words(DevicePlatform.self),
            "DryRun withheld platform": Self.words(DevicePlatform.self),
            "DryRun withheld reason": [
                NothingOwed.pushFalse.rawValue, NothingOwed.expired.rawValue, DeliveryReason.appVersion.rawValue,
            ],
            "/badge get by": ["tenant"],
            "Readiness status": ["ready", "unready"],
            "DeepLinkParameter type": Self.words(DeepLinkTree.QueryParameter.Kind.self),
            "MinimumAppVersion otherwise": Self.words(DeepLinkTree.MinimumVersion.Otherwise.self),
            "Client platform": Self.words(DevicePlatform.self),
            "Problem errors code": Self.words(FieldError.Code.self),
        ]
        for device in ["DeviceToken", "Delivery", "OperatedDelivery", "OperatedDevice"] {
            expected["\(device) platform"] = Self.words(DevicePlatform.self)
            expected["\(device) provider"] = Self.words(DeviceProvider.self)
            expected["\(device) environment"] = Self.words(DeviceEnvironment.self)
        }
        for field in ["notification_priority", "visibility", "proxy"] {
            expected["FCMNotificationOverlay \(field)"] = Self.words(in: "fcm.notification.\(field)")
        }
        let described = try Self.enumerations(document())
        for place in Set(expected.keys).union(described.keys).sorted() {
            #expect(described[place] == expected[place], "\(place)")
        }
    }

    @Test("a problem's codes stand with the statuses that they come with, and no other code is described")
    func catalogue() throws {
        let document = try document()
        let responses = try #require(document["components"]?["responses"])
        var described: Set<String> = []
        for (_, item) in try #require(document["paths"]?.mapping) {
            for (method, operation) in try #require(item.mapping) where Self.methods.contains(method.string ?? "") {
                for (status, response) in try #require(operation["responses"]?.mapping) {
                    let name = response["$ref"]?.string?.split(separator: "/").last.map(String.init)
                    let codes = name.flatMap { responses[$0]?["x-problem-codes"]?.sequence } ?? []
                    for code in codes { described.insert("\(status.string ?? "") \(code.string ?? "")") }
                }
            }
        }
        #expect(described == Set(ClientError.Code.allCases.map { "\($0.status) \($0.rawValue)" }))
    }

    /// Written out twice, as some generators make no class of an `allOf`.
    @Test("a created notification is described as a notification is, with a badge beside")
    func created() throws {
        let schemas = try #require(try document()["components"]?["schemas"])
        let created = try #require(schemas["CreatedNotification"])
        let notification = try #require(schemas["Notification"])
        #expect(created["required"] == notification["required"])
        var properties = try #require(created["properties"]?.mapping)
        #expect(properties["badge"] != nil)
        properties["badge"] = nil
        #expect(Node.mapping(properties) == notification["properties"])
    }
}
