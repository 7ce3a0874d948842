import CampanileCore
import CampanileServer
import SystemSupport

/// Calls of apps, pages and a producer to the script's server.
struct ScriptCalls: Sendable {
    struct Answer: Sendable {
        let status: Int
        let json: JSONValue
    }

    private static let mostBytes = 1_048_576
    /// A busy machine may take long for a call.
    private static let seconds = 120

    let port: UInt16
    let configuration: Configuration
    let world: World
    let producerKey: String

    private func userToken(_ user: String) throws -> String {
        try configuration.signToken(user: user, app: AppName.standard, lifetime: 3_600, world: world)
    }

    /// - Parameters:
    ///   - user: nil for the producer.
    ///   - device: the token by which a phone names itself.
    ///   - isNative: whether the app is a native one.
    /// - Throws: `Mistake` for an answer that is no success, but for one that says that there is no such thing.
    @discardableResult
    func send(
        _ method: String, _ path: String, _ body: JSONValue? = nil, user: String? = nil, device: String? = nil,
        isNative: Bool = false
    ) async throws -> Answer {
        let credential = try user.map { try userToken($0) } ?? producerKey
        let text = body.map { String(decoding: $0.text, as: UTF8.self) } ?? ""
        var fields = [
            "\(method) \(path) HTTP/1.1", "Host: localhost", "Connection: close", "Authorization: Bearer \(credential)",
            "Content-Length: \(text.utf8.count)",
        ]
        if body != nil { fields.append("Content-Type: application/json") }
        if let device { fields.append("X-Device-Token: \(device)") }
        if isNative { fields.append("User-Agent: Script/1 Hotwire Native") }
        let request = fields.joined(separator: "\r\n") + "\r\n\r\n" + text
        let bytes = try await SystemThread.run(name: "script-call") {
            try LocalCall(host: "127.0.0.1", port: Int(port), path: path, seconds: Self.seconds)
                .answer(to: request, mostBytes: Self.mostBytes)
        }
        let answer = try Self.answer(bytes)
        guard (200..<300).contains(answer.status) || answer.status == 404 else {
            throw Mistake("\(method) \(path) was answered \(answer.status): \(String(decoding: answer.json.text, as: UTF8.self))")
        }
        return answer
    }

    private static func answer(_ bytes: [UInt8]) throws -> Answer {
        let text = String(decoding: bytes, as: UTF8.self)
        let words = text.prefix { $0 != "\r\n" }.split(separator: " ")
        guard words.count >= 2, let status = Int(words[1]), let end = text.firstRange(of: "\r\n\r\n") else {
            throw Mistake("The server's answer can't be read.")
        }
        let body = Array(text[end.upperBound...].utf8)
        return Answer(status: status, json: body.isEmpty ? .null : try JSONValue(parsing: body))
    }
}
