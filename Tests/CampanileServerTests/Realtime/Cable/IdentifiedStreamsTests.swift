import CampanileCore
import Testing

@testable import CampanileServer

@Suite struct IdentifiedStreamsTests {
    private static func own(_ name: String) -> CableStream { .own(BroadcastStream(app: "shop", name: ExactText(name))) }

    @Test func connectionsThatSubscribeAlikeShareOne() {
        let streams = IdentifiedStreams()
        let first = streams.shared([1], Self.own("room"))
        #expect(streams.shared([1], Self.own("room")) === first)
        #expect(streams.shared([2], Self.own("room")) !== first)
        #expect(streams.shared([1], Self.own("other")).stream == Self.own("other"))
    }

    @Test func aUsersInboxIsNobodyElses() {
        let streams = IdentifiedStreams()
        let inbox = CableStream.inbox(.notifications, of: UserKey(app: "shop", userID: "alice"))
        #expect(streams.shared([1], inbox) !== streams.shared([1], inbox))
        #expect(streams.count == 0)
    }

    @Test func whatNobodyHasIsDropped() {
        let streams = IdentifiedStreams()
        let kept = streams.shared([], Self.own("kept"))
        for number in 0..<10_000 { _ = streams.shared(Array("\(number)".utf8), Self.own("\(number)")) }
        #expect(streams.count <= 256)
        #expect(streams.shared([], Self.own("kept")) === kept)
    }

    @Test func whatIsHeldIsNotDropped() {
        let streams = IdentifiedStreams()
        let held = (0..<1_000).map { streams.shared(Array("\($0)".utf8), Self.own("\($0)")) }
        #expect(held.indices.allSatisfy { streams.shared(Array("\($0)".utf8), Self.own("\($0)")) === held[$0] })
    }
}
