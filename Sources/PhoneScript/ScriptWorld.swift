import CampanileCore
import CampanileServer
import FoundationEssentials
import Logging
package import PushSimulator
import Synchronization

/// A server, the simulator of Apple and Google with its phones, and one clock for all, which only the script moves.
package final class ScriptWorld: Sendable {
    private struct Entry: Sendable {
        let card: ScriptStep.PhoneCard
        var token: String
        /// How often the app was installed.
        var installations = 1
    }

    private struct Names: Sendable {
        /// The phones in the order in which the script introduced them.
        var phones: [Entry] = []
        var places: [String: Int] = [:]
        var notifications: [String: (id: String, user: String)] = [:]
        var titles: [String: String] = [:]
        /// The ids of the notifications that were read, deleted or withdrawn.
        var handled: Set<String> = []
    }

    package let simulator: PushSimulator
    private let clock: ScriptClock
    private let app: App
    private let calls: ScriptCalls
    private let folder: String
    private let names = Mutex(Names())

    /// Made once: an RSA key takes long.
    private static let credentials = Result { try SimulatorCredentials.make() }

    /// - Parameter hasExtension: whether the app's settings say that all its alerts run the service extension.
    package init(rules: PhoneRules, seed: UInt64, hasExtension: Bool = false) async throws {
        clock = ScriptClock()
        let world = clock.world(seed: seed)
        folder = FileManager.default.temporaryDirectory.path + "/campanile-script-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var options = SimulatorOptions(world: clock.world(seed: seed &+ 1))
        options.credentials = [try Self.credentials.get()]
        options.isStrict = true
        options.phoneRules = rules
        simulator = try await PushSimulator.start(options)
        do {
            let configuration = try Self.configuration(simulator, folder, hasExtension: hasExtension)
            app = try await App(
                configuration: configuration, world: world, sink: LogSink(descriptor: -1, format: .json),
                logger: Logger(label: "script", factory: { _ in SwiftLogNoOpLogHandler() }))
            let operations = try OperatorCommands(configuration, world: world)
            defer { operations.close() }
            calls = ScriptCalls(
                port: app.port, configuration: configuration, world: world,
                producerKey: try operations.createKey(name: "script", app: AppName.standard))
        } catch {
            await simulator.shutDown()
            try? FileManager.default.removeItem(atPath: folder)
            throw error
        }
    }

    private static func configuration(
        _ simulator: PushSimulator, _ folder: String, hasExtension: Bool
    ) throws -> Configuration {
        let credentials = simulator.credentials
        let (key, account, authority) = (folder + "/key.p8", folder + "/account.json", folder + "/ca.pem")
        try credentials.p8PEM.write(toFile: key, atomically: true, encoding: .utf8)
        try simulator.serviceAccountJSON().write(toFile: account, atomically: true, encoding: .utf8)
        try simulator.caPEM.write(toFile: authority, atomically: true, encoding: .utf8)
        var configuration = Configuration()
        configuration.database = folder + "/campanile.sqlite"
        configuration.port = 0
        configuration.jwt.secret = Secret("a secret of a script's server, which ends with it")
        configuration.push.caFile = authority
        configuration.apps[AppName.standard] = Configuration.App(
            apns: Configuration.APNs(
                keyFile: key, keyID: credentials.keyID, teamID: credentials.teamID, topic: credentials.topic,
                url: URL(string: simulator.apnsURL())),
            fcm: Configuration.FCM(serviceAccountFile: account, url: URL(string: simulator.fcmURL)))
        configuration.apps[AppName.standard]?.mutableContent = hasExtension
        return configuration
    }

    package func stop() async {
        await app.stop()
        await simulator.shutDown()
        try? FileManager.default.removeItem(atPath: folder)
    }

    // MARK: - Steps

    /// Makes a step.
    /// - Parameter settles: whether it waits before that until nothing is owed.
    func perform(_ step: ScriptStep, settles: Bool = true) async throws {
        if settles { try await settle() }
        switch step {
        case .phone(let card): try await introduce(card)
        case .notify(let user, let name, let title, let key): try await notify(user, name, title, key)
        case .edit(let name, let title):
            guard let (id, user) = notification(name) else { return }
            try await calls.send(
                "PATCH", "/notifications/\(id)?user_id=\(user)", .object([.init("title", .string(title)), .init("push", true)]))
        case .withdraw(let name):
            guard let (id, user) = notification(name) else { return }
            try await calls.send("DELETE", "/notifications/\(id)?user_id=\(user)")
            names.withLock { _ = $0.handled.insert(id) }
        case .act(let actor, let action): try await act(actor, action)
        case .change(let phone, let change): entry(phone).map { simulator.change($0.token, change) }
        case .open(let phone): try await open(phone)
        case .reinstall(let phone): try await reinstall(phone)
        case .wait(let milliseconds): try await wait(milliseconds)
        case .show, .random: break
        }
        app.lookForPushes()
    }

    /// Waits until no push is due at the time of the clock, in flight or unsettled.
    package func settle() async throws {
        app.lookForPushes()
        while try await !app.isQuiet { try await Task.sleep(for: .milliseconds(1)) }
    }

    /// Moves the clock from one due push to the next, up to a time.
    private func wait(_ milliseconds: Int64) async throws {
        let end = clock.now.milliseconds + milliseconds
        while let next = try await app.nextPushAt(), next.milliseconds <= end {
            clock.advance(milliseconds: max(next.milliseconds - clock.now.milliseconds, 1))
            try await settle()
        }
        clock.advance(milliseconds: max(end - clock.now.milliseconds, 0))
        try await settle()
    }

    private func entry(_ phone: String) -> Entry? { names.withLock { names in names.places[phone].map { names.phones[$0] } } }
    private func notification(_ name: String) -> (id: String, user: String)? { names.withLock { $0.notifications[name] } }

    private func introduce(_ card: ScriptStep.PhoneCard) async throws {
        let count = names.withLock { $0.phones.count }
        let token = Self.token(card.platform, count, installation: 1)
        names.withLock { names in
            names.places[card.name] = names.phones.count
            names.phones.append(Entry(card: card, token: token))
        }
        simulator.addDevice(token, platform: card.platform, app: nil)
        simulator.change(token, PhoneChange(hasExtension: card.hasExtension))
        try await register(card, token)
    }

    /// Tokens of iPhones are hexadecimal, and Firebase's begin with the installation's ID.
    private static func token(_ platform: PhonePlatform, _ number: Int, installation: Int) -> String {
        let text = String(number * 1_000 + installation, radix: 16)
        let padded = String(repeating: "0", count: 64 - text.count) + text
        return platform == .ios ? padded : "\(padded):script"
    }

    private func register(_ card: ScriptStep.PhoneCard, _ token: String) async throws {
        try await calls.send(
            "POST", "/device_tokens",
            .object([.init("token", .string(token)), .init("platform", .string(card.platform.rawValue))]), user: card.user)
    }

    private func notify(_ user: String, _ name: String, _ title: String, _ collapseKey: String?) async throws {
        var members: [JSONValue.Member] = [
            .init("user_id", .string(user)), .init("title", .string(title)), .init("external_id", .string(name)),
        ]
        if let collapseKey { members.append(.init("collapse_key", .string(collapseKey))) }
        let made = try await calls.send("POST", "/notifications", .object(members))
        guard case .string(let id)? = made.json["id"] else { throw Mistake("The server named no notification.") }
        names.withLock { names in
            names.notifications[name] = (id, user)
            names.titles[id] = name
        }
    }

    private func act(_ actor: ScriptStep.Actor, _ action: ScriptStep.Action) async throws {
        var (user, device): (String, String?)
        switch actor {
        case .phone(let name):
            // Without a network nothing is read.
            guard let entry = entry(name), simulator.device(entry.token)?.isOnline == true else { return }
            (user, device) = (entry.card.user, entry.token)
        case .page(let name): (user, device) = (name, nil)
        }
        func patch(_ name: String, _ isRead: Bool) async throws {
            guard let (id, _) = notification(name) else { return }
            try await calls.send(
                "PATCH", "/notifications/\(id)", .object([.init("read", .bool(isRead))]), user: user, device: device)
            names.withLock { names in
                if isRead { names.handled.insert(id) } else { names.handled.remove(id) }
            }
            if let device { try await showNumber(user, device, without: isRead ? [id] : []) }
        }
        switch action {
        case .read(let name): try await patch(name, true)
        case .unread(let name): try await patch(name, false)
        case .delete(let name):
            guard let (id, _) = notification(name) else { return }
            try await calls.send("DELETE", "/notifications/\(id)", user: user, device: device)
            names.withLock { _ = $0.handled.insert(id) }
            if let device { try await showNumber(user, device, without: [id]) }
        case .readAll:
            try await calls.send("POST", "/notifications/mark_all_read", user: user, device: device)
            names.withLock { names in names.handled.formUnion(names.notifications.values.filter { $0.user == user }.map(\.id)) }
            if let device { try await reconcile(user, device) }
        case .look:
            try await calls.send("GET", "/notifications", user: user, device: device, isNative: true)
            if let device { try await reconcile(user, device) }
        }
    }

    /// The app on which an entry was handled takes its alert away by itself, and asks for the number.
    private func showNumber(_ user: String, _ device: String, without handled: [String]) async throws {
        let answer = try await calls.send("GET", "/badge", user: user, device: device)
        guard case .integer(let count)? = answer.json["count"], case .integer(let version)? = answer.json["version"] else {
            throw Mistake("The server's number can't be read.")
        }
        simulator.reconcile(device, handled: handled, number: count, version: version)
    }

    private func open(_ name: String) async throws {
        guard let entry = entry(name) else { return }
        simulator.change(entry.token, PhoneChange(isInForeground: true))
        // Without a network the library asks when there is one again and the app is opened.
        guard simulator.device(entry.token)?.isOnline == true else { return }
        try await reconcile(entry.card.user, entry.token)
    }

    private func reconcile(_ user: String, _ token: String) async throws {
        let shown = simulator.device(token)?.notifications.compactMap { $0.alert.id?.description } ?? []
        let answer = try await calls.send(
            "POST", "/notifications/reconcile", .object([.init("ids", .array(shown.map { .string($0) }))]), user: user,
            device: token)
        guard case .array(let values)? = answer.json["handled"], case .integer(let count)? = answer.json["badge"]?["count"],
            case .integer(let version)? = answer.json["badge"]?["version"]
        else { throw Mistake("The server's reconciliation can't be read.") }
        let handled = values.compactMap { if case .string(let id) = $0 { id } else { nil } }
        simulator.reconcile(token, handled: handled, number: count, version: version)
    }

    private func reinstall(_ name: String) async throws {
        guard let entry = entry(name) else { return }
        let changed = names.withLock { names -> Entry? in
            guard let place = names.places[name] else { return nil }
            names.phones[place].installations += 1
            names.phones[place].token = Self.token(
                entry.card.platform, place, installation: names.phones[place].installations)
            return names.phones[place]
        }
        guard let changed else { return }
        simulator.reinstall(entry.token, as: changed.token)
        try await register(changed.card, changed.token)
    }

    // MARK: - What is shown

    /// The phones by their names, each with how many notifications it shows that were read, deleted or withdrawn.
    var stale: [(name: String, phone: Phone, count: Int)] {
        let (phones, handled) = names.withLock { ($0.phones, $0.handled) }
        return phones.compactMap { entry in
            guard let phone = simulator.device(entry.token) else { return nil }
            let count = phone.notifications.count { $0.alert.id.map { handled.contains($0.description) } ?? false }
            return (entry.card.name, phone, count)
        }
    }

    /// A line for each phone: its icon's number, and the names of the notifications that it shows.
    package var screens: [String] {
        let (phones, titles) = names.withLock { ($0.phones, $0.titles) }
        return phones.map { entry in
            let phone = simulator.device(entry.token)
            let shown = phone?.notifications.map { notification in
                let name = notification.alert.id.flatMap { titles[$0.description] } ?? notification.title
                let isPassive = notification.alert.interruptionLevel == "passive"
                return "\(name) “\(notification.title)”" + (isPassive ? " (passive)" : "")
            }
            let list = (shown ?? []).isEmpty ? "nothing" : shown?.joined(separator: ", ") ?? ""
            return "\(entry.card.name) (\(entry.card.platform.rawValue), \(entry.card.user)): \(phone?.badge ?? 0); \(list)"
        }
    }
}
