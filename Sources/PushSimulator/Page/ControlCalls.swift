import CampanileCore
import FoundationEssentials
import Synchronization

/// The calls of the plain HTTP port: docs/simulator.md lists them.
struct ControlCalls: Sendable {
    let core: SimulatorCore
    let changeCertificate: @Sendable (FaultAction.CertificateChange) -> Void

    func answer(_ request: PageRequest) -> PageAnswer {
        // A web site must not switch off its visitor's phones.
        guard request.method == "GET" || request.method == "HEAD" || !request.isForeign else {
            return .problem(403, "Another site's page may not do that.")
        }
        do {
            return try route(request)
        } catch let error as Mistake {
            return .problem(400, error.description)
        } catch let error as JSONSyntaxError {
            return .problem(400, error.description)
        } catch {
            return .problem(400, "The request can't be read.")
        }
    }

    private func route(_ request: PageRequest) throws -> PageAnswer {
        let isReading = request.method == "GET" || request.method == "HEAD"
        switch (request.path, request.method) {
        case ("/", _) where isReading:
            return .bytes(status: 200, type: "text/html; charset=utf-8", body: PageResources.page)
        case ("/events", "GET"): return .events
        case ("/devices", _) where isReading: return try devices(request)
        case ("/requests", _) where isReading: return try requests(request)
        case ("/counters", _) where isReading: return .json(core.counters().json)
        case ("/faults", _) where isReading: return .json(faults)
        case ("/faults", "POST"):
            core.setFaults(try FaultRule.list(try JSONValue(parsing: request.body)))
            return .json(faults)
        case ("/faults", "DELETE"):
            core.setFaults([])
            return .json(faults)
        case ("/certificate", "POST"): return try certificate(request)
        case ("/reset", "POST"):
            core.reset()
            return .json(core.counters().json)
        case ("/clock", "POST"): return try clock(request)
        case ("/phone_rules", _) where isReading: return .json(core.state.withLock { $0.phones.rules.json })
        case ("/phone_rules", "POST"): return try phoneRules(request)
        case ("/", _), ("/events", _), ("/devices", _), ("/requests", _), ("/counters", _), ("/faults", _),
            ("/certificate", _), ("/reset", _), ("/clock", _), ("/phone_rules", _):
            return .problem(405, "\(request.method) is not for \(request.path).")
        default: return try device(request, isReading: isReading)
        }
    }

    // MARK: - Phones

    private func devices(_ request: PageRequest) throws -> PageAnswer {
        let limit = try ControlCalls.limit(request, otherwise: .max)
        let phones = core.state.withLock { Array($0.phones.phones.values.prefix(limit)) }
        return .json(.object([.init("devices", .array(phones.map(\.json)))]))
    }

    private func device(_ request: PageRequest, isReading: Bool) throws -> PageAnswer {
        let prefix = "/devices/"
        guard request.path.hasPrefix(prefix),
            let token = PercentEncoding.decode(request.path.dropFirst(prefix.count)),
            !token.isEmpty, !token.contains("/")
        else { return .problem(404, "There is nothing at \(request.path).") }
        if isReading {
            guard let phone = core.state.withLock({ $0.phones[token] }) else {
                return .problem(404, "No such device token has been seen.")
            }
            return .json(phone.json)
        }
        guard request.method == "POST" else { return .problem(405, "\(request.method) is not for a device.") }
        return try change(token, try JSONValue(parsing: request.body))
    }

    private enum DeviceState: String, CaseIterable {
        case known
        case gone
    }

    /// A call of Firebase's SDK in the app.
    private enum AppCall: String, CaseIterable {
        case registerInstallationID = "register_installation_id"
        case getToken = "get_token"
    }

    /// Sets the given members, and makes the phone if there is none.
    private func change(_ token: String, _ json: JSONValue) throws -> PageAnswer {
        var object = try StrictObject(json, at: "device")
        let platform = try object.word("platform", PhonePlatform.self)
        let environment = try object.word("environment", SimulatedEnvironment.self)
        let app = try object.text("app")
        let byHand = PhoneChange(
            isOnline: try object.bool("online"), isStopped: try object.bool("stopped"),
            isInForeground: try object.bool("foreground"), hasExtension: try object.bool("extension"),
            isAsleep: try object.bool("asleep"))
        let newToken = try object.text("reinstalled_as")
        let life = try object.word("state", DeviceState.self)
        let since = try object.integer("gone_since_ms", in: 0...Int64.max)
        let call = try object.word("app_calls", AppCall.self)
        try object.finish()
        let phone = core.state.withLock { state in
            let now = core.now(state)
            state.phones.set(token, platform: platform, environment: environment, app: app)
            state.phones.change(token, now: now) { byHand.apply(to: &$0) }
            if let newToken { state.phones.reinstall(token, as: newToken, now: now) }
            switch life {
            case .known?: _ = state.phones.setGone(token, since: nil)
            case .gone?: _ = state.phones.setGone(token, since: since.map { Int64($0) } ?? now)
            case nil: break
            }
            switch call {
            case .registerInstallationID?: state.phones.registerInstallationID(token)
            case .getToken?: state.phones.callGetToken(token)
            case nil: break
            }
            return state.phones[newToken ?? token]
        }
        return phone.map { .json($0.json) } ?? .problem(404, "No such device token has been seen.")
    }

    // MARK: - The rest

    private func requests(_ request: PageRequest) throws -> PageAnswer {
        let limit = try ControlCalls.limit(request, otherwise: 100)
        let records = core.state.withLock { $0.log.newest(limit) }
        return .json(.object([.init("requests", .array(records.map(\.json)))]))
    }

    private var faults: JSONValue {
        let rules = core.state.withLock { $0.faults.rules }
        return .object([
            .init(
                "faults",
                .array(
                    rules.map { entry in
                        .object([
                            .init("action", .string(entry.rule.action.name)),
                            .init("happened", .integer(Int64(entry.happened))),
                        ])
                    }))
        ])
    }

    private func certificate(_ request: PageRequest) throws -> PageAnswer {
        var object = try StrictObject(try JSONValue(parsing: request.body), at: "certificate")
        guard let change = FaultAction.CertificateChange(rawValue: try object.text("change") ?? "leaf") else {
            throw Mistake("certificate.change must be leaf or other_ca.")
        }
        try object.finish()
        changeCertificate(change)
        return .json(.object([.init("change", .string(change.rawValue))]))
    }

    private func clock(_ request: PageRequest) throws -> PageAnswer {
        var object = try StrictObject(try JSONValue(parsing: request.body), at: "clock")
        let days: Int64 = 400 * 24 * 3_600 * 1_000
        guard let milliseconds = try object.integer("advance_ms", in: -days...days) else {
            throw Mistake("clock.advance_ms is missing.")
        }
        try object.finish()
        let now = core.state.withLock { state in
            state.clockOffset += Int64(milliseconds)
            return core.now(state)
        }
        return .json(.object([.init("now", .string(Timestamp(milliseconds: now).description))]))
    }

    /// Sets the given members.
    private func phoneRules(_ request: PageRequest) throws -> PageAnswer {
        var object = try StrictObject(try JSONValue(parsing: request.body), at: "phone_rules")
        let stored = try object.word("stored", PhoneRules.Stored.self)
        let budget = try object.text("background_budget")
        try object.finish()
        let rules = try core.state.withLock { state in
            state.phones.rules.stored = stored ?? state.phones.rules.stored
            if let budget { state.phones.rules.backgroundBudget = try PhoneRules.budget(budget) }
            return state.phones.rules
        }
        return .json(rules.json)
    }

    private static func limit(_ request: PageRequest, otherwise: Int) throws -> Int {
        guard let text = request.query["limit"] else { return otherwise }
        guard let limit = Int(text), limit >= 0 else { throw Mistake("limit must be a number.") }
        return limit
    }
}
