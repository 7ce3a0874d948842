import Foundation
import HTTPEngine
import Testing
import Yams

@testable import CampanileServer

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
                    case .observer: "anyone or operateKey"
                    case .watcher, .operator: "operateKey"
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
}
