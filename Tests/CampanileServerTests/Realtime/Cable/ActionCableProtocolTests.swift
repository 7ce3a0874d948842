import CampanileCore
import Logging
import Testing

@testable import CampanileServer

@Suite struct ActionCableProtocolTests {
    static let cableUser = CableUser(
        user: UserKey(app: "shop", userID: "17"), life: TokenLife(issuedAt: nil, expiresAt: Timestamp(milliseconds: 1_000)),
        tokenCameInCookie: false)
    static let notifications = "{\"channel\":\"NotificationsChannel\"}"

    /// A dialogue that says what it answers, so that an expectation can ask it.
    final class Talk {
        private var actionCable: ActionCableProtocol
        init(_ actionCable: ActionCableProtocol) { self.actionCable = actionCable }

        func open() -> [ActionCableAction] { actionCable.open() }
        func hear(_ text: String) -> [ActionCableAction] { actionCable.hear(Array(text.utf8)) }
        func end(_ reason: StreamEnd) -> [ActionCableAction] { actionCable.end(reason) }
        func subscribe(_ identifier: String) -> [ActionCableAction] { command("subscribe", identifier) }
        func unsubscribe(_ identifier: String) -> [ActionCableAction] { command("unsubscribe", identifier) }

        private func command(_ name: String, _ identifier: String) -> [ActionCableAction] {
            actionCable.hear(
                JSONValue.object([.init("command", .string(name)), .init("identifier", .string(identifier))]).text)
        }
    }

    static func actionCable(
        _ cableUser: CableUser? = cableUser, signedStreamsOnly: Bool = false, key: SignedStreamName.Key? = CableFixture.key,
        pattern: StreamNamePattern = .standard, log: KeptLog = KeptLog(), clock: HandClock = HandClock(), sid: String? = nil
    ) -> Talk {
        let rules = CableRules(
            key: key, pattern: pattern, signedStreamsOnly: signedStreamsOnly,
            log: CableLog(log.logger) { clock.now })
        return Talk(ActionCableProtocol(rules: rules, cableUser: cableUser, sid: sid))
    }

    static func say(_ text: String) -> ActionCableAction { .say(Array(text.utf8)) }

    static func about(_ identifier: String, _ type: String) -> ActionCableAction {
        say("{\"identifier\":\(String(decoding: JSONValue.string(identifier).text, as: UTF8.self)),\"type\":\"\(type)\"}")
    }

    static func listen(_ number: Int, _ kind: StreamKind, _ app: String, _ userID: String, _ identifier: String)
        -> ActionCableAction
    {
        .listen(
            number: number, .inbox(kind, of: UserKey(app: app, userID: userID)), from: nil, identifier: Array(identifier.utf8))
    }

    static let unauthorized = say("{\"type\":\"disconnect\",\"reason\":\"unauthorized\",\"reconnect\":false}")

    @Test func welcomesAUser() {
        let actionCable = Self.actionCable()
        #expect(actionCable.open() == [Self.say("{\"type\":\"welcome\"}")])
    }

    @Test func sendsAwayWhoHasNoTokenAndHearsNothingMoreOfThem() {
        let actionCable = Self.actionCable(nil)
        #expect(actionCable.open() == [Self.unauthorized, .close(.normal)])
        #expect(actionCable.subscribe(CableFixture.turbo("notifications:17")) == [])
        #expect(actionCable.end(.restarting) == [])
    }

    @Test func withSignedStreamsOnlyAConnectionWithoutATokenMaySubscribeToThoseOnly() {
        let actionCable = Self.actionCable(nil, signedStreamsOnly: true)
        #expect(actionCable.open() == [Self.say("{\"type\":\"welcome\"}")])
        let turbo = CableFixture.turbo("notifications:17")
        #expect(
            actionCable.subscribe(Self.notifications)
                == [Self.about(Self.notifications, "reject_subscription")])
        #expect(
            actionCable.subscribe(turbo)
                == [Self.listen(1, .badgeTurbo, "default", "17", turbo), Self.about(turbo, "confirm_subscription")])
    }

    @Test func listensBeforeItConfirms() {
        let actionCable = Self.actionCable()
        #expect(
            actionCable.subscribe(Self.notifications) == [
                Self.listen(1, .notifications, "shop", "17", Self.notifications),
                Self.about(Self.notifications, "confirm_subscription"),
            ])
    }

    @Test func theSignatureIsTheAuthorityAndMayNameAnotherUser() throws {
        let identifier = CableFixture.turbo("notifications:42")
        let actionCable = Self.actionCable()
        // Without a word about the app, the token's counts for its own user only: the same id is somebody else there.
        #expect(actionCable.subscribe(identifier).first == Self.listen(1, .badgeTurbo, "default", "42", identifier))
        let own = CableFixture.turbo("notifications:17")
        #expect(actionCable.subscribe(own).first == Self.listen(2, .badgeTurbo, "shop", "17", own))
        let named = CableFixture.turbo("other/42")
        let other = Self.actionCable(pattern: try StreamNamePattern("{app}/{user_id}"))
        #expect(other.subscribe(named).first == Self.listen(1, .badgeTurbo, "other", "42", named))
    }

    @Test func rejectsABadSignatureAndEveryNameWithoutAKey() {
        let identifier = CableFixture.turbo("notifications:17")
        let forged = identifier.replacing("\"}", with: "0\"}")
        let actionCable = Self.actionCable()
        #expect(actionCable.subscribe(forged) == [Self.about(forged, "reject_subscription")])
        let keyless = Self.actionCable(key: nil)
        #expect(keyless.subscribe(identifier) == [Self.about(identifier, "reject_subscription")])
    }

    @Test(
        "rejects what is no channel",
        arguments: [
            "{\"channel\":\"ChatChannel\"}", "{}", "x", "", "{\"channel\":17}", "{\"channel\":\"Turbo::StreamsChannel\"}",
            "{\"channel\":\"Turbo::StreamsChannel\",\"signed_stream_name\":17}", "[\"channel\"]",
        ])
    func noChannel(_ identifier: String) {
        let actionCable = Self.actionCable()
        #expect(actionCable.subscribe(identifier) == [Self.about(identifier, "reject_subscription")])
    }

    @Test func echoesTheIdentifierByteByByte() {
        // Spaces, order of keys, escapes and unknown keys are the client's own.
        let identifier = "{ \"z\":\"\\u00e9é<\\/&\", \"channel\" : \"NotificationsChannel\" }"
        let actionCable = Self.actionCable()
        let steps = actionCable.subscribe(identifier)
        guard case .say(let text)? = steps.last, let json = try? JSONValue(parsing: text) else {
            Issue.record("no confirmation")
            return
        }
        #expect(json["identifier"] == .string(identifier))
        #expect(Array((json["identifier"]?.string ?? "").utf8) == Array(identifier.utf8))
        #expect(!text.contains(UInt8(ascii: "<")) && !text.contains(UInt8(ascii: "&")))
    }

    @Test func tellsIdentifiersApartByTheirBytes() {
        // Equal as Unicode texts, but not the same bytes.
        let composed = "{\"channel\":\"NotificationsChannel\",\"x\":\"\u{E9}\"}"
        let decomposed = "{\"channel\":\"NotificationsChannel\",\"x\":\"e\u{301}\"}"
        let actionCable = Self.actionCable()
        #expect(actionCable.subscribe(composed).count == 2)
        #expect(
            actionCable.subscribe(decomposed).first
                == Self.listen(2, .notifications, "shop", "17", decomposed))
        #expect(actionCable.unsubscribe(composed) == [.stopListening(number: 1)])
    }

    @Test func confirmsARepeatedSubscriptionAgainAndListensAnew() {
        let actionCable = Self.actionCable()
        _ = actionCable.subscribe(Self.notifications)
        #expect(
            actionCable.subscribe(Self.notifications) == [
                .stopListening(number: 1), Self.listen(2, .notifications, "shop", "17", Self.notifications),
                Self.about(Self.notifications, "confirm_subscription"),
            ])
        #expect(actionCable.unsubscribe(Self.notifications) == [.stopListening(number: 2)])
        #expect(actionCable.unsubscribe(Self.notifications) == [])
    }

    @Test(
        "stays silent to what is no command, and goes on",
        arguments: [
            "", "x", "{}", "[]", "17", "{\"command\":\"subscribe\"}", "{\"command\":\"dance\",\"identifier\":\"{}\"}",
            "{\"command\":\"subscribe\",\"identifier\":{\"channel\":\"NotificationsChannel\"}}", "{\"command\":\"pong\"}",
            "{\"command\":\"history\",\"identifier\":\"{}\"}",
            "{\"command\":\"history\",\"identifier\":\"{}\",\"history\":{\"since\":1}}",
            "{\"command\":\"message\",\"identifier\":\"{}\",\"data\":\"{}\"}",
            "{\"command\":\"unsubscribe\",\"identifier\":\"x\"}",
            "{\"command\":\"subscribe\",\"identifier\":\"\\ud800\"}",
        ])
    func noCommand(_ text: String) {
        let actionCable = Self.actionCable()
        #expect(actionCable.hear(text) == [])
        #expect(actionCable.subscribe(Self.notifications).count == 2)
    }

    @Test func takesAHundredSubscriptionsAndNoMore() {
        let actionCable = Self.actionCable()
        func identifier(_ number: Int) -> String { CableFixture.turbo("notifications:\(number)") }
        for number in 1...100 { #expect(actionCable.subscribe(identifier(number)).count == 2) }
        #expect(
            actionCable.subscribe(identifier(101)) == [Self.about(identifier(101), "reject_subscription")])
        #expect(actionCable.subscribe(identifier(5)).count == 3, "a known one may be repeated")
        #expect(actionCable.unsubscribe(identifier(6)).count == 1)
        #expect(actionCable.subscribe(identifier(101)).count == 2)
    }

    @Test func rejectsAnIdentifierOverFourKibibytes() {
        func identifier(bytes: Int) -> String {
            let frame = "{\"channel\":\"NotificationsChannel\",\"x\":\"\"}"
            return frame.replacing("\"\"", with: "\"\(String(repeating: "x", count: bytes - frame.utf8.count))\"")
        }
        let actionCable = Self.actionCable()
        #expect(actionCable.subscribe(identifier(bytes: 4_096)).count == 2)
        let long = identifier(bytes: 4_097)
        #expect(actionCable.subscribe(long) == [Self.about(long, "reject_subscription")])
    }

    static func variant(_ number: Int, bytes: Int = 0) -> String {
        let text = "{\"channel\":\"NotificationsChannel\",\"n\":\(number),\"x\":\"\"}"
        return String(text.dropLast(2)) + String(repeating: "x", count: max(0, bytes - text.utf8.count)) + "\"}"
    }

    @Test func takesFourSubscriptionsToOneStreamHoweverTheyAreWritten() {
        let actionCable = Self.actionCable()
        for number in 1...4 { #expect(actionCable.subscribe(Self.variant(number)).count == 2) }
        #expect(actionCable.subscribe(Self.variant(5)) == [Self.about(Self.variant(5), "reject_subscription")])
        #expect(actionCable.subscribe(Self.variant(4)).count == 3, "a known one may be repeated")
        let own = CableFixture.turbo("notifications:17")
        #expect(actionCable.subscribe(own).count == 2, "another kind of news is another stream")
        #expect(actionCable.unsubscribe(Self.variant(1)).count == 1)
        #expect(actionCable.subscribe(Self.variant(5)).count == 2)
    }

    @Test func takesFourKibibytesOfIdentifiersForOneStream() {
        let actionCable = Self.actionCable()
        #expect(actionCable.subscribe(Self.variant(1, bytes: 2_000)).count == 2)
        #expect(actionCable.subscribe(Self.variant(2, bytes: 2_096)).count == 2)
        let third = Self.variant(3)
        #expect(actionCable.subscribe(third) == [Self.about(third, "reject_subscription")])
        #expect(actionCable.unsubscribe(Self.variant(1, bytes: 2_000)).count == 1)
        #expect(actionCable.subscribe(third).count == 2)
    }

    @Test func takes64KibibytesOfIdentifiersOnAConnection() {
        let actionCable = Self.actionCable(CableFixture.ofDefault)
        func identifier(_ number: Int) -> String {
            let text = CableFixture.turbo("messages:\(number)")
            return text.dropLast() + ",\"x\":\"\(String(repeating: "x", count: 4_096 - text.utf8.count - 7))\"}"
        }
        #expect(identifier(10).utf8.count == 4_096)
        for number in 10..<26 { #expect(actionCable.subscribe(identifier(number)).count == 2) }
        #expect(actionCable.subscribe(identifier(26)) == [Self.about(identifier(26), "reject_subscription")])
        #expect(actionCable.unsubscribe(identifier(10)) == [.stopListening(number: 1)])
        #expect(actionCable.subscribe(identifier(26)).count == 2)
    }

    @Test func theLogNamesEachLimitOnceAMinute() {
        let (log, clock) = (KeptLog(), HandClock())
        let actionCable = Self.actionCable(log: log, clock: clock)
        let line = "warning A cable subscription was rejected: A connection has 4 subscriptions to one stream"
        for number in 1...100 { _ = actionCable.subscribe(Self.variant(number)) }
        #expect(log.count(line) == 1)
        clock.advance(milliseconds: 59_999)
        _ = actionCable.subscribe(Self.variant(101))
        #expect(log.count(line) == 1)
        clock.advance(milliseconds: 1)
        for number in 1...100 { _ = actionCable.subscribe(Self.variant(number)) }
        #expect(log.count(line) == 2)
        _ = actionCable.subscribe(Self.variant(1, bytes: 4_097))
        #expect(log.count("warning A cable subscription was rejected: An identifier has more than 4096 bytes.") == 1)
    }

    @Test func theLogSaysThatANameDidNotVerifyAndWhichSettingToLookAt() throws {
        let (log, clock) = (KeptLog(), HandClock())
        let signed = CableFixture.turbo("notifications:17")
        let line = "warning A signed stream name did not verify: it is forged, or "
        let keys = [SignedStreamName.Key("other".utf8), try SignedStreamName.Key(secretKeyBase: "other")]
        for (key, setting) in zip(keys, ["cable.signed_stream_key", "cable.secret_key_base"]) {
            let actionCable = Self.actionCable(key: key, log: log, clock: clock)
            for _ in 0..<10 { _ = actionCable.subscribe(signed) }
            #expect(log.count("\(line)\(setting) isn't the key with which the Rails application signs.") == 1)
        }
        let keyless = Self.actionCable(key: nil, log: log, clock: clock)
        _ = keyless.subscribe(signed)
        #expect(log.count("warning A page subscribed to a signed stream, and no key is set to verify its name") == 1)
        let right = KeptLog()
        _ = Self.actionCable(log: right, clock: clock).subscribe(signed)
        #expect(right.count("warning") == 0)
    }

    @Test(
        "says why it ends, and whether to come back",
        arguments: [
            (StreamEnd.expired, false, "unauthorized", false), (.expired, true, "unauthorized", true),
            (.revoked, true, "unauthorized", false), (.restarting, false, "server_restart", true),
            (.lifetime, false, "server_restart", true),
            (.remote(mayReturn: true), false, "remote", true), (.remote(mayReturn: false), true, "remote", false),
        ])
    func ends(_ reason: StreamEnd, _ cookie: Bool, _ text: String, _ reconnect: Bool) {
        let actionCable = Self.actionCable(
            CableUser(user: UserKey(app: "shop", userID: "17"), life: Self.cableUser.life, tokenCameInCookie: cookie))
        #expect(
            actionCable.end(reason) == [
                Self.say("{\"type\":\"disconnect\",\"reason\":\"\(text)\",\"reconnect\":\(reconnect)}"), .close(.normal),
            ])
        #expect(actionCable.end(reason) == [])
    }

    @Test func justClosesWhenItCanNotKeepUp() {
        let actionCable = Self.actionCable()
        #expect(actionCable.end(.overloaded) == [.close(.tryAgainLater)])
    }

    @Test func carriesABadgeAsTheStringThatRailsBroadcasts() throws {
        let message = StreamMessage(event: "badge", id: 7, data: TurboStream.badge(3))
        let text = CableText.message(
            0, of: EventBatch(.badgeTurbo, [message]), isExtended: false, identifier: Array("{\"a\":1}".utf8))
        #expect(
            String(decoding: text, as: UTF8.self)
                == #"{"identifier":"{\"a\":1}","message":"\u003cturbo-stream action=\"update\" target=\"notification-badge-count\"\u003e\u003ctemplate\u003e3\u003c/template\u003e\u003c/turbo-stream\u003e"}"#
        )
        #expect(
            try JSONValue(parsing: text)["message"]
                == .string(
                    "<turbo-stream action=\"update\" target=\"notification-badge-count\"><template>3</template></turbo-stream>"))
    }

    @Test func carriesANotificationAsAnObject() {
        let message = StreamMessage(event: "notification.created", id: 17, data: Array("{\"title\":\"Hi\"}".utf8))
        #expect(
            String(
                decoding: CableText.message(
                    0, of: EventBatch(.notifications, [message]), isExtended: false, identifier: Array("x".utf8)), as: UTF8.self)
                == #"{"identifier":"x","message":{"event":"notification.created","id":"17","data":{"title":"Hi"}}}"#)
    }
}
