import CampanileCore
import Testing

@testable import CampanileServer

/// The words of a client about an app's own streams, in Rails' protocol and in AnyCable's.
@Suite("an app's own streams on the cable") struct OwnStreamTests {
    private typealias Base = ActionCableProtocolTests

    private static let messages = CableFixture.turbo("messages:7")
    private static let stream = CableStream.own(BroadcastStream(app: "default", name: "messages:7"))

    private static func listen(_ number: Int, from place: BroadcastPlace? = nil) -> ActionCableAction {
        .listen(number: number, stream, from: place, identifier: Array(messages.utf8))
    }

    private static func command(_ command: String, _ history: String) -> String {
        let identifier = String(decoding: JSONValue.string(messages).text, as: UTF8.self)
        return #"{"command":"\#(command)","identifier":\#(identifier),"history":\#(history)}"#
    }

    private static let confirmation = Base.about(messages, "confirm_subscription")
    private static let placed = ActionCableAction.confirm(Array(messages.utf8), "messages:7")
    private static let rejection = Base.about(messages, "reject_subscription")

    @Test("a signed name subscribes to the stream of the app whose key signed it, also without a user")
    func carries() {
        for cableUser in [CableFixture.ofDefault, nil] {
            let talk = Base.actionCable(cableUser, signedStreamsOnly: true)
            #expect(talk.subscribe(Self.messages) == [Self.listen(1), Self.confirmation])
            #expect(talk.unsubscribe(Self.messages) == [.stopListening(number: 1)])
        }
    }

    @Test("a user of another app is rejected")
    func otherApp() {
        #expect(Base.actionCable(Base.cableUser).subscribe(Self.messages) == [Self.rejection])
    }

    @Test("an app's own key signs its own streams, its users' badges, and nobody else's")
    func ownKey() throws {
        let log = KeptLog()
        let keys = [
            (signer: CableRules.Signer(name: "shop", isOfAll: false), key: CableFixture.key),
            (signer: CableRules.Signer(name: "default", isOfAll: true), key: SignedStreamName.Key("other".utf8)),
        ]
        func talk(_ pattern: String = "notifications:{user_id}") throws -> Base.Talk {
            let rules = CableRules(
                keys: keys, pattern: try StreamNamePattern(pattern), signedStreamsOnly: true,
                log: CableLog(log.logger) { Timestamp(milliseconds: 0) })
            return Base.Talk(ActionCableProtocol(rules: rules, cableUser: nil))
        }
        let own = BroadcastStream(app: "shop", name: "messages:7")
        #expect(
            try talk().subscribe(Self.messages).first
                == .listen(number: 1, .own(own), from: nil, identifier: Array(Self.messages.utf8)))
        let badge = CableFixture.turbo("notifications:42")
        #expect(try talk().subscribe(badge).first == Base.listen(1, .badgeTurbo, "shop", "42", badge))
        let foreign = CableFixture.turbo("elsewhere/42")
        #expect(try talk("{app}/{user_id}").subscribe(foreign) == [Base.about(foreign, "reject_subscription")])
    }

    @Test("a channel that only the app's code knows is rejected, and the log says what to do")
    func unknownChannel() {
        let log = KeptLog()
        let talk = Base.actionCable(CableFixture.ofDefault, log: log)
        let chat = #"{"channel":"ChatChannel"}"#
        for _ in 0..<3 { #expect(talk.subscribe(chat) == [Base.about(chat, "reject_subscription")]) }
        #expect(log.count("warning A page subscribed to a channel that needs the app's own code") == 1)
    }

    @Test("AnyCable's welcome names the connection, and a subscription begins where its client stands")
    func history() {
        let talk = Base.actionCable(CableFixture.ofDefault, sid: "s1")
        #expect(talk.open() == [Base.say(#"{"type":"welcome","sid":"s1"}"#)])
        let place = BroadcastPlace.after(BroadcastPosition(epoch: "e", offset: 42))
        let streams = #"{"since":1,"streams":{"messages:7":{"offset":42,"epoch":"e"},"x":{"offset":"1","epoch":"e"},"y":1}}"#
        #expect(talk.hear(Self.command("subscribe", streams)) == [Self.listen(1, from: place), Self.placed])
        // The place is another stream's, so the time counts, which holds for all streams.
        let other = #"{"since":1763685885,"streams":{"messages:8":{"offset":42,"epoch":"e"}}}"#
        #expect(
            talk.hear(Self.command("history", other)) == [
                .stopListening(number: 1), Self.listen(2, from: .since(Timestamp(milliseconds: 1_763_685_885_000))),
            ])
        #expect(talk.hear(#"{"command":"pong"}"#) == [])
    }

    @Test(
        "a history that says no place is none: a subscription begins with what comes",
        arguments: ["null", "{}", #"{"streams":{}}"#, #"{"streams":null,"since":null}"#])
    func noPlace(_ history: String) {
        let talk = Base.actionCable(CableFixture.ofDefault, sid: "s1")
        #expect(talk.hear(Self.command("subscribe", history)) == [Self.listen(1), Self.placed])
        #expect(talk.hear(Self.command("history", history)) == [])
    }

    @Test(
        "a history that can't be read is rejected, and the subscription begins with what comes",
        arguments: [
            "1", #"{"streams":1}"#, #"{"since":-1}"#, #"{"since":"1"}"#, #"{"since":9223372036854775807}"#,
            #"{"streams":{"messages:7":{"offset":1.5,"epoch":"e"}}}"#, #"{"streams":{"messages:7":{"offset":1}}}"#,
        ])
    func unreadable(_ history: String) {
        let talk = Base.actionCable(CableFixture.ofDefault, sid: "s1")
        let refused = Base.about(Self.messages, "reject_history")
        #expect(talk.hear(Self.command("subscribe", history)) == [Self.listen(1), Self.placed, refused])
        #expect(talk.hear(Self.command("history", history)) == [refused])
    }

    @Test("a repeated subscription is confirmed, and goes on as it was; one with a place begins there")
    func again() {
        for sid in [nil, "s1"] {
            let talk = Base.actionCable(CableFixture.ofDefault, sid: sid)
            _ = talk.subscribe(Self.messages)
            #expect(talk.subscribe(Self.messages) == [Self.confirmation])
        }
        let talk = Base.actionCable(CableFixture.ofDefault, sid: "s1")
        _ = talk.subscribe(Self.messages)
        let place = BroadcastPlace.after(BroadcastPosition(epoch: "e", offset: 42))
        let history = #"{"streams":{"messages:7":{"offset":42,"epoch":"e"}}}"#
        #expect(
            talk.hear(Self.command("subscribe", history)) == [
                .stopListening(number: 1), Self.listen(2, from: place), Self.placed,
            ])
    }

    @Test("a stream without a name is nobody's")
    func nameless() {
        let nameless = CableFixture.turbo("")
        #expect(Base.actionCable(CableFixture.ofDefault).subscribe(nameless) == [Base.about(nameless, "reject_subscription")])
    }

    @Test("the history of an inbox's stream is rejected, and that of a stream without a subscription gets no answer")
    func noHistory() {
        let talk = Base.actionCable(Base.cableUser, sid: "s1")
        _ = talk.subscribe(Base.notifications)
        let identifier = String(decoding: JSONValue.string(Base.notifications).text, as: UTF8.self)
        let history = #"{"command":"history","identifier":\#(identifier),"history":{"since":1}}"#
        #expect(talk.hear(history) == [Base.about(Base.notifications, "reject_history")])
        #expect(talk.hear(Self.command("history", #"{"since":1}"#)) == [])
    }

    @Test("in Rails' protocol there is no history")
    func plain() {
        let talk = Base.actionCable(CableFixture.ofDefault)
        #expect(talk.hear(Self.command("subscribe", #"{"since":1}"#)) == [Self.listen(1), Self.confirmation])
        #expect(talk.hear(Self.command("history", #"{"since":1}"#)) == [])
    }

    @Test("a broadcast's message goes as it was sent; in AnyCable's protocol with its place")
    func texts() {
        let broadcasts = [KeptBroadcast(offset: 5, stream: "messages:7", message: #"{"a":[1,2.0]}"#)]
        let batch = EventBatch(broadcasts, of: "messages:7", "e1")
        func text(_ isExtended: Bool) -> String {
            String(decoding: CableText.message(0, of: batch, isExtended: isExtended, identifier: Array("x".utf8)), as: UTF8.self)
        }
        #expect(text(false) == #"{"identifier":"x","message":{"a":[1,2.0]}}"#)
        #expect(text(true) == #"{"identifier":"x","message":{"a":[1,2.0]},"stream_id":"messages:7","epoch":"e1","offset":5}"#)
        let place = (stream: ExactText("messages:7"), position: BroadcastPosition(epoch: "e1", offset: 5))
        #expect(
            String(decoding: CableText.confirmation(Array("x".utf8), place), as: UTF8.self)
                == #"{"identifier":"x","type":"confirm_subscription","stream_id":"messages:7","epoch":"e1","offset":5}"#)
        for reply in [HistoryReply.confirmed, .rejected] {
            let bytes = CableText.message(0, of: EventBatch(reply), isExtended: true, identifier: Array("x".utf8))
            #expect(String(decoding: bytes, as: UTF8.self) == #"{"identifier":"x","type":"\#(reply.rawValue)"}"#)
        }
    }

    @Test(
        "an identifier of Rails' names a user by an id or a GlobalID",
        arguments: [
            (#"{"current_user":"gid://shop/User/17"}"#, "17"), (#"{"current_user":"Z2lkOi8vc2hvcC9Vc2VyLzE3"}"#, "17"),
            (#"{"current_user":"Z2lkOi8vc2hvcC9Vc2VyLzE3Pw"}"#, "17"), (#"{"user_id":17}"#, "17"),
            (#"{"user_id":"alice"}"#, "alice"),
            (#"{"tenant":"gid://shop/Tenant/3","current_user":"gid://shop/User/a%20b?x=1"}"#, "a b"), (#"{"whoever":"x"}"#, "x"),
            ("{}", nil), ("x", nil), (#"{"a":"1","b":"2"}"#, nil), (#"{"current_user":""}"#, nil),
            (#"{"current_user":null}"#, nil),
        ] as [(String, String?)])
    func identifiers(_ identifier: String, _ userID: String?) {
        #expect(CableDisconnect.userID(of: identifier) == userID)
    }
}
