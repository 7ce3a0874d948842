import CampanileCore
import Crypto
import Foundation
import Logging
import Push
import Testing

@testable import CampanileServer

/// Providers of a configuration, with key files in a folder of their own. Nothing is sent, so nothing is connected.
private struct Workshop {
    static let apns = Lane(app: "default", provider: .apns)
    static let fcm = Lane(app: "default", provider: .fcm)

    let folder = TemporaryFolder()
    let sandbox = SandboxProvider(capacity: 10, options: PayloadOptions(topics: [:]))
    let providers: PushProviders

    let log = KeptLog()

    init() {
        providers = PushProviders(
            sandbox: sandbox, options: PayloadOptions(topics: [:]), tokenStore: NoProviderTokenStore(),
            world: .hand(HandClock()),
            logger: log.logger)
    }

    var keyFile: String { folder.path + "/key.p8" }

    /// A new key in PKCS#8, as Apple hands them out.
    static func key() -> String { P256.Signing.PrivateKey().pemRepresentation }

    func write(_ text: String) throws {
        try Data(text.utf8).write(to: URL(filePath: keyFile))
    }

    /// A configuration whose app has a key with Apple and nothing with Google.
    func configuration(topic: String = "com.example.app") -> Configuration {
        var configuration = Configuration()
        configuration.apps["default"] = Configuration.App(
            apns: Configuration.APNs(
                keyFile: keyFile, keyID: "ABCDE12345", teamID: "TEAM123456", topic: topic,
                url: URL(string: "https://127.0.0.1:1")))
        return configuration
    }

    func isSandbox(_ lane: Lane) -> Bool {
        let isThere = (providers.provider(app: lane.app, kind: lane.provider) as? SandboxProvider) === sandbox
        #expect(providers.isSandbox(app: lane.app, kind: lane.provider) == isThere)
        return isThere
    }

    /// Runs a test and closes what it opened, whatever happens.
    static func use(_ body: (Workshop) async throws -> Void) async throws {
        let workshop = Workshop()
        do {
            try await body(workshop)
        } catch {
            await workshop.providers.shutDown()
            throw error
        }
        await workshop.providers.shutDown()
    }

    /// Does the same for a test that replaces credentials. What was replaced is drained by a task of its own that nobody can wait
    /// for and that needs the event loop, so the loop's thread stays until the run is over.
    static func useAndLeave(_ body: (Workshop) async throws -> Void) async throws {
        try await body(Workshop())
    }
}

/// The takers of the pushes of a lane.
@Suite struct ProvidersTests {
    @Test("without credentials every lane is the sandbox's")
    func withoutCredentials() async throws {
        try await Workshop.use { workshop in
            #expect(workshop.isSandbox(Workshop.apns))
            let isChanged = try workshop.providers.apply(Configuration())
            #expect(!isChanged)
            #expect(workshop.isSandbox(Workshop.apns))
            #expect(workshop.isSandbox(Workshop.fcm))
            #expect(workshop.isSandbox(Lane(app: "unknown", provider: .apns)))
        }
    }

    @Test("an app that is named without any credentials stays with the sandbox")
    func emptyApp() async throws {
        try await Workshop.use { workshop in
            var configuration = Configuration()
            configuration.apps["default"] = Configuration.App()
            let isChanged = try workshop.providers.apply(configuration)
            #expect(!isChanged)
            #expect(workshop.isSandbox(Workshop.apns))
        }
    }

    @Test("credentials with Apple leave what goes to Google, and other apps, to the sandbox")
    func oneKind() async throws {
        try await Workshop.use { workshop in
            try workshop.write(Workshop.key())
            let isChanged = try workshop.providers.apply(workshop.configuration())
            #expect(isChanged)
            #expect(!workshop.isSandbox(Workshop.apns))
            #expect(workshop.isSandbox(Workshop.fcm))
            #expect(workshop.isSandbox(Lane(app: "other", provider: .apns)))
        }
    }

    @Test("the same contents change nothing; a replaced key file or another topic does")
    func changes() async throws {
        try await Workshop.useAndLeave { workshop in
            let key = Workshop.key()
            try workshop.write(key)
            let first = try workshop.providers.apply(workshop.configuration())
            try workshop.write(key)
            let same = try workshop.providers.apply(workshop.configuration())
            #expect((first, same) == (true, false))
            try workshop.write(Workshop.key())
            let replaced = try workshop.providers.apply(workshop.configuration())
            let topic = try workshop.providers.apply(workshop.configuration(topic: "com.example.other"))
            #expect((replaced, topic) == (true, true))
            #expect(!workshop.isSandbox(Workshop.apns))
        }
    }

    @Test("credentials that another configuration doesn't name any more stay until a restart, and a warning says so")
    func droppedCredentials() async throws {
        try await Workshop.useAndLeave { workshop in
            try workshop.write(Workshop.key())
            let bench = try ImmediateCourier()
            let configuration = workshop.configuration()
            try workshop.providers.apply(configuration)
            let watch = CredentialWatch(
                configuration: configuration, providers: workshop.providers, deliveryWorker: bench.deliveryWorker,
                logger: workshop.log.logger)
            let warning = "warning The configuration has no credentials any more for an app that had some"
            try watch.use(configuration)
            #expect(workshop.log.count(warning) == 0)

            try watch.use(Configuration())
            #expect(!workshop.isSandbox(Workshop.apns), "a push that is only recorded would count as sent")
            #expect(workshop.log.count(warning) == 1)
            watch.look()
            #expect(workshop.log.count(warning) == 1, "said when somebody asks, not every five seconds")

            // With one app gone, another one's still change; the app that comes back may bring another key.
            var other = Configuration()
            other.apps["other"] = configuration.apps["default"]
            try watch.use(other)
            #expect(!workshop.isSandbox(Workshop.apns))
            #expect(!workshop.isSandbox(Lane(app: "other", provider: .apns)))
            #expect(workshop.log.count(warning) == 2)
            try watch.use(workshop.configuration(topic: "com.example.other"))
            #expect(workshop.log.count(warning) == 3, "the other app's")
            #expect(!workshop.isSandbox(Workshop.apns))
            watch.look()
            let isChanged = try workshop.providers.apply(workshop.configuration(topic: "com.example.other"))
            #expect(!isChanged)
        }
    }

    /// Runs a test whose user has three devices. `sent` sends what one notification makes, with these answers in turn, and has the app's
    /// credentials replaced while the last push is in flight, before any answer is settled.
    private static func withReplacement(
        _ body: (_ bench: ImmediateCourier, _ user: User, _ sent: ([PushAnswer]) async throws -> Void) async throws -> Void
    ) async throws {
        try await Workshop.useAndLeave { workshop in
            try workshop.write(Workshop.key())
            let bench = try ImmediateCourier()
            try workshop.providers.apply(workshop.configuration())
            let watch = CredentialWatch(
                configuration: workshop.configuration(), providers: workshop.providers, deliveryWorker: bench.deliveryWorker,
                logger: workshop.log.logger)
            let user = try await bench.fixture.makeUsers(1, devicesEach: 3, app: "default")[0]
            let other = workshop.configuration(topic: "com.example.other")
            try await body(bench, user) { answers in
                bench.provider.answer { _ in
                    let number = bench.provider.messages.count
                    if number == answers.count {
                        bench.fixture.clock.advance(seconds: 1)
                        #expect(throws: Never.self) { try watch.use(other) }
                    }
                    return answers[number - 1]
                }
                try await bench.fixture.create(user)
                #expect(try await bench.sent().count == answers.count)
                // The answer holds the bench, and the bench its provider.
                bench.provider.answer { _ in .accepted }
            }
        }
    }

    private static let foreign = PushAnswer.saying(.tokenForeign, "DeviceTokenNotForTopic")

    @Test("tokens of another app that show after an app's credentials were replaced are held against the credentials")
    func replacedCredentials() async throws {
        try await Self.withReplacement { bench, user, sent in
            for _ in 1...2 { try await bench.fixture.create(user) }
            #expect(try await bench.sent().count == 6)
            try await sent([.accepted, .accepted, .accepted])
            bench.provider.answer { _ in Self.foreign }
            try await bench.fixture.create(user)
            #expect(try await bench.sent().count == 3)
            #expect(try bench.conditions().values.map(\.kind) == [.parked])
            #expect(try bench.fixture.registry.list(user).count == 3)
        }
    }

    @Test(
        "a token that credentials which were replaced meanwhile called dead or another app's is kept, and gets the push with the new ones",
        arguments: [foreign, .saying(.tokenGone(since: nil), "BadDeviceToken")])
    func tokenRefusedToOldCredentials(_ refusal: PushAnswer) async throws {
        try await Self.withReplacement { bench, user, sent in
            try await sent([.accepted, .accepted, refusal])
            #expect(try bench.fixture.registry.list(user).count == 3)
            #expect(bench.deliveryWorker.pushes.lastHour.reading(of: "default", at: bench.fixture.clock.now).deadTokens.isEmpty)
            bench.fixture.clock.advance(milliseconds: 2 * Limits.unprocessedMilliseconds)
            #expect(try await bench.sent().count == 1)
        }
    }

    @Test("credentials that are replaced between the judgement of answers and their settlement get those pushes too")
    func replacedBeforeTheSettlement() async throws {
        try await Workshop.useAndLeave { workshop in
            try workshop.write(Workshop.key())
            let bench = try ImmediateCourier()
            let clock = bench.fixture.clock
            try workshop.providers.apply(workshop.configuration())
            let watch = CredentialWatch(
                configuration: workshop.configuration(), providers: workshop.providers, deliveryWorker: bench.deliveryWorker,
                logger: workshop.log.logger)
            let many = Limits.deadTokensTolerated + 1
            let user = try await bench.fixture.makeUsers(1, devicesEach: many, app: "default")[0]
            let other = workshop.configuration(topic: "com.example.other")
            bench.log.onLine { line in
                guard line.contains("Too many device tokens die at once") else { return }
                clock.advance(seconds: 1)
                #expect(throws: Never.self) { try watch.use(other) }
            }
            bench.provider.answer { _ in .saying(.tokenGone(since: nil), "BadDeviceToken") }
            let notification = try await bench.fixture.create(user)
            let alerts = try await bench.sent()
            #expect(alerts.count == many && bench.log.count("error Too many device tokens die at once") == 1)
            bench.log.onLine { _ in }
            bench.provider.answer { _ in .accepted }
            clock.advance(milliseconds: 2 * Limits.unprocessedMilliseconds)
            #expect(try await bench.sent() == alerts)
            #expect(try bench.fixture.registry.list(user).count == many)
            #expect(try bench.fixture.attempts(of: [notification]) == many, "the second attempts alone")
        }
    }

    @Test("tokens that credentials which were replaced meanwhile called another app's stop no lane before any push was accepted")
    func manyForeignToOldCredentials() async throws {
        try await Self.withReplacement { bench, user, sent in
            try await sent([Self.foreign, Self.foreign, Self.foreign])
            #expect(try bench.conditions().isEmpty)
            #expect(try bench.fixture.registry.list(user).count == 3)
        }
    }

    @Test("what old credentials accept after they were replaced starts no lane that stands")
    func acceptedWithOldCredentials() async throws {
        try await Self.withReplacement { bench, user, sent in
            let misconfigured = PushAnswer.saying(.misconfigured, "TopicDisallowed")
            try await sent([misconfigured, misconfigured, .accepted])
            #expect(try bench.conditions().values.map(\.kind) == [.parked])
            bench.fixture.clock.advance(milliseconds: 2 * Limits.misconfiguredMilliseconds)
            #expect(try await !bench.sent().isEmpty)
            #expect(try bench.conditions().isEmpty)
        }
    }

    @Test("a key file that is broken is refused with a sentence that repeats none of it, and the old key stays")
    func brokenKey() async throws {
        try await Workshop.use { workshop in
            let key = Workshop.key()
            try workshop.write(key)
            try workshop.providers.apply(workshop.configuration())
            let lines = key.split(separator: "\n").map(String.init)
            try #require(lines.count > 3)
            let half = lines.prefix(2) + lines.suffix(1)
            try workshop.write(half.joined(separator: "\n") + "\n")
            let error = #expect(throws: OperatorError.self) {
                try workshop.providers.apply(workshop.configuration())
            }
            let sentence = error?.description ?? ""
            #expect(sentence.contains("apps.default.apns"))
            for line in lines { #expect(!sentence.contains(line)) }
            #expect(!sentence.contains(workshop.folder.path))
            #expect(!workshop.isSandbox(Workshop.apns))

            try workshop.write(key)
            let isChanged = try workshop.providers.apply(workshop.configuration())
            #expect(!isChanged, "the old key is still the present one")
        }
    }

    @Test("a key file that isn't there is refused, and the old key stays")
    func missingKey() async throws {
        try await Workshop.use { workshop in
            let key = Workshop.key()
            try workshop.write(key)
            try workshop.providers.apply(workshop.configuration())
            try FileManager.default.removeItem(atPath: workshop.keyFile)
            let error = #expect(throws: OperatorError.self) {
                try workshop.providers.apply(workshop.configuration())
            }
            let sentence = error?.description ?? ""
            #expect(sentence.contains("key.p8"))
            #expect(sentence.hasSuffix("isn't there."))
            #expect(!workshop.isSandbox(Workshop.apns))
        }
    }

    @Test("credentials that are wrong from the beginning leave the lane with the sandbox until they are mended")
    func brokenFromTheBeginning() async throws {
        try await Workshop.use { workshop in
            try workshop.write("no key at all")
            let error = #expect(throws: OperatorError.self) { try workshop.providers.apply(workshop.configuration()) }
            #expect(error?.description.contains("isn't a P-256 private key") == true, "\(String(describing: error))")
            #expect(workshop.isSandbox(Workshop.apns))
            try workshop.write(Workshop.key())
            let isChanged = try workshop.providers.apply(workshop.configuration())
            #expect(isChanged)
            #expect(!workshop.isSandbox(Workshop.apns))
        }
    }

    @Test("a file of authorities that holds none is refused")
    func noAuthorities() async throws {
        try await Workshop.use { workshop in
            try workshop.write(Workshop.key())
            var configuration = workshop.configuration()
            let file = workshop.folder.path + "/ca.pem"
            try Data("no certificate".utf8).write(to: URL(filePath: file))
            configuration.push.caFile = file
            let error = #expect(throws: OperatorError.self) { try workshop.providers.apply(configuration) }
            #expect(error?.description.contains("authorities holds no certificate") == true, "\(String(describing: error))")
            #expect(workshop.isSandbox(Workshop.apns))
        }
    }
}
