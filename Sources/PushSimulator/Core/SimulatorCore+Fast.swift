import CampanileCore
import Synchronization

/// Fast mode: counts a push and answers it. Verifies a provider token once, and from then on checks its age; doesn't
/// read the payload.
extension SimulatorCore {
    /// True while pushes are only counted: in fast mode, without a commanded fault.
    var isCounting: Bool { options.isFast && !hasFaults.load(ordering: .relaxed) }

    /// - Returns: nil when the request needs the full judgement: one for a token, or one with a fault.
    func countFast(_ request: SimulatedRequest, connection: inout ConnectionFacts) -> SimulatedAnswer? {
        guard request.method == "POST", let authorization = request.field("authorization") else { return nil }
        if request.path.hasPrefix("/3/device/") {
            guard !connection.speaksHTTP1, isGoodProvider(authorization, connection: &connection) else { return nil }
            countFast(request.path)
            return SimulatorCore.acceptance(
                request.field("apns-id") ?? SimulatorCore.madeID(), connection.environment)
        }
        guard FCMRequestRules.project(path: request.path) != nil, isGoodAccess(authorization) else { return nil }
        connection.isTrusted = true
        countFast(request.path)
        let name = JSONValue.object([.init("name", .string("projects/-/messages/\(SimulatorCore.madeID())"))])
        return SimulatedAnswer(status: 200, json: name)
    }

    private func countFast(_ path: String) {
        state.withLock { state in
            state.fastPushes += 1
            state.paths.insert(path)
        }
    }

    private func isGoodProvider(_ authorization: String, connection: inout ConnectionFacts) -> Bool {
        let good = connection.goodAuthorization
        if authorization == good.text, options.world.now().milliseconds < good.until { return true }
        var facts = connection
        defer { connection = facts }
        let isGood = state.withLock { state in
            let now = now(state)
            return
                (try? state.providerTokens.check(
                    authorization, connection: &facts, environment: facts.environment, now: now)) != nil
        }
        // Reads the clock again within a minute, to notice a token that has become too old.
        if isGood { facts.goodAuthorization = (authorization, options.world.now().milliseconds + 60_000) }
        return isGood
    }

    private func isGoodAccess(_ authorization: String) -> Bool {
        state.withLock { state in state.accessTokens.grant(authorization, now: now(state)) != nil }
    }
}
