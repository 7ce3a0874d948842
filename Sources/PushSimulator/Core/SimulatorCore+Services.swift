import CampanileCore

/// The judgements of the three services, each in the same order: the request itself, a fault on command, the device.
extension SimulatorCore {
    // MARK: - APNs

    func judgeAPNs(
        _ request: SimulatedRequest, connection: inout ConnectionFacts, in state: inout State, now: Int64
    ) -> Verdict {
        let given = request.field("apns-id")
        let id = given.flatMap { APNsRequestRules.isCanonicalUUID($0) ? $0 : nil } ?? SimulatorCore.madeID()
        let environment = SimulatorCore.environment(request, connection)
        do {
            let token = try APNsRequestRules.deviceToken(request)
            let provider = try state.providerTokens.check(
                request.field("authorization"), connection: &connection, environment: environment, now: now)
            let topics = state.providerTokens.key(provider.keyID)?.topics ?? []
            let push = try APNsRequestRules.check(
                request, token: token, topics: topics, id: id, isStrict: options.isStrict)
            let phonePush = PhonePush(push, now: now)
            let subject = FaultSubject(
                service: .apns, token: token, app: push.topic, kind: phonePush.kind, connection: connection.number)
            return deliver(phonePush, subject, environment: environment, in: &state, now: now)
        } catch {
            return Verdict(answer: error.answer(id: id), reason: error.reason, explanation: error.explanation)
        }
    }

    private func deliver(
        _ push: PhonePush, _ subject: FaultSubject, environment: SimulatedEnvironment, in state: inout State, now: Int64
    ) -> Verdict {
        let (delay, fault) = state.faults.next(for: subject)
        var verdict = Verdict(
            answer: SimulatorCore.acceptance(push.id, environment), fault: fault, delayMilliseconds: delay)
        if let (refusal, retryAfter) = SimulatorCore.refusal(fault) {
            verdict.refuse(refusal, apnsID: push.id, retryAfter: retryAfter)
        }
        guard fault?.leavesPush ?? true else { return verdict }
        switch state.phones.receive(push, token: subject.token ?? "", environment: environment, now: now) {
        case .unknown: verdict.refuse(.apns(.badDeviceToken), apnsID: push.id)
        case .otherApp: verdict.refuse(.apns(.deviceTokenNotForTopic), apnsID: push.id)
        case .gone(let since): verdict.refuse(.apns(.unregistered, timestamp: since), apnsID: push.id)
        case .shown, .kept: accept(push.id, &verdict, in: &state)
        }
        return verdict
    }

    /// Apple's answer to an accepted push; the sandbox adds an id for looking it up.
    static func acceptance(_ id: String, _ environment: SimulatedEnvironment) -> SimulatedAnswer {
        let lookup = environment == .sandbox ? [(name: "apns-unique-id", value: madeID())] : []
        return SimulatedAnswer(status: 200, fields: [("apns-id", id)] + lookup)
    }

    /// Apple ends a connection that doesn't speak HTTP/2; the simulator explains instead.
    static func refuseHTTP1() -> Verdict {
        let answer = SimulatedAnswer(status: 505, json: .object([.init("error", "APNs speaks HTTP/2 only.")]))
        return Verdict(answer: answer, reason: "HTTP/1.1")
    }

    /// APNs' refusal for a commanded fault.
    private static func refusal(_ fault: FaultAction?) -> (refusal: SimulatedRefusal, retryAfter: Int?)? {
        switch fault {
        case .status(let status, let reason, let retryAfter, let timestamp, _)?:
            (.apns(status: status, reason: reason, timestamp: timestamp), retryAfter)
        case .outage(let retryAfter)?: (.apns(.serviceUnavailable), retryAfter)
        default: nil
        }
    }

    /// The port determines the environment, unless a host name of Apple's does.
    private static func environment(
        _ request: SimulatedRequest, _ connection: ConnectionFacts
    ) -> SimulatedEnvironment {
        if request.authority.hasPrefix("api.sandbox.") || request.authority.hasPrefix("api.development.") {
            return .sandbox
        }
        return request.authority.hasPrefix("api.push.") ? .production : connection.environment
    }

    static func madeID() -> String {
        UUIDv7(
            high: UInt64.random(in: .min ... .max) & 0xFFFF_FFFF_FFFF_0FFF | 0x7000,
            low: UInt64.random(in: .min ... .max) >> 2 | 0b10 << 62
        ).description
    }

    private func accept(_ id: String, _ verdict: inout Verdict, in state: inout State) {
        state.counters.accepted += 1
        // After a commanded error the sender believes that nothing arrived.
        let isAnswered = (verdict.fault?.leavesAnswer ?? true) && verdict.answer.status < 300
        state.ledger.accept(id, isAnswered: isAnswered)
        verdict.acceptedID = id
    }

    // MARK: - FCM

    func judgeFCM(
        _ request: SimulatedRequest, connection: inout ConnectionFacts, in state: inout State, now: Int64
    ) -> Verdict {
        do {
            let grant = state.accessTokens.grant(request.field("authorization"), now: now)
            if grant != nil { connection.isTrusted = true }
            let push = try FCMRequestRules.check(request, projects: projects, grant: grant, isStrict: options.isStrict)
            let id = SimulatorCore.madeID()
            let phonePush = PhonePush(push, id: id, now: now)
            let subject = FaultSubject(
                service: .fcm, token: push.token, app: push.project, kind: phonePush.kind, connection: connection.number
            )
            return deliver(push, phonePush, subject, in: &state, now: now)
        } catch {
            return Verdict(answer: error.answer, reason: error.reason, explanation: error.explanation)
        }
    }

    private func deliver(
        _ push: FCMPush, _ phonePush: PhonePush, _ subject: FaultSubject, in state: inout State, now: Int64
    ) -> Verdict {
        let (delay, fault) = state.faults.next(for: subject)
        let name = JSONValue.object([.init("name", .string("projects/\(push.project)/messages/\(phonePush.id)"))])
        var verdict = Verdict(
            answer: SimulatedAnswer(status: 200, json: name), fault: fault, delayMilliseconds: delay)
        if let (refusal, retryAfter) = SimulatorCore.fcmRefusal(fault) { verdict.refuse(refusal, retryAfter: retryAfter) }
        guard fault?.leavesPush ?? true, !push.isForNobody else { return verdict }
        // FCM has no environments: a device's environment concerns only the app.
        let environment = state.phones[push.token]?.environment ?? .production
        switch state.phones.receive(
            phonePush, token: push.token, as: push.target, environment: environment, now: now)
        {
        case .unknown, .gone: verdict.refuse(.fcm(.unregistered, "Requested entity was not found."))
        case .otherApp: verdict.refuse(.fcm(.senderIDMismatch, "SenderId mismatch"))
        case .shown, .kept:
            accept(push.ledgerID(of: state.phones[push.token]) ?? phonePush.id, &verdict, in: &state)
        }
        return verdict
    }

    private static func fcmRefusal(_ fault: FaultAction?) -> (refusal: SimulatedRefusal, retryAfter: Int?)? {
        switch fault {
        case .status(let status, let reason, let retryAfter, _, _)?:
            // Google's front end reports errors that aren't FCM's codes: the name of the status, without FcmError.
            let code = FCMErrorCode(rawValue: reason)?.rawValue
            return (.fcm(status: status, code: code, name: code == nil ? reason : nil, message: reason), retryAfter)
        case .outage(let retryAfter)?:
            return (.fcm(.unavailable, "The service is currently unavailable."), retryAfter)
        default: return nil
        }
    }

    // MARK: - Google's token endpoint

    func judgeTokenRequest(
        _ request: SimulatedRequest, connection: ConnectionFacts, in state: inout State, now: Int64
    ) -> Verdict {
        let subject = FaultSubject(
            service: .token, token: nil, app: nil, kind: nil, connection: connection.number)
        let (delay, fault) = state.faults.next(for: subject)
        switch fault {
        case .status(let status, let reason, let retryAfter, _, _)?:
            var answer = SimulatedAnswer(status: status, json: .object([.init("error", .string(reason))]))
            if let retryAfter { answer.fields.append(("retry-after", String(retryAfter))) }
            return Verdict(answer: answer, reason: reason, fault: fault, delayMilliseconds: delay)
        case .outage?:
            let answer = SimulatedAnswer(status: 503, json: .object([.init("error", "temporarily_unavailable")]))
            return Verdict(answer: answer, reason: "temporarily_unavailable", fault: fault, delayMilliseconds: delay)
        default: break
        }
        do {
            let answer = try state.accessTokens.exchange(request, now: now)
            return Verdict(answer: answer, fault: fault, delayMilliseconds: delay)
        } catch {
            return Verdict(answer: error.answer, reason: error.reason, fault: fault, delayMilliseconds: delay)
        }
    }
}

extension SimulatorCore.Verdict {
    /// Refuses because of a fault or of the device; a fault of the connection still happens.
    fileprivate mutating func refuse(_ refusal: SimulatedRefusal, apnsID: String? = nil, retryAfter: Int? = nil) {
        answer = apnsID.map(refusal.answer(id:)) ?? refusal.answer
        if let retryAfter { answer.fields.append(("retry-after", String(retryAfter))) }
        reason = refusal.reason
    }
}
