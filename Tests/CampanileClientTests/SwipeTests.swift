import Foundation
import TestSupport
import Testing

@testable import CampanileClient

@Suite("A swipe", .endsIfItHangs)
@MainActor
struct SwipeTests {
    private nonisolated static func swipe(_ number: Int) -> PushPayload { PushPayload(id: entryID(number), isReadBySwipe: true) }

    private nonisolated static func path(_ number: Int) -> String { "PATCH /notifications/\(entryID(number))" }

    private nonisolated static func answer(_ call: HTTPCall) -> HTTPAnswer {
        call.method == "PATCH" ? .notification : .badge(2, version: 50)
    }

    @Test("it isn't reading: nothing is sent, now or later, and the number stays")
    func notReading() async {
        let phone = Phone { call, _ in Self.answer(call) }
        phone.badge.apply(count: 3, version: 8)
        let answers = Locked(0)
        for push in [PushPayload(id: entryID(1)), PushPayload(isReadBySwipe: true)] {
            await phone.handler.responded(to: push, isDismissed: true) { answers.withLock { $0 += 1 } }
        }
        #expect(answers.withLock { $0 } == 2 && phone.transport.calls.isEmpty && phone.badge.count == 3)
        #expect(phone.dismissals.record.isEmpty)
    }

    @Test("where the alert's category says so it reads, and the number is the server's; then the system is answered")
    func reading() async {
        let phone = Phone { call, _ in Self.answer(call) }
        phone.badge.apply(count: 3, version: 8)
        let sent = Locked<[String]>([])
        await phone.handler.responded(to: Self.swipe(1), isDismissed: true) { [transport = phone.transport] in
            sent.withLock { $0 = transport.summary }
        }
        #expect(sent.withLock { $0 } == [Self.path(1), "GET /badge"])
        #expect(phone.transport.calls.first?.body == Data(#"{"read":true}"#.utf8))
        #expect(phone.badge.count == 2 && phone.icon.withLock { $0.last } == 2)
        #expect(phone.handler.willPresent(PushPayload(id: entryID(1))) == .nothing)
    }

    @Test("the system waits no longer than its patience, and the swipe is sent all the same")
    func impatient() async {
        let isAnswered = Watched(false)
        let phone = Phone(isPatient: false) { call, _ in
            await isAnswered.until { $0 }
            return Self.answer(call)
        }
        await phone.handler.responded(to: Self.swipe(1), isDismissed: true) { isAnswered.change { $0 = true } }
        #expect(phone.transport.summary == [Self.path(1), "GET /badge"])
    }

    @Test(
        "one without a network, or without a user token, is sent by a later launch's foreground, once, and before the number is asked for",
        arguments: [true, false])
    func owed(_ isSignedIn: Bool) async {
        let storage = ClientStorage.memory()
        let before = Phone(storage: storage, isSignedIn: isSignedIn)
        before.badge.apply(count: 3, version: 8)
        await before.handler.swiped(Self.swipe(1))
        #expect(before.badge.count == 3 && before.icon.withLock { $0 }.allSatisfy { $0 == 3 })
        #expect(before.failures.withLock { $0.map(\.kind) } == [isSignedIn ? .offline : .signedOut])
        #expect(before.handler.isDismissed(Self.swipe(1)) && !before.handler.isDismissed(Self.swipe(2)))
        let next = Phone(storage: storage) { call, _ in Self.answer(call) }
        await next.handler.cameToForeground()
        await next.handler.cameToForeground()
        #expect(next.transport.summary == [Self.path(1), "GET /badge", "GET /badge"])
        #expect(next.badge.count == 2)
    }

    @Test("one whose notification is gone is done, and the next one is sent")
    func gone() async {
        let isOffline = Locked(true)
        let phone = Phone { call, _ in
            if isOffline.withLock({ $0 }) { throw URLError(.notConnectedToInternet) }
            return call.url.path.hasSuffix(entryID(1)) ? .problem(404, "not_found") : Self.answer(call)
        }
        for number in 1...2 { await phone.handler.swiped(Self.swipe(number)) }
        isOffline.withLock { $0 = false }
        let before = phone.transport.calls.count
        for _ in 1...2 { await phone.handler.cameToForeground() }
        #expect(Array(phone.transport.summary.dropFirst(before)) == [Self.path(1), Self.path(2), "GET /badge", "GET /badge"])
    }

    @Test("one that waits is never sent as another user's, and after a sign-out none is taken")
    func anotherUser() async {
        let phone = Phone { call, number in
            if number == 1 { throw URLError(.notConnectedToInternet) }
            return Self.answer(call)
        }
        phone.signIn("alice")
        await phone.handler.swiped(Self.swipe(1))
        phone.badge.signedOut()
        await phone.handler.swiped(Self.swipe(2))
        phone.signIn("alice")
        await phone.handler.cameToForeground()
        #expect(phone.transport.summary == [Self.path(1), "GET /badge"])
    }

    @Test("many at once are each sent once, and the number is asked for after the last")
    func many() async {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let phone = Phone { call, number in
            if number == 1 { for await _ in gate { break } }
            return Self.answer(call)
        }
        let first = Task { await phone.handler.swiped(Self.swipe(1)) }
        await phone.transport.untilCalled()
        let others = (2...9).map { number in Task { await phone.handler.swiped(Self.swipe(number)) } }
        for _ in 0..<100 { await Task.yield() }
        open.yield()
        for task in others + [first] { await task.value }
        #expect(phone.transport.summary.sorted() == ["GET /badge"] + (1...9).map(Self.path))
        #expect(phone.transport.summary.last == "GET /badge")
    }

    @Test("a mark that can't be noted as settled is sent once, and not without end")
    func fullDisk() async {
        let memory = ClientStorage.memory()
        let isFull = Locked(false)
        let storage = ClientStorage(
            read: memory.read, write: { key, value in if !isFull.withLock({ $0 }) { memory.write(key, value) } },
            exclusively: memory.exclusively)
        let phone = Phone(storage: storage) { call, _ in
            isFull.withLock { $0 = true }
            return Self.answer(call)
        }
        await phone.handler.swiped(Self.swipe(1))
        #expect(phone.transport.summary == [Self.path(1), "GET /badge"])
    }
}
