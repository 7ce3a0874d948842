import Foundation
import Testing

@testable import CampanileClient

@Suite("Calls, their failures and their repetition")
struct CallTests {
    @Test("a call names the user, the app and the device, and keeps the path of the base URL")
    func request() async throws {
        let transport = ScriptedTransport { _, _ in .badge(3, version: 9) }
        let api = CampanileAPI(
            baseURL: .example("https://example.com/push/"), userAgent: "Shop/2 Hotwire Native iOS", transport: transport,
            userToken: { _ in "jwt" })
        api.deviceToken = "00ff"
        #expect(try await api.badge() == Badge(count: 3, unreadCount: 3, version: 9, updatedAt: nil))
        let call = try #require(transport.calls.first)
        #expect(call.url.absoluteString == "https://example.com/push/badge")
        #expect(call.headers["Authorization"] == "Bearer jwt")
        #expect(call.headers["User-Agent"] == "Shop/2 Hotwire Native iOS")
        #expect(call.headers["X-Device-Token"] == "00ff")
    }

    @Test("a page is decoded with everything in it, and the next one is asked for with its cursor")
    func pages() async throws {
        let note = String(decoding: HTTPAnswer.notification.body, as: UTF8.self)
        let badge = #"{"count":0,"unread_count":1,"version":7,"updated_at":"2026-11-22T00:00:00.000Z"}"#
        let transport = ScriptedTransport { _, number in
            .json(#"{"notifications":[\#(note)],"next_cursor":\#(number == 1 ? "\"a b\"" : "null"),"badge":\#(badge)}"#)
        }
        var pages: [InboxPage] = []
        for try await page in CampanileAPI.scripted(transport).notifications(.unread, category: "A&B", pageSize: 20) {
            pages.append(page)
        }
        #expect(pages.count == 2)
        #expect(
            transport.calls.map { $0.url.query ?? "" } == [
                "category=A%26B&limit=20&status=unread", "category=A%26B&cursor=a%20b&limit=20&status=unread",
            ])
        let first = try #require(pages.first?.notifications.first)
        #expect(first.id == "n1" && first.deepLink == "home" && first.category == nil && first.data == ["k": 1])
        #expect(first.isRead && first.readAt?.timeIntervalSince(first.createdAt) == 1)
        #expect(pages[0].badge.version == 7)
    }

    @Test("a subtitle and an image are read; without them, from an older server, and of another kind, they are nil")
    func subtitleAndImage() throws {
        func notification(_ more: String) throws -> InboxNotification {
            let json = #"{"id":"n1","title":"T","body":"B","created_at":"2026-11-22T00:00:00.000Z"\#(more)}"#
            return try #require(JSONValue(data: Data(json.utf8)).flatMap(InboxNotification.init(json:)))
        }
        let full = try notification(#","subtitle":"S","image_url":"https://images.example.com/1.png""#)
        #expect(full.subtitle == "S" && full.imageURL == .example("https://images.example.com/1.png"))
        let created = full.createdAt
        #expect(
            full
                == InboxNotification(
                    id: "n1", title: "T", subtitle: "S", body: "B", imageURL: .example("https://images.example.com/1.png"),
                    createdAt: created))
        let empty = InboxNotification(id: "n1", title: "T", body: "B", createdAt: created)
        #expect(empty != full && empty.subtitle == nil && empty.imageURL == nil)
        let nothing = [
            "", #","subtitle":null,"image_url":null"#, #","subtitle":7,"image_url":{}"#,
            #","image_url":"http://images.example.com/1.png""#, #","image_url":"/1.png""#, #","image_url":"""#,
        ]
        for more in nothing { #expect(try notification(more) == empty, "\(more)") }
        let plain = URL.example("http://images.example.com/1.png")
        #expect(InboxNotification(id: "n1", title: "T", body: "B", imageURL: plain, createdAt: created) == empty)
    }

    @Test(
        "a producer's name and the time of its edit are read; without them, from an older server, and of another kind, they are nil"
    )
    func nameAndEdit() throws {
        func notification(_ more: String) throws -> InboxNotification {
            let json = #"{"id":"n1","title":"T","body":"B","created_at":"2026-11-22T00:00:00.000Z"\#(more)}"#
            return try #require(JSONValue(data: Data(json.utf8)).flatMap(InboxNotification.init(json:)))
        }
        let edited = try notification(#","external_id":"order-42","edited_at":"2026-11-22T00:01:00.000Z""#)
        #expect(edited.externalID == "order-42" && edited.editedAt?.timeIntervalSince(edited.createdAt) == 60)
        for more in ["", #","external_id":null,"edited_at":null"#, #","external_id":7,"edited_at":"today""#] {
            let one = try notification(more)
            #expect(one.externalID == nil && one.editedAt == nil, "\(more)")
        }
    }

    @Test("a notification that can't be read is left out, and its page comes all the same")
    func unreadableEntry() async throws {
        let note = String(decoding: HTTPAnswer.notification.body, as: UTF8.self)
        let badge = #"{"count":2,"unread_count":2,"version":7}"#
        let transport = ScriptedTransport { _, _ in
            .json(#"{"notifications":[{"id":"n0","title":7},\#(note)],"next_cursor":"c","badge":\#(badge)}"#)
        }
        let page = try await CampanileAPI.scripted(transport).page()
        #expect(page.notifications.map(\.id) == ["n1"])
        #expect(page.nextCursor == "c" && page.badge.count == 2)
    }

    @Test("a page that failed is asked for again by the next call of the same iterator")
    func pageAgain() async throws {
        let transport = ScriptedTransport { _, number in
            if number == 1 { throw URLError(.timedOut) }
            return .json(#"{"notifications":[],"next_cursor":null,"badge":{"count":0,"unread_count":0,"version":0}}"#)
        }
        var pages = CampanileAPI.scripted(transport).notifications().makeAsyncIterator()
        await #expect(throws: ClientFailure.self) { try await pages.next() }
        #expect(try await pages.next()?.notifications == [])
        #expect(try await pages.next() == nil)
    }

    // MARK: Repetition

    @Test(
        "what the network or the server couldn't is tried again, each wait twice as long, and then thrown",
        arguments: [
            URLError.Code.timedOut, .networkConnectionLost, .notConnectedToInternet, .cannotFindHost,
        ])
    func repetition(_ code: URLError.Code) async {
        let transport = ScriptedTransport { _, _ in throw URLError(code) }
        let waits = Waits()
        let failure = await #expect(throws: ClientFailure.self) {
            try await CampanileAPI.scripted(transport, retry: waits.policy(attempts: 4)).badge()
        }
        #expect(failure?.offersRetry == true)
        #expect(transport.calls.count == 4)
        #expect(waits.all == [.milliseconds(500), .seconds(1), .seconds(2)])
    }

    @Test("chance takes up to half of a wait away, and no wait is longer than the longest")
    func jitter() {
        let whole = RetryPolicy(longestDelay: .seconds(5), random: { 0 })
        let half = RetryPolicy(longestDelay: .seconds(5), random: { 1 })
        #expect((1...6).map { whole.delay(after: $0) } == [0.5, 1, 2, 4, 5, 5].map { .seconds($0) })
        #expect((1...6).map { half.delay(after: $0) } == [0.25, 0.5, 1, 2, 2.5, 2.5].map { .seconds($0) })
        #expect(whole.delay(after: 1, atLeast: .seconds(3)) == .seconds(3))
        #expect(whole.delay(after: 5, atLeast: .seconds(3)) == .seconds(5))
        #expect(whole.delay(after: .max) == .seconds(5))
    }

    @Test("chance adds up to half to what the server asks for, so that its clients don't all come back in one instant")
    func spread() {
        let delays = [0, 0.5, 1].map { chance in RetryPolicy(random: { chance }).delay(after: 1, atLeast: .seconds(2)) }
        #expect(delays == [.seconds(2), .seconds(2.5), .seconds(3)])
        var chance = SplitMix(state: 3)
        for tries in 1...8 {
            for _ in 0..<100 {
                let random = Double.random(in: 0..<1, using: &chance)
                #expect(RetryPolicy(random: { random }).delay(after: tries, atLeast: .seconds(2)) >= .seconds(2))
            }
        }
    }

    @Test("a server that asks for time gets it; one that asks for more than a person waits ends the tries")
    func retryAfter() async throws {
        let waits = Waits()
        let patient = ScriptedTransport { _, number in
            number == 1 ? .problem(503, "unavailable", headers: ["retry-after": "7"]) : .badge(1, version: 1)
        }
        #expect(try await CampanileAPI.scripted(patient, retry: waits.policy()).badge().count == 1)
        #expect(waits.all == [.seconds(7)])
        let closed = ScriptedTransport { _, _ in .problem(503, "unavailable", headers: ["retry-after": "3600"]) }
        let failure = await #expect(throws: ClientFailure.self) {
            try await CampanileAPI.scripted(closed, retry: waits.policy()).badge()
        }
        #expect(failure?.code == "unavailable" && failure?.retryAfter == .seconds(3_600) && closed.calls.count == 1)
    }

    @Test(
        "a server may name the moment instead, by its own clock",
        arguments: [
            "Sun, 22 Nov 2026 07:00:09 GMT", "Sunday, 22-Nov-26 07:00:09 GMT", "Sun Nov 22 07:00:09 2026",
        ])
    func retryAt(_ moment: String) async throws {
        let waits = Waits()
        let headers = ["retry-after": moment, "date": "Sun, 22 Nov 2026 07:00:00 GMT"]
        let transport = ScriptedTransport { _, number in
            number == 1 ? .problem(503, "unavailable", headers: headers) : .badge(1, version: 1)
        }
        _ = try await CampanileAPI.scripted(transport, retry: waits.policy()).badge()
        #expect(waits.all == [.seconds(9)])
    }

    @Test("the phone's clock counts where the server doesn't tell its own; a moment that is over asks for nothing more")
    func retryAtByThePhone() async throws {
        let moment = "Thu, 01 Jan 1970 00:01:40 GMT"
        for (now, wait) in [(95.0, Duration.seconds(5)), (200, .milliseconds(500))] {
            let waits = Waits()
            var policy = waits.policy()
            policy.now = { Date(timeIntervalSince1970: now) }
            let transport = ScriptedTransport { _, number in
                number == 1 ? .problem(503, "unavailable", headers: ["retry-after": moment]) : .badge(1, version: 1)
            }
            _ = try await CampanileAPI.scripted(transport, retry: policy).badge()
            #expect(waits.all == [wait])
        }
    }

    @Test("an answer that is too long isn't fetched again: it would be as long")
    func tooLong() async {
        let transport = ScriptedTransport { _, _ in throw URLError(.dataLengthExceedsMaximum) }
        let failure = await #expect(throws: ClientFailure.self) {
            try await CampanileAPI.scripted(transport, retry: Waits().policy()).page()
        }
        #expect(failure?.kind == .unreadable && transport.calls.count == 1)
    }

    @Test("what the server refuses isn't tried again", arguments: [400, 403, 404, 409, 422, 501])
    func refused(_ status: Int) async {
        let transport = ScriptedTransport { _, _ in .problem(status, "x") }
        let failure = await #expect(throws: ClientFailure.self) {
            try await CampanileAPI.scripted(transport, retry: Waits().policy()).badge()
        }
        #expect(failure?.status == status && failure?.detail == "Because.")
        #expect(transport.calls.count == 1)
    }

    @Test("what a proxy answers while no server is behind it is tried again", arguments: [404, 408, 502, 504, 521, 530])
    func proxys(_ status: Int) async throws {
        let transport = ScriptedTransport { _, number in
            number < 3 ? HTTPAnswer(status: status, body: Data("404 page not found".utf8)) : .badge(2, version: 2)
        }
        #expect(try await CampanileAPI.scripted(transport, retry: Waits().policy()).badge().count == 2)
    }

    @Test("nothing counts as deleted because a proxy answers 404 while no server is behind it")
    func proxysDeletion() async {
        let transport = ScriptedTransport { _, _ in HTTPAnswer(status: 404, body: Data("404 page not found".utf8)) }
        let api = CampanileAPI.scripted(transport, retry: Waits().policy(attempts: 1))
        for delete in [{ try await api.delete("n1") }, { try await api.deleteDevice("a/b") }]
            as [@Sendable () async throws -> Void]
        {
            let failure = await #expect(throws: ClientFailure.self) { try await delete() }
            #expect(failure?.kind == .unavailable)
        }
    }

    @Test("reading everything is repeated only if it says up to where")
    func readAll() async throws {
        for (newest, calls) in [(nil, 1), ("n1", 4)] as [(String?, Int)] {
            let transport = ScriptedTransport { _, _ in throw URLError(.timedOut) }
            let api = CampanileAPI.scripted(transport, retry: Waits().policy(attempts: 4))
            await #expect(throws: ClientFailure.self) { try await api.markAllRead(upTo: newest) }
            #expect(transport.calls.count == calls)
        }
    }

    @Test("clearing the badge isn't repeated: by then it would clear what nobody has seen")
    func clearing() async {
        let transport = ScriptedTransport { _, _ in throw URLError(.timedOut) }
        let api = CampanileAPI.scripted(transport, retry: Waits().policy(attempts: 4))
        await #expect(throws: ClientFailure.self) { try await api.clearBadge() }
        #expect(transport.summary == ["DELETE /badge"])
    }

    @Test("deleting what is gone is no failure")
    func gone() async throws {
        let api = CampanileAPI.scripted(ScriptedTransport { _, _ in .problem(404, "not_found") })
        try await api.delete("n1")
        try await api.deleteDevice("a/b")
    }

    // MARK: User tokens

    @Test("a refused token is replaced by a fresh one, once")
    func freshToken() async throws {
        let transport = ScriptedTransport { call, _ in
            call.headers["Authorization"] == "Bearer new" ? .badge(2, version: 2) : .problem(401, "unauthorized")
        }
        let asked = Locked<[String?]>([])
        let api = CampanileAPI.scripted(transport) { refused in
            asked.withLock { $0.append(refused) }
            return refused == nil ? "old" : "new"
        }
        #expect(try await api.badge().count == 2)
        #expect(asked.withLock { $0 } == [nil, "old"])
        let stubborn = CampanileAPI.scripted(ScriptedTransport { _, _ in .problem(401, "unauthorized") }) { _ in "old" }
        let failure = await #expect(throws: ClientFailure.self) { try await stubborn.badge() }
        #expect(failure?.kind == .signedOut && failure?.offersRetry == false)
    }

    @Test("without a user token nothing is sent")
    func signedOut() async {
        let transport = ScriptedTransport { _, _ in .badge(1, version: 1) }
        let failure = await #expect(throws: ClientFailure.self) {
            try await CampanileAPI.scripted(transport, token: { _ in nil }).badge()
        }
        #expect(failure?.kind == .signedOut && transport.calls.isEmpty)
    }

    @Test("a token that a page hands over late is waited for, a refused one is waited for to be replaced")
    func handed() async throws {
        let handed = HandedUserToken { _ in try await Task.sleep(for: .seconds(600)) }
        let first = Task { await handed.token(refused: nil) }
        await Task.yield()
        await handed.hand("one")
        #expect(await first.value == "one")
        #expect(await handed.token(refused: nil) == "one")
        let second = Task { await handed.token(refused: "one") }
        await Task.yield()
        await handed.hand("two")
        #expect(await second.value == "two")
        await handed.hand(nil)
        #expect(await handed.token(refused: nil) == nil)
    }

    @Test("whoever waits for a page's token in vain hears so when patience ends, and at once when cancelled")
    func impatient() async {
        #expect(await HandedUserToken { _ in }.token(refused: nil) == nil)
        let handed = HandedUserToken { _ in try await Task.sleep(for: .seconds(600)) }
        let task = Task { await handed.token(refused: nil) }
        task.cancel()
        #expect(await task.value == nil)
    }

    // MARK: What is called off

    @Test("what was called off is no failure, wherever it stands in the error")
    func cancelled() async {
        let suspended = NSError(domain: NSURLErrorDomain, code: -999)
        let wrapped = NSError(domain: "WebKit", code: 1, userInfo: [NSUnderlyingErrorKey: suspended])
        for error in [CancellationError(), URLError(.cancelled), suspended, wrapped] as [any Error] {
            #expect(ClientFailure(error) == nil)
            let transport = ScriptedTransport { _, _ in throw error }
            let waits = Waits()
            await #expect(throws: CancellationError.self) {
                try await CampanileAPI.scripted(transport, retry: waits.policy()).badge()
            }
            #expect(transport.calls.count == 1 && waits.all.isEmpty)
        }
    }

    @Test("a cancelled task sends nothing more")
    func cancelledTask() async {
        let transport = ScriptedTransport { _, _ in throw URLError(.timedOut) }
        let api = CampanileAPI.scripted(
            transport, retry: RetryPolicy(sleep: { _ in withUnsafeCurrentTask { $0?.cancel() } }, random: { 0 }))
        let task = Task { try await api.badge() }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(transport.calls.count == 1)
    }

    @Test(
        "every other failure has a sentence for the user, and says whether Retry helps",
        arguments: [
            (URLError.Code.notConnectedToInternet, ClientFailure.Kind.offline, true), (.timedOut, .unreachable, true),
            (.serverCertificateUntrusted, .insecure, true), (.badURL, .refused, false),
            (.dataLengthExceedsMaximum, .unreadable, true),
        ])
    func network(_ code: URLError.Code, _ kind: ClientFailure.Kind, _ offersRetry: Bool) throws {
        let failure = try #require(ClientFailure(URLError(code)))
        #expect(failure.kind == kind && failure.offersRetry == offersRetry)
        #expect(failure.message.hasSuffix(".") && failure.localizedDescription == failure.message)
        #expect(ClientFailure(NSError(domain: NSURLErrorDomain, code: code.rawValue))?.kind == kind)
    }

    @Test(
        "a page's status tells what failed; one that is fine is no failure",
        arguments: [
            (200, nil), (304, nil), (401, .signedOut), (403, .forbidden), (404, .notFound), (410, .notFound), (422, .refused),
            (429, .unavailable), (500, .unavailable), (503, .unavailable),
        ] as [(Int, ClientFailure.Kind?)])
    func status(_ status: Int, _ kind: ClientFailure.Kind?) { #expect(ClientFailure(status: status)?.kind == kind) }

    @Test(
        "an answer that isn't what the server says is told as that, and so is a redirection",
        arguments: [
            HTTPAnswer.json("<html>"), .json(#"{"count":"3"}"#), HTTPAnswer(status: 302), HTTPAnswer(status: 204),
        ])
    func unreadable(_ answer: HTTPAnswer) async {
        let failure = await #expect(throws: ClientFailure.self) {
            try await CampanileAPI.scripted(ScriptedTransport { _, _ in answer }).badge()
        }
        #expect(failure?.kind == .unreadable)
    }
}
