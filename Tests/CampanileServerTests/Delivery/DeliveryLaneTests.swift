import CampanileCore
import Logging
import Push
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

/// A provider that answers before `send` returns: what the delivery worker does next depends on no thread.
final class ImmediateProvider: PushProvider {
    private struct State: Sendable {
        var messages: [PushMessage] = []
        var answer: @Sendable (PushMessage) -> PushAnswer = { _ in .accepted }
    }

    private let state = Mutex(State())

    var messages: [PushMessage] { state.withLock { $0.messages } }
    func forget() { state.withLock { $0.messages = [] } }
    func answer(_ answer: @escaping @Sendable (PushMessage) -> PushAnswer) { state.withLock { $0.answer = answer } }

    func send(_ message: PushMessage, answer: @escaping @Sendable (PushAnswer) -> Void) {
        let decide = state.withLock { state in
            state.messages.append(message)
            return state.answer
        }
        answer(decide(message))
    }
}

/// The log, a line each: level and message, without what belongs to it.
final class KeptLog: Sendable {
    private let kept = Mutex<[String]>([])
    private let reaction = Mutex<@Sendable (String) -> Void>({ _ in })

    func keep(_ line: String) {
        kept.withLock { $0.append(line) }
        reaction.withLock { $0 }(line)
    }
    func onLine(_ reaction: @escaping @Sendable (String) -> Void) { self.reaction.withLock { $0 = reaction } }
    func count(_ start: String) -> Int { lines.filter { $0.hasPrefix(start) }.count }
    var lines: [String] { kept.withLock { $0 } }
    var logger: Logger { Logger(label: "test", factory: { _ in KeptLogHandler(log: self) }) }
}

private struct KeptLogHandler: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .trace
    let log: KeptLog

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let pairs = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }
        log.keep("\(event.level) \(event.message)" + pairs.joined())
    }
}

/// The fixture's inboxes and devices under a delivery worker whose provider answers at once.
struct ImmediateCourier: Sendable {
    let fixture: Fixture
    let provider: ImmediateProvider
    let log: KeptLog
    let deliveryWorker: DeliveryWorker

    init(options: DeliveryOptions = DeliveryOptions()) throws {
        let fixture = try Fixture()
        let provider = ImmediateProvider()
        let log = KeptLog()
        self.fixture = fixture
        self.provider = provider
        self.log = log
        deliveryWorker = DeliveryWorker(
            database: fixture.store, world: fixture.world, badgePushes: fixture.badgePushes, options: options,
            leases: AloneLease(Fixture.lease), providers: { _ in provider }, ids: fixture.ids,
            logger: log.logger)
    }

    /// Lets the delivery worker send what is due, and tells in words what it sent.
    func sent() async throws -> [String] {
        provider.forget()
        try await deliveryWorker.sendDue()
        return provider.messages.map(\.summary).sorted()
    }

    /// Returns what the delivery worker says of the lanes that don't run, which is also what it wrote down for other processes.
    func conditions() throws -> [LanePart: LaneCondition] {
        let told = Dictionary(uniqueKeysWithValues: deliveryWorker.pushes.conditions.map { ($0.part, $0.condition) })
        let rows = try fixture.store.readBlocking { try $0.laneConditions.all() }
        let written = Dictionary(uniqueKeysWithValues: rows.map { ($0.part, $0.condition) })
        #expect(written == told)
        return told
    }
}

extension Fixture {
    /// Users of an app with so many iPhones each, in one transaction.
    func makeUsers(_ count: Int, devicesEach: Int, app: String) async throws -> [User] {
        let now = clock.now
        let users = (0..<count).map { User(app: app, userID: "user-\($0)") }
        try await store.write { transaction in
            for (number, user) in users.enumerated() {
                let inbox = try transaction.inboxes.making(app: app, userID: user.userID).id
                for device in 0..<devicesEach {
                    let digits = String(number * devicesEach + device, radix: 16)
                    let token = DeviceToken(
                        token: String(repeating: "0", count: 64 - digits.count) + digits, platform: .ios,
                        provider: .apns, environment: .production, appVersion: nil, locale: nil, lastRegisteredAt: now)
                    _ = try transaction.deviceTokens.insert(token, app: app, inbox: inbox)
                }
            }
        }
        return users
    }

    /// Attempts that count, of all deliveries of these notifications.
    func attempts(of notifications: [UUIDv7]) throws -> Int {
        var sum = 0
        for id in notifications {
            let deliveries = try store.readBlocking { try $0.deliveries.list(notification: id) }
            for delivery in deliveries { sum += Int(delivery.attempts) }
        }
        return sum
    }
}

/// The delivery worker where an app, a provider or a device fails: what it does to that one, and not to the others.
@Suite struct DeliveryLaneTests {
    private static let unavailable = PushAnswer(
        outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: "ServiceUnavailable")

    // MARK: Outages

    @Test("an app's outage burns few attempts of its many pushes and holds up no other app; afterwards all arrive")
    func outage() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let users = try await fixture.makeUsers(10, devicesEach: 40, app: "b")
        try await fixture.register("a")
        bench.provider.answer { $0.app == "b" ? Self.unavailable : .accepted }
        var ids: [UUIDv7] = []
        for user in users { ids.append(try await fixture.create(user)) }
        let own = try await fixture.create()
        _ = try await bench.sent()
        #expect(try fixture.states(of: own) == [.accepted])
        let burnt = try fixture.attempts(of: ids)
        #expect(burnt >= Limits.outageFailures)
        #expect(burnt <= Limits.claimedDevices, "what was in flight when the lane closed, and not all 400")
        let part = LanePart(Lane(app: "b", provider: .apns), .ios, .production)
        let condition = try #require(try bench.conditions()[part])
        #expect(condition.kind == .outage)
        #expect(condition.reason == "ServiceUnavailable")

        for round in 1...5 {
            fixture.clock.advance(seconds: 70)
            try await fixture.create()
            let sent = try await bench.sent()
            #expect(sent.contains("alert a \(round + 1)"))
            #expect(bench.provider.messages.filter { $0.app == "b" }.count == 1, "one probe, whatever is owed")
        }
        #expect(try fixture.attempts(of: ids) <= burnt + 5)

        bench.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 3_600)
        _ = try await bench.sent()
        for id in ids {
            let states = try fixture.states(of: id)
            #expect(states == Array(repeating: DeliveryState.accepted, count: 40))
        }
        #expect(try bench.conditions().isEmpty)
        #expect(bench.log.count("error APNs doesn't take the pushes of the app b") == 1)
        #expect(bench.log.count("notice Pushes go again.") == 1)
    }

    @Test("an outage of one provider leaves the app's other one alone")
    func otherProvider() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        bench.provider.answer { $0.device.provider == .apns ? Self.unavailable : .accepted }
        let users = try await fixture.makeUsers(1, devicesEach: 2 * Limits.outageFailures, app: "default")
        try await fixture.create(users[0])
        try await fixture.register("d", platform: .android)
        try await fixture.create()
        let sent = try await bench.sent()
        #expect(sent.contains("alert d 1"))
        #expect(try Set(bench.conditions().keys) == [LanePart(Lane(app: "default", provider: .apns), .ios, .production)])
        try await fixture.create()
        #expect(try await bench.sent() == ["alert d 2"])
    }

    // MARK: Wrong configurations

    @Test("a parked app's deliveries keep their attempts, other processes are told, and all goes once it is mended")
    func parked() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let bob = User(app: "b", userID: "bob")
        for letter in "bcd" { try await fixture.register(letter, bob) }
        try await fixture.register("a")
        bench.provider.answer {
            $0.app == "b" ? PushAnswer(outcome: .misconfigured, status: 403, reason: "InvalidProviderToken") : .accepted
        }
        let since = fixture.clock.now
        let id = try await fixture.create(bob)
        #expect(try await bench.sent().count == 3)
        let part = LanePart(Lane(app: "b", provider: .apns), .ios, .production)
        let parked = LaneCondition(kind: .parked, reason: "InvalidProviderToken", since: since)
        for _ in 0..<6 {
            #expect(try bench.conditions() == [part: parked])
            fixture.clock.advance(seconds: 600)
            #expect(try await bench.sent().count <= 1, "one probe now and then")
        }
        #expect(try fixture.attempts(of: [id]) == 0)
        #expect(try fixture.states(of: id) == [.owed, .owed, .owed])
        try await fixture.create()
        #expect(try await bench.sent() == ["alert a 1"], "the other app goes on")

        bench.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 11)
        #expect(try await bench.sent().isEmpty, "nobody said that it was mended")
        bench.deliveryWorker.tryAgain()
        #expect(try await bench.sent() == ["alert b 1", "alert c 1", "alert d 1"])
        #expect(try fixture.states(of: id) == [.accepted, .accepted, .accepted])
        #expect(try bench.conditions().isEmpty)
        #expect(bench.log.count("error APNs refuses the pushes of the app b") == 1)
    }

    // MARK: Dead tokens

    @Test("a mass of dead tokens deletes none of them and raises the alarm once")
    func massOfDeadTokens() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let user = try await fixture.makeUsers(1, devicesEach: 30, app: "default")[0]
        bench.provider.answer { _ in .saying(.tokenGone(since: nil), "BadDeviceToken") }
        let id = try await fixture.create(user)
        #expect(try await bench.sent().count == 30)
        #expect(try fixture.registry.list(user).count == 30)
        #expect(try fixture.states(of: id) == Array(repeating: DeliveryState.rejected, count: 30))
        fixture.clock.advance(seconds: 30)
        try await fixture.create(user)
        _ = try await bench.sent()
        #expect(try fixture.registry.list(user).count == 30)
        #expect(bench.log.count("error Too many device tokens die at once") == 1)

        bench.provider.answer { _ in .accepted }
        try await fixture.create(user)
        #expect(try await bench.sent().filter { $0.hasPrefix("alert") }.count == 30)
    }

    @Test("a dead token of an app that has many others goes")
    func fewDeadTokens() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let user = try await fixture.makeUsers(1, devicesEach: 30, app: "default")[0]
        let dead = try fixture.registry.list(user)[0].token
        bench.provider.answer {
            $0.device.token == dead
                ? PushAnswer(outcome: .tokenGone(since: nil), status: 400, reason: "BadDeviceToken") : .accepted
        }
        try await fixture.create(user)
        _ = try await bench.sent()
        let left = try fixture.registry.list(user).map(\.token)
        #expect(left.count == 29)
        #expect(!left.contains(dead))
        #expect(bench.log.count("error") == 0)
    }

    @Test("a single token of another app or project goes, and with it what was owed to it")
    func foreignToken() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.register("d", platform: .android)
        fixture.provider.answer {
            $0.device.platform == .android
                ? PushAnswer(outcome: .tokenForeign, status: 403, reason: "SENDER_ID_MISMATCH") : .accepted
        }
        let id = try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1", "alert d 1"])
        #expect(try fixture.registry.list(fixture.alice).map(\.token) == [Fixture.token("a")])
        #expect(try fixture.states(of: id) == [.accepted, .gone])
        #expect(fixture.deliveryWorker.pushes.conditions.isEmpty)
    }

    @Test("where most tokens are another app's the lane is parked: for hours none is deleted and no attempt counts")
    func foreignTokens() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let user = try await fixture.makeUsers(1, devicesEach: 30, app: "default")[0]
        bench.provider.answer { _ in PushAnswer(outcome: .tokenForeign, status: 400, reason: "DeviceTokenNotForTopic") }
        let id = try await fixture.create(user)
        #expect(try await bench.sent().count == 30)
        let lane = Lane(app: "default", provider: .apns)
        #expect(bench.deliveryWorker.pushes.conditions.map { $0.condition.kind } == [.parked])
        for _ in 0..<6 {
            fixture.clock.advance(seconds: 1_200)
            #expect(try await bench.sent().count <= 1, "one probe now and then")
        }
        #expect(try fixture.registry.list(user).count == 30)
        #expect(try fixture.attempts(of: [id]) == 0)
        #expect(bench.deliveryWorker.pushes.conditions.map { $0.part.lane } == [lane])
        let written = try fixture.store.readBlocking { try $0.laneConditions.all() }
        #expect(written.map { $0.part.lane } == [lane])

        bench.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 20)
        bench.deliveryWorker.tryAgain()
        #expect(try await bench.sent().count == 30)
        #expect(try fixture.states(of: id) == Array(repeating: DeliveryState.accepted, count: 30))
    }

    @Test("a token that the other environment takes is remembered as that one's")
    func otherEnvironment() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        fixture.provider.answer {
            $0.device.environment == .production
                ? PushAnswer(outcome: .acceptedElsewhere(.sandbox), status: 200, reason: nil) : .accepted
        }
        let id = try await fixture.create()
        _ = try await fixture.sent()
        #expect(try fixture.states(of: id) == [.accepted])
        #expect(try fixture.registry.list(fixture.alice).map(\.environment) == [.sandbox])
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 2"])
        #expect(fixture.provider.messages.map(\.device.environment) == [.sandbox])
    }

    // MARK: No answer

    @Test("what got no answer goes again soon, with the same id")
    func unansweredResent() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        try await fixture.register("a")
        bench.provider.answer { _ in .saying(.unanswered, "no answer within 30 s") }
        let id = try await fixture.create()
        #expect(try await bench.sent() == ["alert a 1"])
        let first = bench.provider.messages.map(\.id)
        #expect(try fixture.states(of: id) == [.owed])
        bench.provider.answer { _ in .accepted }
        fixture.clock.advance(milliseconds: 2 * Limits.unansweredMilliseconds)
        #expect(try await bench.sent() == ["alert a 1"])
        #expect(bench.provider.messages.map(\.id) == first)
        #expect(try fixture.states(of: id) == [.accepted])
    }

    @Test("what got no answer is given up if it is set so, and what the device shows counts as unknown")
    func unansweredGivenUp() async throws {
        let bench = try ImmediateCourier(options: DeliveryOptions(resendsUnanswered: false))
        let fixture = bench.fixture
        try await fixture.register("a")
        let first = try await fixture.create()
        #expect(try await bench.sent() == ["alert a 1"])
        // The number goes to 0 and back to 1, which the device was told before: only doubt owes it a push.
        _ = try await fixture.inboxes.setRead(true, first, fixture.alice, device: nil)
        let second = try await fixture.create()
        bench.provider.answer { message in
            if case .alert = message.kind { return .saying(.unanswered, "no answer within 30 s") }
            return .accepted
        }
        var sent = try await bench.sent()
        #expect(try fixture.states(of: second) == [.failed])
        fixture.clock.advance(seconds: 2)
        sent += try await bench.sent()
        #expect(sent == ["alert a 1", "badge a 1"])
        fixture.clock.advance(seconds: 3_600)
        #expect(try await bench.sent().isEmpty)
    }

    // MARK: One device

    @Test("a device that is sent too much waits alone")
    func busyDevice() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let bob = User(app: "default", userID: "bob")
        try await fixture.register("a")
        try await fixture.register("b", bob)
        bench.provider.answer {
            $0.device.token.hasPrefix("a")
                ? PushAnswer(outcome: .deviceBusy(afterMilliseconds: 600_000), status: 429, reason: "TooManyRequests")
                : .accepted
        }
        let count = Limits.outageFailures + 2
        for _ in 0..<count { try await fixture.create() }
        try await fixture.create(bob)
        #expect(try await bench.sent().contains("alert b 1"))
        #expect(bench.deliveryWorker.pushes.conditions.isEmpty, "it is no outage")
        fixture.clock.advance(seconds: 5)
        try await fixture.create(bob)
        #expect(try await bench.sent() == ["alert b 2"])
        bench.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 600)
        #expect(try await bench.sent().filter { $0.hasPrefix("alert a") }.count == count)
    }

    @Test("an alert that waits for its retry doesn't hold up a newer clearing")
    func clearingOvertakesRetry() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        _ = try await fixture.sent()
        fixture.provider.answer { _ in
            PushAnswer(outcome: .unavailable(afterMilliseconds: 600_000), status: 503, reason: "Shutdown")
        }
        let waiting = try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 2"])
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 1)
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        #expect(try await fixture.sent() == ["badge a 0"])
        #expect(try fixture.states(of: waiting) == [.owed])
        fixture.clock.advance(seconds: 600)
        #expect(try await fixture.sent() == ["alert a 0"])
        #expect(try fixture.states(of: waiting) == [.accepted])
    }

    // MARK: Restarts

    @Test(
        "what a dead server had in flight to many devices goes again as it was; what this one sends is left alone",
        arguments: [true, false])
    func leases(_ resends: Bool) async throws {
        let fixture = try Fixture()
        let bob = User(app: "b", userID: "bob")
        let carol = User(app: "default", userID: "carol")
        for letter in "abcd" { try await fixture.register(letter) }
        for letter in "ef" { try await fixture.register(letter, bob) }
        try await fixture.register("9", carol)
        let ids = [try await fixture.create(), try await fixture.create(bob)]
        let lost = try await fixture.claimDue()
        #expect(lost.count == 6)
        let flying = try await fixture.create(carol)
        #expect(try await fixture.claimDue(lease: Fixture.lease).count == 1)
        #expect(try await fixture.sent().isEmpty)
        #expect(try await fixture.releaseLeases(resendsUnanswered: resends) == 6)
        #expect(try fixture.states(of: flying) == [.sending])
        let states = try ids.flatMap { try fixture.states(of: $0) }
        #expect(states == Array(repeating: resends ? DeliveryState.owed : .failed, count: 6))
        #expect(try await fixture.releaseLeases(resendsUnanswered: resends) == 0, "a second walk finds nothing")
        let sent = try await fixture.sent()
        guard resends else { return }
        #expect(sent == ["a", "b", "c", "d", "e", "f"].map { "alert \($0) 1" })
        #expect(Set(fixture.provider.messages.map(\.id)) == Set(lost.map(\.message.id)))
        #expect(try fixture.states(of: flying) == [.sending])
    }
}
