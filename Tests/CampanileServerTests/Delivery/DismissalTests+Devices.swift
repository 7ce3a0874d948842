import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// The calls of a device itself: it asks for the handled ones, acts, and is told the number.
extension DismissalTests {
    @Test("a 0 to an iPhone whose app may have shown 0 before an alert came without a number names what the alert showed")
    func zeroAfterAlertWithoutNumber() async throws {
        let fixture = try Self.fixture()
        var ids = try await fixture.tell(1, to: "a")
        try await Self.read(ids[0], on: "a", fixture)
        ids.append(try await fixture.create())
        try await fixture.open()
        #expect(try await Self.sent(fixture, ids) == ["alert a 0", "badge a 0"])
        try await Self.read(ids[1], fixture)
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 1 takes 1"])
    }

    @Test(
        "a number that an answer told while another was in flight is unknown: what is read later is named, whatever the icon was")
    func toldInFlight() async throws {
        let fixture = try Self.fixture()
        var ids = try await fixture.tell(1, to: "a")
        fixture.provider.answer { [fixture] message in
            guard case .alert = message.kind else { return .accepted }
            fixture.clock.advance(milliseconds: 1)
            await #expect(throws: Never.self) { try await fixture.open(device: "a") }
            return .accepted
        }
        ids.append(try await fixture.create())
        // The 0 that follows the alert: nobody knows whether the alert's number came last, and so whether it empties the phone.
        #expect(try await Self.sent(fixture, ids) == ["alert a 2", "badge a 0"])
        fixture.provider.answer { _ in .accepted }
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 3"])
        try await Self.read(ids[1], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 2 takes 1"])
    }

    @Test("a device that reconciled, or became another user's, is told nothing more of it")
    func reconciled() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(3, to: "a", "b")
        try await Self.read(ids[0], fixture)
        let visit = Inboxes.Visit.reconcile(handled: [ids[0]], through: nil)
        let token = Fixture.token("a")
        #expect(
            try fixture.store.readBlocking { try fixture.inboxes.needsAcknowledging(visit, fixture.alice, device: token, in: $0) }
        )
        _ = try await fixture.inboxes.acknowledge(visit, fixture.alice, device: token)
        #expect(try await Self.sent(fixture, ids) == ["badge b 2 takes 0"])
        try await Self.read(ids[1], fixture)
        try await fixture.register("a", User(app: "default", userID: "bob"))
        #expect(try await Self.sent(fixture, ids) == ["badge a 0", "badge b 1 takes 1 0"])
    }

    @Test("a device whose app reads or deletes what is gone took it away by itself", arguments: [true, false])
    func actsOnGone(_ reads: Bool) async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(2, to: "a", "b")
        try await Self.withdraw(ids[0], fixture)
        let token = Fixture.token("a")
        await #expect(throws: ClientError.self) {
            // An app that would show it again hasn't taken it away.
            _ = try await fixture.inboxes.setRead(false, ids[0], fixture.alice, device: Fixture.token("b"))
        }
        await #expect(throws: ClientError.self) {
            if reads {
                _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: token)
            } else {
                try await fixture.inboxes.delete(ids[0], fixture.alice, device: token)
            }
        }
        #expect(try await Self.sent(fixture, ids) == ["badge a 1", "badge b 1 takes 0"])
    }

    @Test("a device that reads the last one empties its notification centre with the 0 that it is told")
    func readsTheLast() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(2, to: "a", "b")
        try await Self.read(ids[0], on: "b", fixture)
        try await Self.read(ids[1], on: "a", fixture)
        _ = try await fixture.inboxes.acknowledge(.glance, fixture.alice, device: Fixture.token("a"))
        #expect(try await Self.sent(fixture, ids) == ["badge b 0"])
    }

    @Test(
        "a device that named all that it shows is pushed nothing for what it doesn't, up to one; alerts to an iPhone name it still"
    )
    func reconciledThrough() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("d", platform: .android)
        var ids = try await fixture.tell(3, to: "a", "b")
        _ = try await fixture.inboxes.markAllRead(upTo: ids[1], fixture.alice, device: nil)
        // The number is no 0, which would empty the iPhones.
        try await fixture.create(push: false)
        for device in ["a", "d"] as [Character] {
            let token = Fixture.token(device)
            let through = try fixture.store.readBlocking {
                try fixture.inboxes.owedThrough(fixture.alice, device: token, in: $0)
            }
            #expect(through == ids[1])
            let visit = Inboxes.Visit.reconcile(handled: [], through: through)
            #expect(
                try fixture.store.readBlocking {
                    try fixture.inboxes.needsAcknowledging(visit, fixture.alice, device: token, in: $0)
                })
            _ = try await fixture.inboxes.acknowledge(visit, fixture.alice, device: token)
            #expect(
                try fixture.store.readBlocking { try fixture.inboxes.owedThrough(fixture.alice, device: token, in: $0) } == nil)
        }
        #expect(try await Self.sent(fixture, ids) == ["badge b 2 takes up to 1"])
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 3 takes up to 1", "alert b 3 takes up to 1", "alert d 3"])
    }

    @Test("what was marked read after a device named all that it shows stays owed to it")
    func reconciledEarlier() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(4, to: "a")
        _ = try await fixture.inboxes.markAllRead(upTo: ids[0], fixture.alice, device: nil)
        let visit = Inboxes.Visit.reconcile(handled: [], through: ids[0])
        _ = try await fixture.inboxes.markAllRead(upTo: ids[1], fixture.alice, device: nil)
        try await fixture.create(push: false)
        _ = try await fixture.inboxes.acknowledge(visit, fixture.alice, device: Fixture.token("a"))
        #expect(try await Self.sent(fixture, ids) == ["badge a 3 takes up to 1"])
    }

    @Test("a device that reads the number without reconciling is pushed what is to leave, and nothing for the number")
    func toldByAnswer() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(2, to: "a")
        try await Self.read(ids[0], fixture)
        _ = try await fixture.inboxes.acknowledge(.glance, fixture.alice, device: Fixture.token("a"))
        #expect(try await Self.sent(fixture, ids) == ["badge a 1 takes 0"])
        try await fixture.create(push: false)
        _ = try await fixture.inboxes.acknowledge(.glance, fixture.alice, device: Fixture.token("a"))
        #expect(try await Self.sent(fixture, ids) == [])
    }

    /// The acts of a device while the alert of a notification is on its way to it.
    enum Act: CaseIterable {
        case reads, deletes, marksAll, readsAfterAnother, reconcilesAfterMarkingAll, isToldZero
    }

    @Test(
        "what a device handles by itself, or has named, while its alert is on its way leaves it after the answer",
        arguments: Act.allCases)
    func actsInFlight(_ act: Act) async throws {
        let fixture = try Self.fixture()
        try await fixture.register("a")
        var ids = try await fixture.tell(1, to: "b")
        if act == .isToldZero { ids += try await fixture.tell(1, to: "a") }
        ids.append(try await fixture.create())
        let (last, token) = (ids[ids.count - 1], Fixture.token("a"))
        fixture.provider.answer { [fixture] message in
            guard case .alert = message.kind, message.device.token == token else { return .accepted }
            fixture.clock.advance(milliseconds: 1)
            await #expect(throws: Never.self) { try await Self.carryOut(act, last, fixture) }
            return .accepted
        }
        let sent = try await Self.sent(fixture, ids).filter { $0.contains(" a ") }
        #expect(sent.first?.hasPrefix("alert a") == true)
        fixture.provider.answer { _ in .accepted }
        let later = try await sent.dropFirst() + Self.sent(fixture, ids).filter { $0.contains(" a ") }
        #expect(
            later.contains { $0.hasSuffix("takes \(ids.count - 1)") || $0.hasSuffix("takes up to \(ids.count - 1)") }, "\(later)")
        #expect(try await Self.sent(fixture, ids) == [])
    }

    private static func carryOut(_ act: Act, _ id: UUIDv7, _ fixture: Fixture) async throws {
        let token = Fixture.token("a")
        switch act {
        case .reads: try await read(id, on: "a", fixture)
        case .deletes: try await fixture.inboxes.delete(id, fixture.alice, device: token)
        case .marksAll: _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: token)
        case .readsAfterAnother:
            try await read(id, on: "b", fixture)
            try await read(id, on: "a", fixture)
        case .reconcilesAfterMarkingAll:
            _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
            _ = try await fixture.inboxes.acknowledge(.reconcile(handled: [], through: id), fixture.alice, device: token)
        case .isToldZero:
            try await read(id, on: "b", fixture)
            _ = try await fixture.open(device: "a")
        }
    }

    @Test("what a device reads and marks unread again while its alert is on its way stays there")
    func staysInFlight() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        fixture.provider.answerNext { [fixture] _ in
            await #expect(throws: Never.self) {
                try await Self.read(id, on: "a", fixture)
                _ = try await fixture.inboxes.setRead(false, id, fixture.alice, device: Fixture.token("a"))
            }
            return .accepted
        }
        #expect(try await Self.sent(fixture, [id]) == ["alert a 1"])
        #expect(try await Self.sent(fixture, [id]) == ["badge a 1"], "its app may have shown another number since")
        #expect(try await Self.sent(fixture, [id]) == [])
    }
}
