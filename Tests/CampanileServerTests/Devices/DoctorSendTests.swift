import CampanileCore
import Foundation
import Push
import PushSimulator
import SQLEngine
import Testing

@testable import CampanileServer

/// `campanile doctor --send` and `--user` against the simulator of Apple and Google.
@Suite("doctor --send", .endsIfItHangs) struct DoctorSendTests {
    private static let fid = "fYt3_qE-ZkWmTa9bXc0LrQ"

    /// A database with devices of Alice's, and the simulator.
    private struct Scene {
        let fixture: Fixture
        let providers: SimulatedProviders
        var configuration = Configuration()

        init(_ change: (inout Configuration) -> Void = { _ in }) async throws {
            providers = try await SimulatedProviders.start()
            fixture = try Fixture(clock: providers.clock)
            try providers.configure(&configuration)
            configuration.database = fixture.folder.database
            change(&configuration)
        }

        func lines(
            _ name: Doctor.Addressee.Name, app: String = "default", environment: DeviceEnvironment? = nil,
            kind: DeviceTokenKind? = nil, look: (Int64) async throws -> Void = { _ in }
        ) async throws -> [String] {
            let doctor = Doctor(configuration, world: fixture.world, logger: Fixture.silent)
            let addressee = Doctor.Addressee(name, app: app, platform: nil, environment: environment, kind: kind)
            var lines: [String] = []
            var looked: (any Error)?
            try await doctor.send(to: addressee) {
                lines.append("\($0.isGood ? "good" : "WRONG") \($0.subject): \($0.sentence)")
            } look: { number in
                do { try await look(number) } catch { looked = error }
            }
            if let looked { throw looked }
            return lines
        }
    }

    private func withScene(
        _ change: (inout Configuration) -> Void = { _ in }, _ body: (Scene) async throws -> Void
    ) async throws {
        let scene = try await Scene(change)
        do { try await body(scene) } catch {
            await scene.providers.simulator.shutDown()
            throw error
        }
        await scene.providers.simulator.shutDown()
    }

    @Test("the icon shows one more, and then the user's number again; the server knows that it doesn't know", .aboutTheFile)
    func accepted() async throws {
        try await withScene { scene in
            let (fixture, simulator) = (scene.fixture, scene.providers.simulator)
            try await fixture.tell(2, to: "a")
            let lines = try await scene.lines(.user("alice")) { number in
                #expect(number == 3)
                let phone = try #require(simulator.device(Fixture.token("a")))
                #expect(phone.badge == 3 && phone.notifications.map(\.title) == ["Campanile"])
            }
            #expect(simulator.device(Fixture.token("a"))?.badge == 2)
            #expect(lines.allSatisfy { $0.hasPrefix("good ") }, "\(lines)")
            let told = lines.joined(separator: "\n")
            #expect(told.contains("Topic \(scene.configuration.apps["default"]?.apns?.topic ?? "-"), environment production."))
            #expect(told.contains("good alert: 200. Apple accepted it.") && told.contains("good badge: 200. Apple accepted it."))
            #expect(
                told.contains("good icon: It should show 3 now.") && told.contains("It should show 2 again, its user's number."))
            #expect(!told.contains(Fixture.token("a")), "no line has the whole token")
            #expect(try fixture.number("SELECT count(told_count) FROM device_tokens") == 0)
            // Whatever came in between, the server tells the number anew.
            #expect(try await fixture.sent().isEmpty)
            fixture.clock.advance(milliseconds: Limits.testPushMilliseconds)
            #expect(try await fixture.sent() == ["badge a 2"])
        }
    }

    @Test("what comes and is read while somebody looks at the phone counts in the number that it goes back to", .aboutTheFile)
    func changedMeanwhile() async throws {
        try await withScene { scene in
            try await scene.fixture.tell(2, to: "a")
            let lines = try await scene.lines(.user("alice")) { _ in try await scene.fixture.create(push: false) }
            #expect(scene.providers.simulator.device(Fixture.token("a"))?.badge == 3)
            #expect(lines.last == "good icon: It should show 3 again, its user's number.")
        }
    }

    @Test("while the settings keep a 0 back, the icon goes back to the number that stood there", .aboutTheFile)
    func keptBack() async throws {
        try await withScene({ $0.badge.neverZeroWhileOthersRemain = true }) { scene in
            let lines = try await scene.lines(.token(Fixture.token("a")))
            #expect(lines.last == "good icon: It should show no number now, since nobody here knows its user's number.")
            try await scene.fixture.register("a")
            try await scene.fixture.create(push: false)
            try await scene.fixture.open()
            #expect(try scene.fixture.badge().count == 0 && scene.fixture.badge().unreadCount == 1)
            let kept = try await scene.lines(.user("alice"))
            #expect(
                kept.last
                    == "good icon: It should show 1 again, because badge.never_zero_while_others_remain keeps a 0 back while something "
                    + "is unread.")
            #expect(scene.providers.simulator.device(Fixture.token("a"))?.badge == 1)
        }
    }

    @Test("words that contradict what is registered are refused; an ID is known by its form", .aboutTheFile)
    func contradictions() async throws {
        try await withScene { scene in
            try await scene.fixture.register("a")
            await #expect(throws: OperatorError.self) { try await scene.lines(.token(Fixture.token("a")), kind: .fid) }
            #expect(try await scene.lines(.token(Self.fid)).contains("good address: The message goes to an installation ID."))
        }
    }

    @Test("a device that isn't registered, or a database that isn't there, is taken as the command line says")
    func unknown() async throws {
        try await withScene({ $0.database += ".none" }) { scene in
            let lines = try await scene.lines(.token(Fixture.token("b").uppercased()), environment: .sandbox)
            #expect(lines.first?.hasSuffix("a token of ios at APNs (sandbox). It isn't registered in the app default.") == true)
            #expect(lines.last == "good icon: It should show no number now, since nobody here knows its user's number.")
            #expect(scene.providers.simulator.device(Fixture.token("b"))?.received == 2)
        }
    }

    @Test(
        "an installation ID is sent to as one; Android gets no badge push unless badge.android_data is on",
        arguments: [false, true])
    func android(_ hasBadgePushes: Bool) async throws {
        try await withScene({ $0.badge.androidData = hasBadgePushes }) { scene in
            let lines = try await scene.lines(.token(Self.fid), kind: .fid)
            #expect(lines.allSatisfy { $0.hasPrefix("good ") }, "\(lines)")
            #expect(lines.contains("good address: The message goes to an installation ID."))
            let phone = try #require(scene.providers.simulator.device(Self.fid))
            #expect(phone.installationID == .registered && phone.received == (hasBadgePushes ? 2 : 1))
            #expect(lines.contains { $0.contains("badge.android_data is off") } == !hasBadgePushes)
        }
    }

    @Test("of a user's devices the latest registered is taken; without one the command ends with a sentence", .aboutTheFile)
    func latest() async throws {
        try await withScene { scene in
            for device: Character in ["a", "b", "c"] {
                try await scene.fixture.register(device)
                scene.fixture.clock.advance(seconds: 1)
            }
            try await scene.fixture.register("b")
            #expect(try await scene.lines(.user("alice")).first?.contains("…bbbbbb") == true)
            for (name, app) in [("bob", "default"), ("alice", "other")] {
                await #expect(throws: OperatorError.self) { try await scene.lines(.user(name), app: app) }
            }
        }
    }

    private struct Trouble: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let faults: String
        let line: String
    }

    private static let troubles = [
        Trouble(
            testDescription: "wrong topic", faults: #"{"action":{"type":"status","reason":"DeviceTokenNotForTopic"}}"#,
            line: "WRONG alert: 400 DeviceTokenNotForTopic. The token belongs to another app than com."),
        Trouble(
            testDescription: "dead token", faults: #"{"action":{"type":"status","reason":"Unregistered","timestamp_ms":5}}"#,
            line: "WRONG alert: 410 Unregistered. The token is dead since 1970-01-01T00:00:00.005Z: the app was removed"),
        Trouble(
            testDescription: "wrong environment", faults: #"{"action":{"type":"status","reason":"BadDeviceToken"}}"#,
            line: "WRONG alert: 400 BadDeviceToken. Apple doesn't know the token in the environment production"),
        Trouble(
            testDescription: "key of the other environment",
            faults: #"{"action":{"type":"status","reason":"BadEnvironmentKeyIdInToken"}}"#,
            line: "doesn't serve APNs' production environment. No push of this app to such devices goes out"),
        Trouble(
            testDescription: "wrong team", faults: #"{"action":{"type":"status","reason":"InvalidProviderToken"}}"#,
            line: "WRONG alert: 403 APNs answered InvalidProviderToken: key "),
        Trouble(
            testDescription: "provider down", faults: #"{"action":{"type":"outage"}}"#,
            line: "WRONG alert: 503 ServiceUnavailable. Apple's service has trouble. Nothing is wrong here"),
        Trouble(
            testDescription: "too many pushes", faults: #"{"action":{"type":"status","reason":"TooManyRequests"}}"#,
            line: "WRONG alert: 429 TooManyRequests. Too many pushes went to this device"),
    ]

    @Test("each trouble has its sentence, and nothing more is sent", arguments: troubles)
    private func trouble(_ trouble: Trouble) async throws {
        try await withScene { scene in
            try scene.providers.simulator.setFaults(json: "[\(trouble.faults)]")
            let lines = try await scene.lines(.token(Fixture.token("a")))
            let wrong = lines.filter { $0.hasPrefix("WRONG") }
            #expect(wrong.first?.contains(trouble.line) == true, "\(lines)")
            // After a 5xx the alert may be there, so the number is taken back.
            #expect(wrong.count == (trouble.testDescription == "provider down" ? 2 : 1))
            #expect((scene.providers.simulator.device(Fixture.token("a"))?.received ?? 0) == 0)
        }
    }

    @Test("a provider that can't be reached is said twice: by the check of its host and by the push")
    func unreachable() async throws {
        // Nobody listens there.
        try await withScene({ $0.apps["default"]?.apns?.url = URL(string: "https://127.0.0.1:1") }) { scene in
            let lines = try await scene.lines(.token(Fixture.token("a")))
            #expect(lines.last?.contains("It wasn't sent. See that this machine reaches Apple's servers") == true, "\(lines)")
        }
    }

    @Test("without credentials nothing is sent, because only the sandbox would take it")
    func sandboxed() async throws {
        try await withScene({ $0.apps = [:] }) { scene in
            let lines = try await scene.lines(.token(Fixture.token("a")))
            #expect(lines.last?.hasPrefix("WRONG credentials: The app default has none for APNs") == true, "\(lines)")
        }
    }

    @Test("the report says what the server knows, and names neither user nor token nor a notification's words", .aboutTheFile)
    func report() async throws {
        try await withScene { scene in
            try await scene.fixture.register("a", appVersion: "2.1")
            try await scene.fixture.create()
            _ = try await scene.fixture.sent()
            let doctor = Doctor(scene.configuration, world: scene.fixture.world, logger: Fixture.silent)
            func report(_ name: Doctor.Addressee.Name) throws -> [String] {
                try doctor.report(on: .init(name, app: "default", platform: nil, environment: nil, kind: nil))
            }
            let lines = try report(.user("alice"))
            #expect(lines == (try report(.token(Fixture.token("a")))))
            let text = lines.joined(separator: "\n")
            for row in [
                "| device | …aaaaaa |", "| kind | token |", #"| app version | "2.1" |"#, "| number it was told | 1 at ",
                "| badge | 1, of 1",
            ] {
                #expect(text.contains(row), "\(row)")
            }
            #expect(text.contains("| push 1, newest first | …aaaaaa, apns: accepted, 1 attempt"))
            for secret in ["alice", Fixture.token("a"), "Title", "Body"] { #expect(!text.contains(secret), "\(secret)") }
            #expect(try report(.token(Fixture.token("b"))).last == "| device | not registered: the server knows nothing of it |")
        }
    }
}
