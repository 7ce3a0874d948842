import CampanileCore
import Push
import Synchronization
import Testing

@testable import CampanileServer

/// The parts of a lane: what stops one does nothing to the others.
@Suite struct LanePartTests {
    private static let apple = Lane(app: "default", provider: .apns)
    private static let production = LanePart(apple, .ios, .production)
    private static let sandbox = LanePart(apple, .ios, .sandbox)
    /// A third part. No device of a real app is in it.
    private static let android = LanePart(apple, .android, .production)
    private static let bob = User(app: "default", userID: "bob")

    /// Bob's device is in the part that stops, Alice's in one that runs.
    @Test(
        "devices that the app's credentials don't serve hold up none that they serve, however quiet the app is",
        arguments: [
            (sandbox, production),
            (
                LanePart(Lane(app: "default", provider: .fcm), .ios, .production),
                LanePart(Lane(app: "default", provider: .fcm), .android, .production)
            ),
            (
                LanePart(Lane(app: "default", provider: .fcm), .ios, .sandbox),
                LanePart(Lane(app: "default", provider: .fcm), .ios, .production)
            ),
        ])
    func unserved(_ stopped: LanePart, _ running: LanePart) async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let answer = Mutex(PushAnswer.accepted)
        bench.provider.answer { message in
            message.device.token.hasPrefix("a") ? .saying(.misconfigured, "no such credentials") : answer.withLock(\.self)
        }
        try await fixture.register("a", Self.bob, in: stopped)
        try await fixture.register("b", in: running)
        let waiting = try await fixture.create(Self.bob)
        #expect(try await bench.sent() == ["alert a 1"])
        for round in 1...4 {
            fixture.clock.advance(seconds: 1_000)
            try await fixture.create()
            #expect(try await bench.sent().contains("alert b \(round)"))
            #expect(try bench.conditions().map(\.key) == [stopped])
        }
        answer.withLock { $0 = .saying(.deviceBusy(afterMilliseconds: 1_000)) }
        try await fixture.create()
        #expect(try await bench.sent().contains("alert b 5"))
        answer.withLock { $0 = .accepted }
        fixture.clock.advance(seconds: 70)
        #expect(try await bench.sent().contains("alert b 5"), "one that waits is found among those that wait for longer")
        #expect(try fixture.states(of: waiting) == [.owed])
    }

    @Test("an outage of Apple's sandbox leaves production alone, and the other way round", arguments: DeviceEnvironment.allCases)
    func outage(_ environment: DeviceEnvironment) async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        bench.provider.answer {
            $0.device.environment == environment ? .saying(.unavailable(afterMilliseconds: nil), "Shutdown") : .accepted
        }
        for letter in "0123456789" {
            try await fixture.register(letter, Self.bob, in: environment == .sandbox ? Self.sandbox : Self.production)
        }
        try await fixture.register("b", in: environment == .sandbox ? Self.production : Self.sandbox)
        try await fixture.create(Self.bob)
        #expect(try await bench.sent().count == Limits.outageFailures)
        #expect(try bench.conditions().map(\.key.environment) == [environment])
        try await fixture.create()
        #expect(try await bench.sent() == ["alert b 1"])
    }

    @Test("a device that changes its part while its push is under way gives back the place that it had")
    func changesPart() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        bench.provider.answer {
            $0.device.token.hasPrefix("a") ? .saying(.acceptedElsewhere(.sandbox)) : .saying(.misconfigured, "BadTopic")
        }
        try await fixture.register("a", in: Self.production)
        for number in 1...3 {
            try await fixture.create()
            #expect(try await bench.sent() == ["alert a \(number)"])
            #expect(try fixture.registry.list(fixture.alice).map(\.environment) == [.sandbox])
            #expect(bench.deliveryWorker.pushes.isIdle)
        }
        #expect(bench.deliveryWorker.pushes.laneReports.values.map(\.inFlight) == [0])
        // A part sends its probe while nothing else of it is in flight.
        try await fixture.register("b", Self.bob, in: Self.production)
        try await fixture.create(Self.bob)
        #expect(try await bench.sent() == ["alert b 1"])
        fixture.clock.advance(seconds: 20)
        #expect(try await bench.sent() == ["alert b 1"])
    }

    // MARK: One user's devices

    /// Bob's phone in a part that serves all others.
    private static func besideBob(_ outcome: PushOutcome) async throws -> ImmediateCourier {
        let bench = try ImmediateCourier()
        bench.provider.answer { $0.userID == "bob" ? .saying(outcome, "not that one") : .accepted }
        let part = LanePart(Lane(app: "default", provider: .fcm), .ios, .production)
        try await bench.fixture.register("a", bob, in: part)
        try await bench.fixture.register("b", in: part)
        return bench
    }

    @Test("a phone that its provider can't serve keeps no other user's pushes waiting, also when it has stopped a quiet part")
    func unservedUser() async throws {
        let bench = try await Self.besideBob(.misconfigured)
        let fixture = bench.fixture
        let waiting = try await fixture.create(Self.bob)
        #expect(try await bench.sent() == ["alert a 1"])
        for _ in 1...6 {
            fixture.clock.advance(seconds: 1_000)
            #expect(try await bench.sent() == ["alert a 1"], "the probe")
        }
        #expect(try bench.conditions().count == 1)
        fixture.clock.advance(seconds: 1)
        let id = try await fixture.create()
        #expect(try await bench.sent() == ["alert b 1"], "it doesn't wait for the next probe")
        #expect(try bench.conditions().isEmpty)
        // Nor does what no creation wakes.
        fixture.clock.advance(seconds: 1_000)
        #expect(try await bench.sent() == ["alert a 1"])
        #expect(try bench.conditions().count == 1)
        fixture.clock.advance(seconds: 15)
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: nil)
        fixture.clock.advance(seconds: 2)
        #expect(try await bench.sent().contains("badge b 0"))
        #expect(try fixture.states(of: waiting) == [.owed])
    }

    @Test(
        "a user with many phones that fail hides no other user, though their pushes wait for longer and many apps have something due"
    )
    func manyPhones() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        bench.provider.answer { $0.userID == "user-0" ? .saying(.misconfigured, "not those") : .accepted }
        let users = try await fixture.makeUsers(2, devicesEach: Limits.devicesPerUser, app: "default")
        try await fixture.create(users[0])
        _ = try await bench.sent()
        fixture.clock.advance(seconds: 1_000)
        _ = try await bench.sent()
        for number in 0..<10 {
            let app = "app-\(number)"
            _ = try await fixture.makeUsers(1, devicesEach: 1, app: app)
            try await fixture.create(User(app: app, userID: "user-0"))
        }
        fixture.clock.advance(seconds: 1)
        try await fixture.create(users[1])
        _ = try await bench.sent()
        #expect(bench.provider.messages.filter { $0.userID == users[1].userID }.count == Limits.devicesPerUser)
    }

    @Test("a push that wasn't answered once leaves its user before the one whose phone fails")
    func unanswered() async throws {
        let bench = try await Self.besideBob(.misconfigured)
        let fixture = bench.fixture
        try await fixture.create(Self.bob)
        for _ in 1...6 {
            _ = try await bench.sent()
            fixture.clock.advance(seconds: 1_000)
        }
        _ = try await bench.sent()
        let isAnswered = Mutex(false)
        bench.provider.answer { message in
            if message.userID == "bob" { return .saying(.misconfigured, "not that one") }
            return isAnswered.withLock { isAnswered in
                defer { isAnswered = true }
                return isAnswered ? .accepted : .saying(.unanswered)
            }
        }
        fixture.clock.advance(seconds: 1)
        try await fixture.create()
        #expect(try await bench.sent() == ["alert b 1"])
        fixture.clock.advance(milliseconds: 2 * Limits.unansweredMilliseconds)
        #expect(try await bench.sent().contains("alert b 1"))
        #expect(try bench.conditions().isEmpty)
    }

    @Test("one user's phones don't stop a part in which pushes are accepted, however often they are refused")
    func flowing() async throws {
        let bench = try await Self.besideBob(.misconfigured)
        let fixture = bench.fixture
        try await fixture.create()
        try await fixture.create(Self.bob)
        #expect(try await bench.sent() == ["alert a 1", "alert b 1"])
        for _ in 1...5 {
            fixture.clock.advance(seconds: 10)
            #expect(try await bench.sent() == ["alert a 1"])
            #expect(try bench.conditions().isEmpty)
        }
    }

    @Test("the probe of a stopped part goes to a user to whom no push has failed, however long the others wait")
    func probe() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let users = try await fixture.makeUsers(Limits.failingUsers + 2, devicesEach: 1, app: "default")
        let last = try #require(users.last)
        bench.provider.answer { $0.userID == last.userID ? .accepted : .saying(.misconfigured, "no such credentials") }
        for user in users.dropLast() { try await fixture.create(user) }
        for _ in 1...6 {
            _ = try await bench.sent()
            fixture.clock.advance(seconds: 1_000)
        }
        try await fixture.create(last)
        #expect(try await bench.sent().contains("alert 0 1"))
        #expect(bench.provider.messages.first?.userID == last.userID)
    }

    @Test(
        "a phone whose every push is refused as in an outage stops its part, and keeps another user's push waiting for a second at most"
    )
    func oneUsersOutage() async throws {
        let bench = try await Self.besideBob(.unavailable(afterMilliseconds: 600_000))
        let fixture = bench.fixture
        for _ in 1...2 * Limits.outageFailures { try await fixture.create(Self.bob) }
        #expect(try await bench.sent().count == Limits.outageFailures)
        #expect(try bench.conditions().values.map(\.kind) == [.outage])
        try await fixture.create()
        #expect(try await bench.sent().isEmpty)
        fixture.clock.advance(seconds: 1)
        #expect(try await bench.sent().contains("alert b 1"))
    }

    @Test("one user's tokens of another app stop nothing where pushes are accepted, and go")
    func foreignUser() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let users = try await fixture.makeUsers(2, devicesEach: Limits.deadTokensTolerated + 4, app: "default")
        bench.provider.answer { $0.userID == users[0].userID ? .saying(.tokenForeign, "DeviceTokenNotForTopic") : .accepted }
        try await fixture.create(users[1])
        _ = try await bench.sent()
        fixture.clock.advance(seconds: 120)
        try await fixture.create(users[0])
        #expect(try await bench.sent().count == Limits.deadTokensTolerated + 4)
        #expect(try bench.conditions().isEmpty)
        #expect(try fixture.registry.list(users[0]).isEmpty)
        #expect(try fixture.registry.list(users[1]).count == Limits.deadTokensTolerated + 4)
    }

    // MARK: Tokens of other apps

    @Test("tokens of other apps stop the parts that had some, and one accepted push in the lane clears that for all of them")
    func foreign() {
        var book = LaneHealth()
        let now = Timestamp(milliseconds: 1_795_000_000_000)
        let quiet = Self.android
        func hear(_ part: LanePart, _ outcome: PushOutcome) -> LaneHealth.Change? {
            book.sent(part)
            return book.answered(part, .saying(outcome), of: 1, now: now, jitter: 0)
        }
        #expect(hear(quiet, .accepted) == nil)
        for part in [Self.production, Self.sandbox] { #expect(hear(part, .tokenForeign) == nil) }
        #expect(Set(book.foreignParts(of: Self.apple)) == [Self.production, Self.sandbox])
        for part in book.foreignParts(of: Self.apple) { _ = book.park(part, "tokens of other apps", now: now, jitter: 0) }
        #expect(book.foreignApps == ["default"] && book.isHealthy(quiet))
        #expect(hear(Self.sandbox, .rejected) == nil, "a success alone says that it is mended")
        #expect(!book.isHealthy(Self.sandbox))
        for _ in 1...Limits.outageFailures { _ = hear(quiet, .unavailable(afterMilliseconds: nil)) }
        #expect(hear(quiet, .rejected) == .recovered, "it had none, so its provider is at work again")
        #expect(hear(Self.production, .accepted) == .recovered)
        #expect(book.foreignApps.isEmpty, "dead tokens are believed again")
        #expect(hear(Self.sandbox, .tokenForeign) == .recovered, "what one token is says nothing of its part any more")
    }

    // MARK: What is told

    @Test("a lane is reported by its users' devices, and by a build from Xcode where there are no others")
    func reported() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let answers = Mutex<[DeviceEnvironment: PushAnswer]>([.sandbox: .saying(.misconfigured, "BadEnvironmentKeyInToken")])
        bench.provider.answer { message in answers.withLock { $0[message.device.environment] ?? .accepted } }
        func reported() -> String? { bench.deliveryWorker.pushes.laneReports[Self.apple]?.condition?.reason }
        try await fixture.register("a", Self.bob, in: Self.sandbox)
        try await fixture.register("b", in: Self.production)
        let waiting = try await fixture.create(Self.bob)
        _ = try await bench.sent()
        #expect(reported() == "BadEnvironmentKeyInToken")
        try await fixture.create()
        _ = try await bench.sent()
        #expect(reported() == nil)
        #expect(try bench.conditions().map(\.key) == [Self.sandbox], "it is named in any case")
        fixture.clock.advance(seconds: 120)
        answers.withLock { $0[.production] = .saying(.misconfigured, "InvalidProviderToken") }
        let stopped = try await fixture.create()
        _ = try await bench.sent()
        #expect(reported() == "InvalidProviderToken")
        // An outage is told before an older wrong configuration.
        for letter in "0123456789" { try await fixture.register(letter, Self.bob, in: Self.android) }
        answers.withLock { $0[.production] = .saying(.unavailable(afterMilliseconds: nil), "Shutdown") }
        try await fixture.create(Self.bob)
        _ = try await bench.sent()
        #expect(reported() == "Shutdown")
        // An explanation names the part that its deliveries wait for, and no other.
        for (id, reason, others) in [(waiting, "BadEnvironment", "Invalid"), (stopped, "Invalid", "BadEnvironment")] {
            let explanation = try fixture.store.readBlocking { try Explanation(id, app: nil, in: $0) }
            let lines = try #require(explanation).lines.filter { $0.hasPrefix("APNs refuses") }
            #expect(lines.count == 1 && lines[0].contains(reason) && !lines[0].contains(others))
        }
    }
}

extension Fixture {
    fileprivate func register(_ letter: Character, _ user: User? = nil, in part: LanePart) async throws {
        try await register(
            letter, user, platform: part.platform, provider: part.lane.provider, environment: part.environment)
    }
}
