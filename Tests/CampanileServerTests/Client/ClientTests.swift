import CampanileClient
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import CampanileServer

/// CampanileClient against the server itself, through URLSession and a socket.
@Suite("An app against the server", .endsIfItHangs)
struct ClientTests {
    @Test("the pages of a list bring every notification once, the newest first, and the first one clears the badge")
    func pages() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let phone = try await server.phone()
            var ids: [String] = []
            for number in 1...25 { ids.append(try await server.notify("N\(number)", as: producer)) }
            #expect(try await phone.badge().count == 25)
            #expect(try await phone.page(pageSize: 1, isPrefetch: true).badge.count == 25)
            var seen: [String] = []
            var badges: [Int64] = []
            for try await page in phone.notifications(pageSize: 10) {
                seen += page.notifications.map(\.id)
                badges.append(page.badge.count)
            }
            #expect(seen == ids.reversed())
            #expect(badges == [0, 0, 0])
        }
    }

    @Test("reading one, un-reading it, reading all up to one and deleting are as the server has them")
    func reading() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let phone = try await server.phone()
            let ids = [
                try await server.notify("One", "/a", category: "NOTICE", as: producer),
                try await server.notify("Two", as: producer),
                try await server.notify("Three", as: producer),
            ]
            let read = try await phone.markRead(ids[0])
            #expect(read.isRead && read.deepLink == "/a" && read.category == "NOTICE" && read.title == "One")
            #expect(try await phone.notification(ids[0]) == read)
            #expect(try await phone.badge().count == 2)
            #expect(try await !phone.markRead(ids[0], false).isRead)
            #expect(try await phone.markAllRead(upTo: ids[1]).unreadCount == 1)
            #expect(try await phone.page(.unread).notifications.map(\.id) == [ids[2]])
            #expect(try await phone.page(.all, category: "NOTICE").notifications.map(\.id) == [ids[0]])
            try await phone.delete(ids[2])
            try await phone.delete(ids[2])
            #expect(try await phone.clearBadge().unreadCount == 0)
            let failure = await #expect(throws: ClientFailure.self) { try await phone.notification(ids[2]) }
            #expect(failure?.kind == .notFound && failure?.code == "not_found")
        }
    }

    @Test("a call with a token that has ended is made again with a fresh one")
    func tokens() async throws {
        try await withServer { server in
            let phone = try await server.phone(lifetime: 60)
            #expect(try await phone.badge().count == 0)
            server.clock.advance(seconds: 3_600)
            #expect(try await phone.badge().count == 0)
        }
    }

    @Test("a call whose token has ended isn't made again as the user who has signed in meanwhile")
    func userChange() async throws {
        try await withServer { server in
            try await server.notify("For Bob", to: "bob", as: try server.producer())
            let hers = try await server.token("alice", lifetime: 60)
            let his = try await server.token("bob", lifetime: 7_200)
            server.clock.advance(seconds: 3_600)
            let phone = CampanileAPI(
                baseURL: try await server.phone().baseURL, userAgent: "Example/1 Hotwire Native iOS",
                retry: RetryPolicy(sleep: { _ in await Task.yield() })
            ) { $0 == nil ? hers : his }
            await #expect(throws: CancellationError.self) { try await phone.clearBadge() }
            #expect(try await server.phone("bob").badge().count == 1)
        }
    }

    @Test(
        "an iPhone that Firebase delivers to is registered with Firebase's token, and its installation ID takes that one's place")
    func firebase() async throws {
        try await withServer { server in
            let phone = try await server.phone()
            let registration = DeviceRegistration(
                api: phone, storage: .memory(), provider: .fcm, environment: .production, appVersion: nil)
            try await registration.register("fGx:APA91b_-")
            let devices = try await server.client.get("/device_tokens", as: try await server.user())
            let text = String(decoding: devices.body, as: UTF8.self)
            #expect(text.contains("fGx:APA91b_-") && text.contains(#""provider":"fcm""#))
            let byID = DeviceRegistration(
                api: phone, storage: .memory(), provider: .fcm, kind: .fid, environment: .production, appVersion: nil)
            try await byID.register("fGx")
            let replaced = try await server.client.get("/device_tokens", as: try await server.user())
            let listed = String(decoding: replaced.body, as: UTF8.self)
            #expect(
                listed.contains(#""token":"fGx","platform":"ios","provider":"fcm","kind":"fid""#) && !listed.contains("APA91b_-"),
                "\(listed)")
            try await registration.register("fGx:APA91b_-")
            #expect(await registration.signOut(BadgeStore(storage: .memory())) == .unregistered)
            // One that the server doesn't find counts as deleted too: so that it was found under the escapes of its path.
            let left = try await server.client.get("/device_tokens", as: try await server.user())
            #expect(left.status == 200 && !String(decoding: left.body, as: UTF8.self).contains("APA91b_-"))
        }
    }

    @Test("a server that isn't there is a failure with Retry; a sign-out meanwhile says that pushes go on coming")
    func unreachable() async throws {
        let server = try await RunningServer()
        let phone = try await server.phone()
        let registration = DeviceRegistration(api: phone, storage: .memory(), environment: .production, appVersion: nil)
        try await registration.register(Data(repeating: 0xAB, count: 32))
        await server.stop()
        let failure = await #expect(throws: ClientFailure.self) { try await phone.badge() }
        #expect(failure?.kind == .unreachable && failure?.offersRetry == true)
        guard case .stillRegistered = await registration.signOut(BadgeStore(storage: .memory())) else {
            Issue.record("It isn't said.")
            return
        }
    }

    // MARK: Streams

    @Test("the number comes at once and after each change, also past a cut and a server that was started anew")
    func badges() async throws {
        let folder = TemporaryFolder()
        let first = try await RunningServer(folder: folder)
        let port = first.app.port
        let producer = try first.producer()
        let transport = FragileTransport()
        var badges = try await first.phone(transport: transport).badges().makeAsyncIterator()
        #expect(try await badges.next()?.count == 0)
        try await first.notify("One", as: producer)
        #expect(try await badges.next()?.count == 1)
        transport.cut()
        try await first.notify("Two", as: producer)
        transport.mend()
        #expect(try await badges.next()?.count == 2)
        await first.stop()
        let second = try await RunningServer(folder: folder) { $0.port = Int(port) }
        try await second.notify("Three", as: producer)
        var count = try await badges.next()?.count
        // The number from before the start may be told once more.
        while count == 2 { count = try await badges.next()?.count }
        #expect(count == 3)
        await second.stop()
    }

    @Test("after a cut every event that was missed comes, in order and once")
    func resume() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let transport = FragileTransport()
            let phone = try await server.phone(transport: transport)
            var events = phone.events().makeAsyncIterator()
            guard case .badge(let badge)? = try await events.next()?.change else {
                Issue.record("No badge came first.")
                return
            }
            #expect(badge.count == 0)
            var ids: [String] = []
            var told: [String] = []
            for round in 0..<5 {
                ids.append(try await server.notify("Before \(round)", as: producer))
                told.append(try await created(&events))
                transport.cut()
                for number in 0..<3 { ids.append(try await server.notify("Missed \(round).\(number)", as: producer)) }
                transport.mend()
                for _ in 0..<3 { told.append(try await created(&events)) }
            }
            #expect(told == ids)
            let resumed = transport.opened.dropFirst().compactMap { $0.headers["Last-Event-ID"] }
            #expect(resumed.count == transport.opened.count - 1 && transport.opened.count >= 6)
        }
    }

    /// The id of the next notification that is told, past the numbers between.
    private func created(_ events: inout EventSequence<CampanileClient.InboxEvent>.Iterator) async throws -> String {
        while let event = try await events.next() {
            switch event.change {
            case .created(let notification): return notification.id
            case .badge: continue
            default: Issue.record("\(event)")
            }
        }
        return ""
    }

    @Test("a launch that knows the newest event of the one before is told what it missed")
    func launch() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let phone = try await server.phone()
            var first = phone.events().makeAsyncIterator()
            _ = try await first.next()
            let known = try await server.notify("Known", as: producer)
            var newest = ""
            while let event = try await first.next() {
                newest = event.id
                if case .created(let notification) = event.change, notification.id == known { break }
            }
            let missed = try await server.notify("Missed", as: producer)
            _ = try await phone.markRead(missed)
            var second = phone.events(after: newest).makeAsyncIterator()
            var changes: [CampanileClient.InboxEvent.Change] = []
            while changes.count < 2 {
                guard let event = try await second.next() else { break }
                if case .badge = event.change { continue }
                changes.append(event.change)
            }
            guard case .created(let created) = changes[0], case .updated(let updated) = changes[1] else {
                Issue.record("\(changes)")
                return
            }
            #expect(created.id == missed && updated.id == missed && updated.isRead)
        }
    }

    @Test("a user whose token was refused for good ends the stream with a failure")
    func revoked() async throws {
        try await withServer { server in
            let phone = CampanileAPI(
                baseURL: try await server.phone().baseURL, userAgent: "Example/1 Hotwire Native iOS",
                retry: RetryPolicy(sleep: { _ in await Task.yield() })
            ) { _ in "no token" }
            var badges = phone.badges().makeAsyncIterator()
            let failure = await #expect(throws: ClientFailure.self) { try await badges.next() }
            #expect(failure?.kind == .signedOut)
            #expect(try await badges.next() == nil)
        }
    }

    // MARK: The app's own shape

    @Test("the tree of deep links that the server checks against is the one that the app routes by")
    func tree() async throws {
        let tree = DeepLinkTree([
            .init(
                "home", title: "Home", web: "/dashboard",
                children: [
                    .init("ranking", query: [.init("generation", .integer, isRequired: true)])
                ])
        ])
        try await withServer({ $0.deepLinks = tree }) { server in
            let phone = try await server.phone()
            #expect(try await phone.deepLinks() == tree)
        }
    }
}
