import CampanileCore
import Synchronization

/// Fast mode: a push is counted and answered. A provider token is verified once, and its age is looked at from then on;
/// the payload isn't read.
extension ServiceConnection {
    /// - Returns: nil when the request needs the whole judgement: one for a token, or one that fast mode finds fault
    ///   with.
    func countFast(_ request: SimulatedRequest) -> SimulatedAnswer? {
        guard request.method == "POST", let authorization = request.field("authorization") else { return nil }
        if request.path.hasPrefix("/3/device/") {
            guard isGood(authorization) else { return nil }
            core.countFast(request.path)
            return SimulatedAnswer(
                status: 200, fields: [("apns-id", request.field("apns-id") ?? SimulatorCore.madeID())])
        }
        guard FCMRequestRules.project(path: request.path) != nil, core.isGoodAccess(authorization) else { return nil }
        facts.isTrusted = true
        core.countFast(request.path)
        let name = JSONValue.object([.init("name", .string("projects/-/messages/\(SimulatorCore.madeID())"))])
        return SimulatedAnswer(status: 200, json: name)
    }

    private func isGood(_ authorization: String) -> Bool {
        if authorization == goodAuthorization.text, core.options.time.now() < goodAuthorization.until { return true }
        guard core.isGoodProvider(authorization, connection: &facts) else { return false }
        // The clock is read again before the next minute is over: a token that grows old is noticed.
        goodAuthorization = (authorization, core.options.time.now() + 60_000)
        return true
    }
}

extension SimulatorCore {
    /// Whether pushes are only counted: in fast mode, while no fault is commanded.
    var isCounting: Bool { options.isFast && !hasFaults.load(ordering: .relaxed) }

    func countFast(_ path: String) {
        state.withLock { state in
            state.fastPushes += 1
            state.paths.insert(path)
        }
    }

    func isGoodProvider(_ authorization: String, connection: inout ConnectionFacts) -> Bool {
        var facts = connection
        defer { connection = facts }
        return state.withLock { state in
            let now = now(state)
            let isGood =
                (try? state.providerTokens.check(
                    authorization, connection: &facts, environment: facts.environment, now: now)) != nil
            return isGood
        }
    }

    func isGoodAccess(_ authorization: String) -> Bool {
        state.withLock { state in state.accessTokens.grant(authorization, now: now(state)) != nil }
    }
}
