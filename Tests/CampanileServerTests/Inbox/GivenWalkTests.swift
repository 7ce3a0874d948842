import CampanileCore
import Push
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

/// Random calls of two producers out of order, and what users do meanwhile, beside a model that keeps each tenant's greatest sequence.
/// `e2e/trust/given.py` does the same over HTTP, with kill -9.
@Suite("walks of a badge that producers give") struct GivenWalkTests {
    private static let tenants = ["", "acme", "globex"]

    @Test(
        "no answer, version or phone ends on anything but the sum of the greatest sequences' numbers",
        arguments: TestedStore.allCases, 1...4)
    func walk(_ kind: TestedStore, _ seed: UInt64) async throws {
        var random = SplitMix(state: seed &* 7_919)
        let fixture = try Fixture(on: kind, .given, claimsAtCreation: seed.isMultiple(of: 2))
        for letter in ["a", "b"] as [Character] { try await fixture.register(letter) }
        var model: [String: (count: Int64, sequence: Int64)] = [:]
        var sequence: Int64 = 0
        var version: Int64 = 0
        var waiting: [GivenBadge] = []
        for step in 0..<200 {
            sequence += 1
            waiting.append(
                GivenBadge(
                    count: Int64.random(in: 0...9, using: &random), sequence: sequence,
                    tenant: Self.tenants.randomElement(using: &random) ?? ""))
            let call = waiting.remove(at: Int.random(in: max(0, waiting.count - 5)..<waiting.count, using: &random))
            try await fixture.make(call, kind: Int.random(in: 0..<4, using: &random))
            if (model[call.tenant]?.sequence ?? .min) < call.sequence { model[call.tenant] = (call.count, call.sequence) }
            let badge = try fixture.badge()
            #expect(badge.count == model.values.reduce(0) { $0 + $1.count }, "step \(step)")
            #expect(badge.version >= version)
            version = badge.version
            try await fixture.disturb(Int.random(in: 0..<6, using: &random))
            #expect(try fixture.badge().count == badge.count, "step \(step)")
        }
        for _ in 0..<3 {
            fixture.clock.advance(seconds: 60)
            try await fixture.deliveryWorker.sendDue()
            try await lookUntil { try await fixture.deliveryWorker.isQuiet }
        }
        let count = try fixture.badge().count
        let told = try fixture.store.readBlocking { reading in
            try fixture.alice.inbox(in: reading).map { try reading.deviceTokens.devices(inbox: $0).map(\.schedule.toldCount) }
        }
        #expect(told == [count, count])
        #expect(try BadgeAudit(fixture.store).isGood)
    }
}

extension Fixture {
    /// Gives a number in one of the ways in which a producer can.
    fileprivate func make(_ given: GivenBadge, kind: Int) async throws {
        switch kind {
        case 0:
            var new = NewNotification(
                userIDs: ["alice"],
                content: NotificationContent(title: "Title", body: "", category: nil, deepLink: nil, data: nil),
                push: PushRequestOptions(push: true, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil),
                isForMany: false)
            new.badge = given
            _ = try await publisher.publish(new, app: "default")
        case 1:
            let newest = try store.readBlocking { reading in
                try alice.inbox(in: reading).flatMap { try reading.inboxes.state($0).newestID }
            }
            _ = try await inboxes.markRead(.ids(newest.map { [$0] } ?? []), of: "alice", app: "default", given: given)
        default: _ = try await inboxes.give(given, to: "alice", app: "default")
        }
    }

    /// Does what a user does, or what time does, none of which changes the number.
    fileprivate func disturb(_ kind: Int) async throws {
        switch kind {
        case 0: try await open(device: "a")
        case 1: _ = try await inboxes.markAllRead(upTo: nil, alice, device: Fixture.token("b"))
        case 2:
            clock.advance(seconds: 3)
            try await deliveryWorker.sendDue()
        case 3: try await create(push: false)
        default: break
        }
    }
}
