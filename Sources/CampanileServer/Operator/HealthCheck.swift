import CampanileCore

/// `campanile health`: one call to a server on this machine, as a supervisor makes it. The whole exchange has a deadline, so
/// that a server that hangs is told from one that is slow.
package struct HealthCheck {
    /// A proof of readiness may wait 2 s for a lock (`/readyz`).
    package static let seconds = 5
    private static let answerBytes = 64 * 1_024

    private let call: LocalCall
    private let path: String
    /// The credential that is shown for the reasons.
    private let token: Secret?

    private var address: String { call.address + path }

    /// - Parameter isReadiness: asks whether it can do its work, not only whether it answers.
    package init(_ configuration: Configuration, isReadiness: Bool, seconds: Int = HealthCheck.seconds) throws {
        guard configuration.port != 0 else {
            throw OperatorError("With port 0 the system chose the server's port: name it with --port.")
        }
        path = isReadiness ? "/readyz" : "/healthz"
        token = isReadiness ? configuration.metrics.token : nil
        call = LocalCall(host: configuration.host, port: configuration.port, path: path, seconds: seconds)
    }

    /// - Returns: a sentence for people, if all is well.
    package func run() throws -> String {
        var fields = "Host: localhost\r\nUser-Agent: campanile-health\r\nConnection: close\r\n"
        if let token { fields += "Authorization: Bearer \(token.exposed)\r\n" }
        let answer = try call.answer(to: "GET \(path) HTTP/1.1\r\n\(fields)\r\n", mostBytes: HealthCheck.answerBytes)
        let words = answer.prefix { $0 != UInt8(ascii: "\r") }.split(separator: UInt8(ascii: " "))
        guard words.count >= 2, words[0].starts(with: "HTTP/1.".utf8), let status = Int(String(decoding: words[1], as: UTF8.self))
        else { throw OperatorError("\(address) didn't answer as an HTTP server does.") }
        guard status == 200 else {
            throw OperatorError("\(address) answered \(status).\(reasons(in: answer))")
        }
        return "\(address) answered 200."
    }

    /// The reasons of `/readyz`, or where to find them.
    private func reasons(in answer: [UInt8]) -> String {
        let text = String(decoding: answer, as: UTF8.self)
        guard let body = text.firstRange(of: "\r\n\r\n"),
            let state = try? JSONValue(parsing: Array(text[body.upperBound...].utf8))
        else { return "" }
        if case .array(let reasons)? = state["reasons"] {
            let sentences = reasons.compactMap { reason in
                if case .string(let sentence) = reason { sentence } else { nil }
            }
            return sentences.map { " " + $0 }.joined()
        }
        guard case .integer(let count)? = state["reason_count"] else { return "" }
        let number = count == 1 ? "1 reason" : "\(count) reasons"
        return token == nil
            ? " It has \(number): see its log, or set metrics.token to see \(count == 1 ? "it" : "them") here."
            : " It has \(number): see its log. It doesn't know this configuration's metrics.token."
    }
}
