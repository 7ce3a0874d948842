import CampanileCore
import Foundation
import Testing

@testable import CampanileClient

/// The cases of clients/vectors, which Kotlin's tests and the web pieces' read too. `CAMPANILE_VECTORS` names another
/// folder.
@Suite("The cases of all clients")
struct VectorTests {
    // MARK: Deep links

    @MainActor
    private final class Pages: DeepLinkCoordinator {
        var addresses: [String] = []

        func prepareForDeepLink() {}
        func show(_ page: DeepLinkPage, animated: Bool) { addresses.append(page.address) }
    }

    private func router(_ vectors: JSONValue, _ tree: String = "shop") throws -> DeepLinkRouter<Pages> {
        let json = try #require(vectors["trees"]?[tree])
        return DeepLinkRouter(try #require(DeepLinkTree(json: json)), [])
    }

    @MainActor
    private func addresses(_ chain: DeepLinkChain<Pages>) -> JSONValue {
        let pages = Pages()
        chain.open(in: pages)
        return .array(pages.addresses.map { .string($0) })
    }

    @Test("deep links: chains, values, refusals, addresses and versions are those of clients/vectors")
    @MainActor
    func deepLinks() throws {
        let vectors = try Self.vectors("deep_links")
        for vector in try vectors.cases("links") {
            let router = try router(vectors, try vector.text("tree"))
            let link = try vector.text("link")
            let chain = try router.chain(link)
            #expect(addresses(chain) == vector["chain"], "\(vector.says): \(link)")
            try expectProblem(chain.problem, vector)
            try expectValues(router, link, vector)
        }
        for vector in try vectors.cases("refused") {
            let link = try vector.text("link")
            let router = try router(vectors)
            let error = #expect(throws: DeepLinkError.self, "\(link)") { try router.chain(link) }
            let because =
                switch error?.reason {
                case .malformed: "malformed"
                case .unknownSegment: "unknown_segment"
                default: "\(String(describing: error))"
                }
            #expect(vector["because"] == .string(because), "\(link)")
            #expect(error?.description.hasPrefix("The link ") == true && error?.description.hasSuffix(".") == true)
        }
        for vector in try vectors.cases("addresses") {
            try expectAddress(router(vectors), vector)
        }
        for vector in try vectors.cases("versions") {
            let match = try router(vectors).tree.resolve(DeepLink(try vector.text("link")))
            let isReached = match.unmetRequirement(of: vector["android"]?.string, on: .android) == nil
            #expect(vector["is_reached"] == .bool(isReached), "\(vector.says)")
        }
    }

    private func expectProblem(_ problem: DeepLinkError?, _ vector: JSONValue) throws {
        switch problem?.reason {
        case nil: #expect(vector["problem"] == nil, "\(vector.says)")
        case .unknownSegment(let segment, let below, _):
            #expect(vector["problem"]?["unknown_segment"] == .string(segment), "\(vector.says)")
            #expect(vector["problem"]?["below"] == .string(below), "\(vector.says)")
        case .query(let sentences):
            let key = try #require(vector["problem"]?["query"]?.string, "\(vector.says)")
            #expect(sentences.joined().unicodeScalars.contains(key.unicodeScalars), "\(vector.says)")
        default: Issue.record("\(vector.says): \(String(describing: problem))")
        }
    }

    /// The values of the chain's last screen.
    private func expectValues(_ router: DeepLinkRouter<Pages>, _ link: String, _ vector: JSONValue) throws {
        let parsed = try DeepLink(link)
        let reach = router.reach(of: parsed)
        if case .object(let parameters)? = vector["parameters"] {
            let values = try #require(reach.values(in: parsed, of: nil).last)
            #expect(values.parameters.count == parameters.count, "\(vector.says)")
            for member in parameters {
                #expect(try .string(values.parameter(member.key)) == member.value, "\(vector.says)")
            }
        }
        var expected: [ExactText: DeepLinkTree.Value] = [:]
        if case .object(let query)? = vector["query"] {
            for member in query {
                switch member.value {
                case .string(let text): expected[ExactText(member.key)] = .string(text)
                case .integer(let integer): expected[ExactText(member.key)] = .integer(integer)
                case .bool(let boolean): expected[ExactText(member.key)] = .boolean(boolean)
                default: Issue.record("\(vector.says): \(member)")
                }
            }
        }
        #expect(reach.query == expected, "\(vector.says)")
    }

    @MainActor
    private func expectAddress(_ router: DeepLinkRouter<Pages>, _ vector: JSONValue) throws {
        let text = try vector.text("address")
        let open = { try router.chain(.example(text), hosts: ["www.example.com"], schemes: ["shop"]) }
        if vector["chain"] == .null {
            let error = #expect(throws: DeepLinkError.self, "\(text)") { try open() }
            #expect(error?.reason == .foreign, "\(text)")
        } else {
            #expect(try addresses(open()) == vector["chain"], "\(text)")
        }
    }

    // MARK: Payloads

    @Test("payloads: what a push says is that of clients/vectors")
    func payloads() throws {
        let vectors = try Self.vectors("payloads")
        for vector in try vectors.cases("firebase") {
            var data: [String: String] = [:]
            if case .object(let members)? = vector["data"] { for member in members { data[member.key] = member.value.string } }
            let payload = PushPayload(
                data: data, hasNotification: vector["has_notification"] == .bool(true),
                notificationCount: vector["notification_count"]?.integer.map { Int($0) })
            #expect(Self.json(payload) == vector["payload"], "\(vector.says)")
        }
        for vector in try vectors.cases("apple") {
            let json = try #require(vector["user_info"])
            let userInfo = try #require(try JSONSerialization.jsonObject(with: Data(json.text)) as? [AnyHashable: Any])
            #expect(Self.json(PushPayload(userInfo: userInfo)) == vector["payload"], "\(vector.says)")
        }
    }

    private static func json(_ payload: PushPayload) -> JSONValue {
        func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
        func integer(_ integer: Int64?) -> JSONValue { integer.map { .integer($0) } ?? .null }
        return .object([
            .init("id", text(payload.id)), .init("deep_link", text(payload.deepLink)), .init("category", text(payload.category)),
            .init("badge", integer(payload.badge)), .init("badge_version", integer(payload.badgeVersion)),
            .init("is_alert", .bool(payload.isAlert)), .init("dismissed", .array(payload.dismissed.map { .string($0) })),
            .init("dismissed_through", text(payload.dismissedThrough)), .init("is_read_by_swipe", .bool(payload.isReadBySwipe)),
        ])
    }

    // MARK: Numbers

    @Test("numbers: which one counts is that of clients/vectors")
    func numbers() throws {
        for vector in try Self.vectors("numbers").cases("sequences") {
            var record = BadgeRecord()
            for (index, step) in try vector.cases("steps").enumerated() {
                let takes = try take(step, &record)
                #expect(step["takes"] == .bool(takes), "\(vector.says): step \(index + 1)")
                #expect(step["count"] == .integer(Int64(record.count)), "\(vector.says): step \(index + 1)")
            }
        }
    }

    private func take(_ step: JSONValue, _ record: inout BadgeRecord) throws -> Bool {
        if let push = step["push"] {
            let (badge, version) = (push["badge"]?.integer, push["version"]?.integer)
            return record.hear(PushPayload(badge: badge, badgeVersion: version, isAlert: push["is_alert"] != .bool(false)))
        }
        if let answer = step["answer"] {
            let count = try #require(answer["count"]?.integer)
            let version = try #require(answer["version"]?.integer)
            return record.answer(Badge(count: count, unreadCount: count, version: version, updatedAt: nil), in: record.session)
        }
        if let user = step["sign_in"]?.string { return record.change(owner: .user(user, server: nil)) }
        if step["sign_out"] != nil { return record.change(owner: .nobody) }
        if step["registered"] != nil { return record.register(in: record.session) }
        try #require(step["clear"] != nil, "\(step)")
        return record.clear()
    }

    // MARK: Streams

    @Test("stream events: texts and events say what they say in clients/vectors")
    func streamEvents() throws {
        let vectors = try Self.vectors("stream_events")
        for vector in try vectors.cases("texts") {
            let text = Data(try vector.text("text").utf8)
            for pieces in [[text], text.map { Data([$0]) }] {
                var parser = EventStreamParser()
                let events = try pieces.flatMap { try parser.feed($0) }
                let told = JSONValue.array(
                    events.map { event in
                        let data = JSONValue.string(String(decoding: event.data, as: UTF8.self))
                        return .object([.init("id", .string(event.id)), .init("name", .string(event.name)), .init("data", data)])
                    })
                #expect(told == vector["events"], "\(vector.says)")
                #expect(vector["last_event_id"] == .string(parser.lastEventID), "\(vector.says)")
                #expect(parser.retry == vector["retry"]?.integer.map { .milliseconds($0) }, "\(vector.says)")
            }
        }
        for vector in try vectors.cases("inbox") {
            let data = Data(try vector.text("data").utf8)
            let event = InboxEvent(ServerSentEvent(id: try vector.text("id"), name: try vector.text("name"), data: data))
            #expect(Self.json(event?.change) == vector["change"], "\(vector.says)")
            #expect(event == nil || event?.id == vector["id"]?.string, "\(vector.says)")
        }
    }

    private static func json(_ change: InboxEvent.Change?) -> JSONValue {
        func notification(_ kind: JSONValue, _ one: InboxNotification) -> JSONValue {
            .object([
                .init("kind", kind), .init("id", .string(one.id)), .init("title", .string(one.title)),
                .init("deep_link", one.deepLink.map { .string($0) } ?? .null), .init("is_read", .bool(one.isRead)),
            ])
        }
        switch change {
        case nil: return .null
        case .created(let one): return notification("created", one)
        case .updated(let one): return notification("updated", one)
        case .deleted(let id): return .object([.init("kind", "deleted"), .init("id", .string(id))])
        case .readAll(let newest): return .object([.init("kind", "read_all"), .init("up_to", .string(newest))])
        case .reset(let reason): return .object([.init("kind", "reset"), .init("reason", .string(reason))])
        case .badge(let badge):
            return .object([
                .init("kind", "badge"), .init("count", .integer(badge.count)), .init("unread_count", .integer(badge.unreadCount)),
                .init("version", .integer(badge.version)),
            ])
        }
    }

    // MARK: The files

    private static func vectors(_ name: String) throws -> JSONValue {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let root = tests.deletingLastPathComponent()
        let folder = ProcessInfo.processInfo.environment["CAMPANILE_VECTORS"].map { URL(fileURLWithPath: $0, isDirectory: true) }
        let file = (folder ?? root.appending(path: "clients/vectors")).appending(path: "\(name).json")
        return try JSONValue(parsing: Array(Data(contentsOf: file)))
    }
}

extension JSONValue {
    /// A vector's sentence.
    fileprivate var says: String { self["says"]?.string ?? "\(self)" }

    fileprivate func text(_ key: String) throws -> String { try #require(self[key]?.string) }

    /// A list with at least one entry.
    fileprivate func cases(_ key: String) throws -> [JSONValue] {
        guard case .array(let values)? = self[key], !values.isEmpty else { throw CocoaError(.fileReadCorruptFile) }
        return values
    }
}
