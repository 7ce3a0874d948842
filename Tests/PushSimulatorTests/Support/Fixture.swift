import Crypto
import CryptoExtras
import Foundation
import PushSimulator
@_exported public import TestSupport

/// A simulator that runs, and what is needed to push to it.
struct Fixture {
    let simulator: PushSimulator
    let clock: HandClock

    /// Made once: an RSA key takes long.
    static let credentials = Result { try SimulatorCredentials.make(keyID: "KEY1234567", teamID: "TEAM123456") }

    static func start(
        clock: HandClock = HandClock(), _ change: (inout SimulatorOptions) -> Void = { _ in }
    ) async throws -> Fixture {
        var options = SimulatorOptions(world: .hand(clock))
        options.credentials = [try credentials.get()]
        // What others' senders may do beside is OthersSendersTests' business.
        options.isStrict = true
        change(&options)
        return Fixture(simulator: try await PushSimulator.start(options), clock: clock)
    }

    func connect(
        environment: SimulatedEnvironment = .production, protocols: [String] = ["h2"], preface: String? = nil
    ) async throws -> Sender {
        let port = environment == .sandbox ? simulator.sandboxPort ?? simulator.port : simulator.port
        return try await Sender.connect(port: port, caPEM: simulator.caPEM, protocols: protocols, preface: preface)
    }

    /// A provider token.
    func bearer(
        issuedAt: Int64? = nil, credentials: SimulatorCredentials? = nil, keyID: String? = nil, teamID: String? = nil,
        alg: String = "ES256", isDER: Bool = false
    ) throws -> String {
        let credentials = credentials ?? simulator.credentials
        let header = #"{"alg":"\#(alg)","kid":"\#(keyID ?? credentials.keyID)","typ":"JWT"}"#
        let claims = #"{"iss":"\#(teamID ?? credentials.teamID)","iat":\#(issuedAt ?? clock.seconds)}"#
        let signed = base64URL(Array(header.utf8)) + "." + base64URL(Array(claims.utf8))
        let key = try P256.Signing.PrivateKey(pemRepresentation: credentials.p8PEM)
        let signature = try key.signature(for: Data(signed.utf8))
        let bytes = isDER ? signature.derRepresentation : signature.rawRepresentation
        return "bearer " + signed + "." + base64URL(Array(bytes))
    }

    /// A request to APNs with everything right, for changing.
    func push(
        token: String = Fixture.token, payload: String = #"{"aps":{"alert":{"title":"t","body":"b"},"badge":3}}"#,
        _ changes: [String: String?] = [:]
    ) throws -> Push {
        var fields: [(String, String)] = [
            (":method", "POST"), (":scheme", "https"), (":authority", "api.push.apple.com"),
            (":path", "/3/device/\(token)"),
            ("authorization", try bearer()), ("apns-topic", simulator.credentials.topic), ("apns-push-type", "alert"),
        ]
        if simulator.sandboxPort != nil { fields[2].1 = "127.0.0.1" }
        for (name, value) in changes {
            fields.removeAll { $0.0 == name }
            if let value {
                // Pseudo-header fields come first.
                if name.hasPrefix(":") { fields.insert((name, value), at: 0) } else { fields.append((name, value)) }
            }
        }
        return Push(fields: fields, body: Array(payload.utf8))
    }

    static let token = String(repeating: "ab", count: 32)
}

struct Push {
    var fields: [(String, String)]
    var body: [UInt8]
}

extension Sender {
    func send(_ push: Push) -> Int { send(push.fields, body: push.body) }
    func answer(_ push: Push) async throws -> Answer { try await answer(send(push)) }
}

extension Sender.Answer {
    /// Status and reason, such as `400 BadTopic`.
    var verdict: String {
        guard let status else { return "none" }
        guard let start = text.range(of: #""reason":""#), let end = text[start.upperBound...].firstIndex(of: "\"")
        else {
            return "\(status)"
        }
        return "\(status) \(text[start.upperBound..<end])"
    }
}

func base64URL(_ bytes: [UInt8]) -> String {
    Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
        .replacingOccurrences(of: "=", with: "")
}

/// Runs a test against a simulator, and stops it whatever happens.
func withSimulator(
    clock: HandClock = HandClock(), _ change: (inout SimulatorOptions) -> Void = { _ in },
    _ body: (Fixture) async throws -> Void
) async throws {
    let fixture = try await Fixture.start(clock: clock, change)
    do {
        try await body(fixture)
    } catch {
        await fixture.simulator.shutDown()
        throw error
    }
    await fixture.simulator.shutDown()
}
