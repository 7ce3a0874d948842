import Foundation
import TestSupport
import Testing

@testable import CampanileClient

@Suite("What was read elsewhere leaves the phone")
@MainActor
struct DismissalTests {
    @Test("named notifications leave, by their payload's id and by their name, whatever the state of the app; no others do")
    func named() async {
        let push = dismissing(1, 2)
        func phone() -> Phone {
            let phone = Phone([3])
            phone.show(Phone.alert(entryID(1), under: "order-42"))
            phone.show(Phone.alert(nil, under: entryID(2)))
            phone.show(Phone.alert(nil))
            return phone
        }
        let (woken, open, service) = (phone(), phone(), phone())
        await woken.handler.received(push)
        _ = open.handler.willPresent(push)
        await open.handler.work?.value
        service.dismissals.hear(push)
        await service.dismissals.removeDismissed()
        for phone in [woken, open, service] { #expect(phone.shown.count == 2 && phone.shown.first == entryID(3)) }
    }

    @Test("with dismissedThrough everything as old leaves, and nothing newer, nor what isn't Campanile's")
    func through() async {
        let phone = Phone([1, 2, 3, 4])
        phone.show(Phone.alert("0"))
        await phone.handler.received(dismissing(through: 3))
        #expect(phone.shown == [entryID(4), "0"])
    }

    @Test("a dismissal sets no number, and never 0 for want of one: the icon stays as iOS has set it")
    func number() async throws {
        let phone = Phone([1])
        #expect(await phone.handler.received(dismissing(1)) == false)
        #expect(phone.shown.isEmpty && phone.badge.version == 0 && phone.icon.withLock { $0 }.isEmpty)
        #expect(await phone.handler.received(PushPayload(badge: 2, badgeVersion: 9, isAlert: false, dismissed: [entryID(1)])))
        #expect(phone.badge.count == 2 && phone.icon.withLock { $0.last } == 2)
    }

    @Test("what one process hears, the other knows: an alert whose entry was read before it came isn't presented")
    func late() async {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("campanile-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let app = Phone(storage: .files(in: folder))
        let service = Phone(storage: .files(in: folder))
        #expect(app.handler.willPresent(PushPayload(id: entryID(5))) == .banner)
        service.dismissals.hear(dismissing(5))
        await app.handler.received(dismissing(through: 3))
        for number in 1...6 {
            let isLate = [1, 2, 3, 5].contains(number)
            #expect(app.handler.willPresent(PushPayload(id: entryID(number))) == (isLate ? .nothing : .banner), "\(number)")
            #expect(service.dismissals.covers(PushPayload(id: entryID(number))) == isLate, "\(number)")
        }
        for other in [PushPayload(), PushPayload(id: "0")] { #expect(!app.handler.isDismissed(other)) }
    }

    @Test("an older dismissedThrough takes nothing back, and an alert may dismiss itself")
    func greatest() async {
        let phone = Phone()
        await phone.handler.received(dismissing(through: 5))
        await phone.handler.received(dismissing(through: 2))
        #expect(phone.handler.isDismissed(PushPayload(id: entryID(4))))
        #expect(phone.handler.willPresent(PushPayload(id: entryID(7), dismissedThrough: entryID(7))) == .nothing)
    }

    @Test("an alert that iOS showed though its entry was read leaves with the next push, and in the foreground without a network")
    func shownAfterwards() async {
        let phone = Phone()
        await phone.handler.received(dismissing(1))
        phone.show(Phone.alert(entryID(1)))
        #expect(phone.handler.willPresent(PushPayload(id: entryID(9), badge: 1, badgeVersion: 9)) == .banner)
        await phone.handler.work?.value
        #expect(phone.shown.isEmpty)
        phone.show(Phone.alert(entryID(1)))
        await phone.handler.cameToForeground()
        #expect(phone.shown.isEmpty && phone.failures.withLock { $0.map(\.kind) } == [.offline])
    }

    @Test("the ids that were dismissed last are kept, each once, and not all there ever were")
    func bounded() {
        let phone = Phone()
        for number in 1...DismissalRecord.kept + 1 { phone.dismissals.hear(dismissing(number, 2)) }
        let kept = phone.dismissals.record.ids
        #expect(kept.count == DismissalRecord.kept && Set(kept) == Set((2...DismissalRecord.kept + 1).map(entryID)))
    }

    @Test("another user's alert is shown even if it is older than what the former user has read")
    func anotherUser() async {
        let phone = Phone()
        phone.signIn("alice")
        await phone.handler.received(dismissing(through: 5))
        #expect(phone.handler.isDismissed(PushPayload(id: entryID(4))))
        phone.signIn("bob")
        #expect(!phone.handler.isDismissed(PushPayload(id: entryID(4))))
    }

    @Test("until the server has answered a new user, a push's dismissals may be the former user's, and don't count")
    func unconfirmed() async {
        let phone = Phone([1])
        phone.badge.signedIn("bob")
        await phone.handler.received(dismissing(1))
        #expect(phone.shown == [entryID(1)])
        phone.signIn("bob")
        await phone.handler.received(dismissing(1))
        #expect(phone.shown.isEmpty)
    }

    @Test(
        "a stored text that isn't a record counts as none",
        arguments: ["", "[]", #"{"session":7,"ids":["a"],"swiped":[]}"#, #"{"session":0,"ids":[7],"swiped":[]}"#])
    func garbage(_ text: String) {
        #expect(DismissalRecord(text: text, session: 0) == DismissalRecord(session: 0))
    }

    @Test("several tasks lose none of what is dismissed")
    func concurrent() async {
        let phone = Phone()
        await withTaskGroup(of: Void.self) { group in
            for first in 1...4 {
                let dismissals = Dismissals(BadgeStore(storage: phone.storage), nil)
                group.addTask { for number in stride(from: first, through: 80, by: 4) { dismissals.hear(dismissing(number)) } }
            }
        }
        #expect((1...80).allSatisfy { phone.handler.isDismissed(PushPayload(id: entryID($0))) })
    }
}

@Suite("What the server says was read elsewhere")
@MainActor
struct ReconciliationTests {
    @Test("a reconciliation asks about the ids from this device, and its answer has the handled ones and the number")
    func call() async throws {
        let phone = Phone { _, _ in .reconciled([entryID(2)], count: 4, version: 41) }
        phone.api.deviceToken = "00ff"
        let answer = try await phone.api.reconcile([entryID(1), entryID(2), entryID(1)])
        #expect(answer == Reconciled(handled: [entryID(2)], badge: Badge(count: 4, unreadCount: 5, version: 41, updatedAt: nil)))
        let call = try #require(phone.transport.calls.first)
        #expect(phone.transport.summary == ["POST /notifications/reconcile"] && call.headers["X-Device-Token"] == "00ff")
        #expect(call.body == Data(#"{"ids":["\#(entryID(1))","\#(entryID(2))"]}"#.utf8))
        let unreadable = Phone { _, _ in .badge(1, version: 1) }
        let failure = await #expect(throws: ClientFailure.self) { try await unreadable.api.reconcile([entryID(1)]) }
        #expect(failure?.kind == .unreadable)
    }

    @Test("more than 100 ids take several calls, and the last one's number counts")
    func many() async throws {
        let phone = Phone { _, number in .reconciled([entryID(number)], count: number, version: 40 + number) }
        let ids = (1...250).map(entryID)
        let answer = try await phone.api.reconcile(ids)
        #expect(answer.handled == [entryID(1), entryID(2), entryID(3)] && answer.badge.count == 3 && answer.badge.version == 43)
        let asked = try phone.transport.calls.map { call in
            try #require(JSONValue(data: call.body ?? Data())?["ids"]?.array).compactMap(\.string)
        }
        #expect(asked.map(\.count) == [100, 100, 50] && asked.flatMap(\.self) == ids)
    }

    @Test("in the foreground what is handled leaves the phone, and the number is the same answer's")
    func foreground() async {
        let phone = Phone([1]) { _, _ in .reconciled([entryID(1), "order-42"]) }
        phone.show(Phone.alert(nil, under: "order-42"))
        phone.show(Phone.alert(entryID(2), under: "order-43"))
        phone.badge.apply(count: 9, version: 30)
        await phone.handler.cameToForeground()
        #expect(phone.shown == ["order-42", "order-43"])
        #expect(phone.badge.count == 3 && phone.icon.withLock { $0.last } == 3)
        #expect(phone.transport.summary == ["POST /notifications/reconcile"])
        #expect(phone.transport.calls.first?.body == Data(#"{"ids":["\#(entryID(1))","\#(entryID(2))"]}"#.utf8))
        #expect(phone.handler.willPresent(PushPayload(id: entryID(1))) == .nothing)
    }

    @Test("a newer alert that took a handled one's place meanwhile stays")
    func replaced() async {
        let center = Locked<Locked<[ShownNotifications.Notification]>?>(nil)
        let phone = Phone { _, _ in
            center.withLock { $0 }?.withLock { $0 = [Phone.alert(entryID(2), under: "order-42")] }
            return .reconciled([entryID(1)])
        }
        center.withLock { $0 = phone.center }
        phone.show(Phone.alert(entryID(1), under: "order-42"))
        await phone.handler.cameToForeground()
        #expect(phone.shown == ["order-42"])
    }

    @Test("an older answer removes, and its number doesn't count")
    func older() async {
        let phone = Phone([1]) { _, _ in .reconciled([entryID(1)], count: 9, version: 20) }
        phone.badge.apply(count: 2, version: 30)
        await phone.handler.cameToForeground()
        #expect(phone.badge.count == 2 && phone.badge.version == 30 && phone.shown.isEmpty)
    }

    @Test("a phone that shows nothing of Campanile's asks for the number alone")
    func nothingShown() async {
        let phone = Phone { _, _ in .badge(4, version: 50) }
        phone.show(Phone.alert(nil, under: "order-42"))
        await phone.handler.cameToForeground()
        #expect(phone.transport.summary == ["GET /badge"] && phone.badge.count == 4)
    }

    @Test("an inbox that shows is cleared first, and what was read elsewhere leaves all the same")
    func inbox() async {
        let phone = Phone([1, 2]) { call, _ in
            call.method == "DELETE" ? .badge(0, version: 50) : .reconciled([entryID(2)], count: 0, version: 50)
        }
        phone.isShowingInbox = true
        await phone.handler.cameToForeground()
        #expect(phone.transport.summary == ["DELETE /badge", "POST /notifications/reconcile"])
        #expect(phone.badge.count == 0 && phone.shown == [entryID(1)])
    }

    @Test("a clearing that the server doesn't know of is repeated after a reconciliation too")
    func owedClearing() async {
        let phone = Phone([1]) { call, number in
            if number == 1 { throw URLError(.notConnectedToInternet) }
            return call.method == "DELETE" ? .badge(0, version: 31) : .reconciled([], count: 3, version: 30)
        }
        phone.badge.apply(count: 3, version: 30)
        await #expect(throws: ClientFailure.self) { try await phone.badge.clear(phone.api) }
        await phone.handler.cameToForeground()
        #expect(phone.transport.summary == ["DELETE /badge", "POST /notifications/reconcile", "DELETE /badge"])
        #expect(phone.badge.count == 0)
    }

    @Test("a server that doesn't know the call still tells the number; one that can't be reached isn't asked twice")
    func olderServer() async {
        let phone = Phone([1]) { call, _ in call.method == "POST" ? .problem(404, "not_found") : .badge(4, version: 50) }
        await phone.handler.cameToForeground()
        #expect(phone.transport.summary == ["POST /notifications/reconcile", "GET /badge"])
        #expect(phone.badge.count == 4 && phone.shown == [entryID(1)] && phone.icon.withLock { $0.last } == 4)
        let offline = Phone([1])
        offline.badge.apply(count: 3, version: 30)
        await offline.handler.cameToForeground()
        #expect(offline.transport.summary == ["POST /notifications/reconcile"])
        #expect(offline.badge.count == 3 && offline.shown == [entryID(1)])
    }

    @Test("an answer that comes after a change of user is neither the next user's number nor their dismissals")
    func userChanges() async {
        let badge = Locked<BadgeStore?>(nil)
        let phone = Phone([1]) { _, _ in
            badge.withLock { $0 }?.signedIn("bob")
            return .reconciled([entryID(1)], count: 9, version: 90)
        }
        badge.withLock { $0 = phone.badge }
        phone.signIn("alice")
        await phone.handler.cameToForeground()
        #expect(phone.badge.count == 0 && !phone.handler.isDismissed(PushPayload(id: entryID(1))))
    }

    @Test("while nobody is signed in nobody is asked")
    func nobody() async {
        let phone = Phone([1])
        phone.badge.signedOut()
        await phone.handler.cameToForeground()
        #expect(phone.transport.calls.isEmpty && phone.shown == [entryID(1)])
    }
}

extension JSONValue {
    fileprivate var array: [JSONValue]? {
        guard case .array(let values) = self else { return nil }
        return values
    }
}
