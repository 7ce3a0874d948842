import CampanileCore
import Foundation
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// Random interleavings of every event of the badge table: whatever happens, the kept counts are a recount, the version
/// grows with every change and with nothing else, no push takes away what is unread, and in the end every phone shows the badge and
/// nothing that was handled. `make badge-walks` has 100,000 events.
@Suite struct BadgePropertyTests {
    private static let events = ProcessInfo.processInfo.environment["WALK_EVENTS"].flatMap { Int($0) } ?? 6_000
    private static let stepsOfWalk = 150

    @Test(
        "after any sequence of events the badge row is the recount, and the last answer for its version",
        arguments: TestedStore.allCases.flatMap { store in BadgePolicy.allCases.map { (store, $0) } },
        1...max(UInt64(events / (stepsOfWalk * BadgePolicy.allCases.count * TestedStore.allCases.count)), 1))
    func property(_ kind: (store: TestedStore, policy: BadgePolicy), _ seed: UInt64) async throws {
        var walk = try BadgeWalk(kind.policy, seed: seed, on: kind.store)
        for _ in 0..<Self.stepsOfWalk { try await walk.step() }
        try await walk.settle()
    }

    @Test("the property test notices a count that is off by one", arguments: TestedStore.allCases)
    func control(_ store: TestedStore) async throws {
        var walk = try BadgeWalk(.unread, seed: 1, on: store)
        for _ in 0..<20 { try await walk.step() }
        try await walk.fixture.store.write { transaction in
            let inbox = try transaction.inboxes.making(app: "default", userID: "alice").id
            var state = try transaction.inboxes.state(inbox)
            state.markedUnread(UUIDv7(high: .max, low: .max))
            try transaction.inboxes.store(state, inbox)
        }
        #expect(try walk.differences().count == 1)
        #expect(try BadgeAudit(walk.fixture.store).differences.count == 1)
    }

    @Test("the audit says one inbox where there is one", arguments: TestedStore.allCases)
    func summary(_ store: TestedStore) async throws {
        let fixture = try Fixture(on: store)
        #expect(try BadgeAudit(fixture.store).summary == "0 inboxes, 0 wrong.")
        for (user, summary) in [("alice", "1 inbox, 0 wrong."), ("bob", "2 inboxes, 0 wrong.")] {
            try await fixture.create(User(app: "default", userID: user))
            #expect(try BadgeAudit(fixture.store).summary == summary)
        }
    }
}

/// One walk: an inbox, three devices, a model of it beside, and phones that show what they were last told.
private struct BadgeWalk {
    struct Entry {
        let id: UUIDv7
        var isRead: Bool
    }

    let fixture: Fixture
    private let policy: BadgePolicy
    private var chance: SplitMix
    private var entries: [Entry] = []
    /// The model's own badge, counted from its definition.
    private var isArmed = false
    /// Imported ones that the number leaves out.
    private var leftOut: Int64 = 0
    private var imports = 0
    private var clearedID: UUIDv7?
    private var last: Badge = .none
    private var phones: [String: WalkedPhone] = [:]
    /// The last is an Android phone.
    private let devices: [Character] = ["a", "b", "c", "d"]
    /// Those that a user or the producer has done with.
    private var handled: Set<UUIDv7> = []
    /// The pushes that went where a notification was created, which the phones get at the next `send`.
    private var onTheirWay: [(message: PushMessage, unread: Set<UUIDv7>)] = []
    /// False while the providers keep their answers back.
    private let isAnswered = Watched(false)
    private let producer = Producer(keyID: APIKeyID(1), firstKeyID: APIKeyID(1), name: "tests", app: "default")

    init(_ policy: BadgePolicy, seed: UInt64, on store: TestedStore) throws {
        self.policy = policy
        // Every other walk sends where it creates, as a running server does.
        fixture = try Fixture(on: store, policy, claimsAtCreation: seed.isMultiple(of: 2))
        chance = SplitMix(state: seed &* 7_919)
        fixture.provider.answer { [isAnswered] _ in
            await isAnswered.until { $0 }
            return .accepted
        }
    }

    private var modelCount: Int64 {
        switch policy {
        case .unread: isArmed ? countable(policy) - leftOut : 0
        case .sinceOpened: countable(policy) - leftOut
        case .given: given.values.reduce(0) { $0 + $1.count }
        }
    }

    /// The number of each tenant's greatest sequence.
    private var given: [String: GivenBadge] = [:]
    private var sequence: Int64 = 0

    private func countable(_ policy: BadgePolicy) -> Int64 { Int64(countableEntries(policy).count) }

    private func countableEntries(_ policy: BadgePolicy) -> [Entry] {
        let unread = entries.filter { !$0.isRead }
        switch policy {
        case .unread: return unread
        case .sinceOpened: return unread.filter { entry in clearedID.map { entry.id > $0 } ?? true }
        case .given: return []
        }
    }

    mutating func step() async throws {
        fixture.clock.advance(milliseconds: Int64.random(in: 0...1_500, using: &chance))
        let device = devices.randomElement(using: &chance).flatMap { Bool.random(using: &chance) ? $0 : nil }
        switch Int.random(in: 0..<21, using: &chance) {
        case 0...2: try await create()
        case 3: try await setRead(true, device)
        case 4: try await setRead(false, device)
        case 5: try await delete(device)
        case 6: try await markAllRead(device)
        case 7: try await open(device)
        case 8: try await clear(device)
        case 9: try await look(device)
        case 10: try await register()
        case 11: try await bringIn()
        case 12: try await expire()
        case 13: try await withdraw()
        case 14: try await edit()
        case 15: try await reconcile()
        case 16: try await give()
        case 17: try await readElsewhere()
        default: try await send()
        }
        try check()
    }

    // MARK: Events

    private mutating func create() async throws {
        let id = try await fixture.create(push: Bool.random(using: &chance))
        entries.append(Entry(id: id, isRead: false))
        isArmed = true
        try await leave()
    }

    /// Waits until what was sent where it was created is on its way.
    private mutating func leave() async throws {
        let inFlight = try schedules().count { $0.isInFlight }
        await fixture.provider.untilSent(inFlight)
        let unread = unread
        onTheirWay += fixture.provider.messages.dropFirst(onTheirWay.count).map { ($0, unread) }
    }

    private var unread: Set<UUIDv7> { Set(entries.filter { !$0.isRead }.map(\.id)) }

    private func schedules() throws -> [DeviceSchedule] {
        try fixture.store.readBlocking { [fixture] connection in
            try connection.deviceTokens.devices(inbox: try fixture.alice.inbox(in: connection) ?? 0).map(\.schedule)
        }
    }

    /// Imports entries that are older than the newest or not, and shows that nobody's number changes.
    private mutating func bringIn() async throws {
        let before = modelCount
        var text = Fixture.header
        for _ in 0..<Int.random(in: 1...3, using: &chance) {
            imports += 1
            let at = fixture.time(-Int64.random(in: 0...20_000, using: &chance))
            text += Fixture.line("\(imports)", at: at, readAt: Int.random(in: 0..<3, using: &chance) == 0 ? at : nil)
        }
        let first = imports - text.split(separator: "\n").count + 2
        #expect(try await fixture.importNotifications(text)[.known] == 0)
        var stored: [(number: Int, id: UUIDv7, isRead: Bool)] = []
        try fixture.store.readBlocking { [fixture] reading in
            guard let inbox = try fixture.alice.inbox(in: reading) else { return }
            _ = try reading.notifications.page(NotificationFilter(limit: 10_000), inbox: inbox) { row in
                guard let number = Int(String(decoding: row.title, as: UTF8.self)), number >= first,
                    let id = UUIDv7(bytes: row.id)
                else { return }
                stored.append((number, id, row.readAt != nil))
            }
        }
        stored.sort { $0.number < $1.number }
        for (_, id, isRead) in stored { arrived(Entry(id: id, isRead: isRead)) }
        #expect(try fixture.badge().count == before && modelCount == before)
    }

    private mutating func arrived(_ entry: Entry) {
        defer { newest = max(newest ?? entry.id, entry.id) }
        guard !entry.isRead else { return entries.append(entry) }
        let shown = modelCount
        let isSeen = countable(.sinceOpened) == 0
        if countable(.unread) == 0 { isArmed = false }
        entries.append(entry)
        if isSeen, clearedID.map({ entry.id > $0 }) ?? true { clearedID = entry.id }
        leftOut += modelCount - shown
    }

    /// Removes what is too old or too many. The number counts the newest; it loses those of them that are gone, and counts no
    /// other instead.
    private mutating func expire() async throws {
        let counted = Set(countableEntries(policy).map(\.id).sorted().dropFirst(Int(leftOut)))
        let age = Bool.random(using: &chance) ? Int64.random(in: 1...60_000, using: &chance) : nil
        let most = Int.random(in: 1...20, using: &chance)
        let now = fixture.clock.now
        let kept = Set(entries.map(\.id).sorted().suffix(most)).filter { id in
            age.map { id.milliseconds >= now.milliseconds - $0 } ?? true
        }
        let gone = entries.filter { !kept.contains($0.id) }
        // Nothing is pushed for what retention removes.
        handled.subtract(gone.map(\.id))
        let outcome = try await InboxRetention(
            database: fixture.store, inboxes: fixture.inboxes, ageMilliseconds: age, perInbox: most, pause: .zero
        ).run(now: now)
        #expect(outcome.deleted == gone.count)
        newest = [newest, gone.map(\.id).max()].compactMap(\.self).max()
        entries.removeAll { !kept.contains($0.id) }
        leftOut = Int64(countableEntries(policy).count { !counted.contains($0.id) })
    }

    private mutating func setRead(_ isRead: Bool, _ device: Character?) async throws {
        guard let index = entries.indices.randomElement(using: &chance) else { return }
        _ = try await fixture.inboxes.setRead(
            isRead, entries[index].id, fixture.alice, device: device.map(Fixture.token))
        if entries[index].isRead, !isRead, policy != .given { isArmed = true }
        entries[index].isRead = isRead
        note([entries[index].id], isHandled: isRead, on: device)
    }

    /// The app on the device that acts takes away what is handled.
    private mutating func note(_ ids: [UUIDv7], isHandled: Bool = true, on device: Character?) {
        if isHandled { handled.formUnion(ids) } else { handled.subtract(ids) }
        if isHandled, let device { phones[Fixture.token(device)]?.takeAway(ids) }
    }

    private mutating func delete(_ device: Character?) async throws {
        guard let index = entries.indices.randomElement(using: &chance) else { return }
        try await fixture.inboxes.delete(entries[index].id, fixture.alice, device: device.map(Fixture.token))
        note([entries[index].id], on: device)
        newest = max(newest ?? entries[index].id, entries[index].id)
        entries.remove(at: index)
    }

    /// The next number of a tenant, or an older one that comes late; nil half of the times.
    private mutating func nextGiven() -> GivenBadge? {
        guard policy == .given, Bool.random(using: &chance) else { return nil }
        sequence += 1
        let late = Bool.random(using: &chance) ? Int64.random(in: 0...5, using: &chance) : 0
        let next = GivenBadge(
            count: Int64.random(in: 0...5, using: &chance), sequence: sequence - late,
            tenant: ["", "acme"].randomElement(using: &chance) ?? "")
        if given[next.tenant].map({ next.sequence > $0.sequence }) ?? true { given[next.tenant] = next }
        return next
    }

    private mutating func give() async throws {
        guard let next = nextGiven() else { return }
        _ = try await fixture.inboxes.give(next, to: "alice", app: "default")
    }

    /// Marks read what the app's own inbox says is read.
    private mutating func readElsewhere() async throws {
        let read = entries.indices.filter { _ in Int.random(in: 0..<4, using: &chance) == 0 }
        let unread = read.filter { !entries[$0].isRead }
        let ids = read.map { entries[$0].id }
        let (count, badge) = try await fixture.inboxes.markRead(.ids(ids), of: "alice", app: "default", given: nextGiven())
        for index in read { entries[index].isRead = true }
        note(unread.map { entries[$0].id }, on: nil)
        // Those left out of the number may be among what was read.
        leftOut = min(leftOut, countable(policy))
        #expect(count == unread.count && badge.count == modelCount)
    }

    private mutating func withdraw() async throws {
        guard let index = entries.indices.randomElement(using: &chance) else { return }
        try await fixture.inboxes.withdraw(entries[index].id, userID: "alice", by: producer)
        note([entries[index].id], on: nil)
        newest = max(newest ?? entries[index].id, entries[index].id)
        entries.remove(at: index)
    }

    private mutating func edit() async throws {
        guard let entry = entries.randomElement(using: &chance) else { return }
        _ = try await fixture.inboxes.edit(
            entry.id, userID: "alice", by: producer, isPushed: Bool.random(using: &chance)
        ) { $0.content }
    }

    /// A device asks which of those that it shows are handled, as the API does.
    private mutating func reconcile() async throws {
        guard let token = phones.keys.sorted().randomElement(using: &chance), let phone = phones[token] else { return }
        let shown = phone.shown.map(\.description).sorted()
        let (known, through) = try fixture.store.readBlocking { [fixture] reading in
            (
                try fixture.inboxes.handled(shown, fixture.alice, in: reading).compactMap { UUIDv7($0) },
                try fixture.inboxes.owedThrough(fixture.alice, device: token, in: reading)
            )
        }
        let badge = try await fixture.inboxes.acknowledge(
            .reconcile(handled: known, through: through), fixture.alice, device: token)
        phones[token]?.takeAway(known)
        phones[token]?.show(badge.count)
        #expect(phone.shown.intersection(handled).isSubset(of: known))
    }

    /// Clearing counts from the newest id there ever was, also when it was deleted since.
    private var newest: UUIDv7?

    private mutating func cleared(_ badge: Badge?, _ device: Character?) {
        if policy != .given {
            isArmed = false
            leftOut = 0
            clearedID = [newest, entries.map(\.id).max()].compactMap(\.self).max()
        }
        if let device, let badge { phones[Fixture.token(device)]?.show(badge.count) }
    }

    private mutating func markAllRead(_ device: Character?) async throws {
        let upTo = Bool.random(using: &chance) ? nil : entries.randomElement(using: &chance)?.id
        let (_, badge) = try await fixture.inboxes.markAllRead(
            upTo: upTo, fixture.alice, device: device.map(Fixture.token))
        let marked = entries.indices.filter { index in upTo.map { entries[index].id <= $0 } ?? true }
        for index in marked { entries[index].isRead = true }
        note(marked.map { entries[$0].id }, on: device)
        cleared(badge, device)
        #expect(badge.count == (policy == .given ? modelCount : 0))
    }

    private mutating func open(_ device: Character?) async throws {
        let before = try fixture.badge()
        guard let badge = try await fixture.open(device: device) else {
            // Nothing is written only when there was nothing to clear and nobody to tell.
            #expect(before.count == 0 || policy == .given)
            return
        }
        cleared(badge, device)
        #expect(badge.count == (policy == .given ? modelCount : 0))
    }

    private mutating func clear(_ device: Character?) async throws {
        guard policy != .given else {
            do {
                _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
                Issue.record("a number that is given was cleared")
            } catch let refusal as ClientError {
                #expect(refusal.code == .badgeIsGiven)
            }
            return
        }
        let badge = try await fixture.inboxes.clear(fixture.alice, device: device.map(Fixture.token))
        cleared(badge, device)
        #expect(badge.count == 0)
    }

    private mutating func look(_ device: Character?) async throws {
        guard let device, phones[Fixture.token(device)] != nil else { return }
        let badge = try await fixture.inboxes.acknowledge(.glance, fixture.alice, device: Fixture.token(device))
        phones[Fixture.token(device)]?.show(badge.count)
    }

    private mutating func register() async throws {
        guard let device = devices.randomElement(using: &chance) else { return }
        let platform = device == devices.last ? DevicePlatform.android : .ios
        try await fixture.register(device, platform: platform)
        if phones[Fixture.token(device)] == nil { phones[Fixture.token(device)] = WalkedPhone(platform) }
    }

    private mutating func send() async throws {
        for (message, unread) in onTheirWay { arrive(message, unread: unread.intersection(self.unread)) }
        isAnswered.change { $0 = true }
        try await fixture.deliveryWorker.sendDue()
        isAnswered.change { $0 = false }
        for message in fixture.provider.forget().dropFirst(onTheirWay.count) { arrive(message, unread: unread) }
        onTheirWay = []
    }

    /// - Parameter unread: what is unread, and was when the push was made.
    private mutating func arrive(_ message: PushMessage, unread: Set<UUIDv7>) {
        let mistakes = phones[message.device.token]?.receive(message, unread: unread)
        #expect(mistakes == [])
    }

    // MARK: Checks

    /// Returns what an audit finds, on a connection that is there: an audit makes two, and after each step that would be most of
    /// the work.
    func differences() throws -> [BadgeAudit.Difference] {
        try fixture.store.snapshotBlocking { reading in
            let inboxes = try reading.inboxes.ids(after: InboxID(0), limit: Limits.auditedInboxes)
            return try inboxes.compactMap { try BadgeAudit.Difference(of: $0, in: reading) }
        }
    }

    private mutating func check() throws {
        leftOut = min(leftOut, countable(policy))
        let badge = try fixture.badge()
        #expect(try differences().isEmpty)
        #expect(badge.count == modelCount)
        #expect(badge.unreadCount == Int64(entries.filter { !$0.isRead }.count))
        if (badge.count, badge.unreadCount) == (last.count, last.unreadCount) {
            #expect(badge.version == last.version, "the version grew without a change")
        } else {
            #expect(badge.version > last.version && badge.version >= fixture.clock.now.milliseconds)
        }
        last = badge
    }

    /// When all is quiet, every phone that was ever pushed to shows the badge.
    mutating func settle() async throws {
        for _ in 0..<10 {
            fixture.clock.advance(milliseconds: Limits.readingPauseMilliseconds)
            try await send()
        }
        #expect(try BadgeAudit(fixture.store).isGood)
        let badge = try fixture.badge()
        for schedule in try schedules() where schedule.attempted {
            let token = try fixture.store.readBlocking { try $0.deviceTokens.device(schedule.id)?.target.token }
            // A device that acted by reading one entry knows the number itself and is not synced until the next event.
            if BadgePushes.told(schedule, now: fixture.clock.now) == badge.count {
                #expect(phones[token ?? ""]?.number == badge.count)
            }
            #expect(schedule.badgeDueAt == nil && schedule.dueAt == nil && !schedule.isInFlight)
        }
        for (token, phone) in phones {
            let left = phone.shown.intersection(handled)
            #expect(left.isEmpty, "\(token.prefix(1)), \(phone.platform), shows what was handled")
        }
    }
}
