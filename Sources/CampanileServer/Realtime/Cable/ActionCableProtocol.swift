import CampanileCore

/// The user who opened a connection, by a verified user token.
struct CableUser: Sendable, Equatable {
    let user: UserKey
    /// The life of the token; the connection doesn't outlive it.
    let life: TokenLife
    /// True if the token came in a cookie: then the browser may have a newer one by now, and may come back at once.
    let tokenCameInCookie: Bool
}

/// A stream that a subscription listens to.
struct CableStream: Sendable, Hashable {
    let kind: StreamKind
    let user: UserKey
}

/// The next actions of a connection, in order.
enum ActionCableAction: Equatable {
    /// Send one text message.
    case say([UInt8])
    /// Subscribe to a stream; `number` is the subscription's from now on and never another's.
    case listen(number: Int, CableStream, identifier: [UInt8])
    /// Cancel what was subscribed under this number.
    case stopListening(number: Int)
    /// Close the WebSocket; nothing follows.
    case close(WebSocketCloseCode)
}

/// One connection's conversation in ActionCable's protocol: texts in, steps out. It knows nothing of sockets, of time or
/// of the hub.
struct ActionCableProtocol {
    private struct Subscription {
        let identifier: [UInt8]
        /// The stream that it carries; nil when it is confirmed, but its stream is none of ours and carries nothing.
        let listening: (number: Int, stream: CableStream)?
    }

    private let rules: CableRules
    private let cableUser: CableUser?
    private var subscriptions: [Subscription] = []
    private var numbers = 0
    private var isOver = false

    /// - Parameter cableUser: nil when no valid user token came with the request.
    init(rules: CableRules, cableUser: CableUser?) {
        self.rules = rules
        self.cableUser = cableUser
    }

    /// The first messages. A refused connection gets the reason as a message, because a browser's WebSocket shows no
    /// status.
    mutating func open() -> [ActionCableAction] {
        guard cableUser != nil || rules.signedStreamsOnly else { return farewell("unauthorized", reconnect: false) }
        return [.say(CableText.welcome)]
    }

    /// Handles a client's message. A text that isn't a command changes nothing: it may come from a newer client.
    mutating func hear(_ text: [UInt8]) -> [ActionCableAction] {
        guard !isOver else { return [] }
        do throws(Mistake) {
            switch try CableCommand(parsing: text) {
            case .subscribe(let identifier): return subscribe(identifier)
            case .unsubscribe(let identifier): return unsubscribe(identifier)
            case .message:
                rules.log.noEffect("The channels take no messages.")
                return []
            }
        } catch {
            rules.log.noEffect(error.sentence)
            return []
        }
    }

    /// Notes that the connection is closed because the client passed a limit.
    func note(closed reason: String) { rules.log.closed(reason) }

    /// Ends the connection. Tells a client that would get the same refusal again not to reconnect.
    mutating func end(_ reason: StreamEnd) -> [ActionCableAction] {
        guard !isOver else { return [] }
        switch reason {
        case .expired: return farewell("unauthorized", reconnect: cableUser?.tokenCameInCookie ?? false)
        case .revoked: return farewell("unauthorized", reconnect: false)
        case .restarting, .lifetime: return farewell("server_restart", reconnect: true)
        case .overloaded:
            isOver = true
            return [.close(.tryAgainLater)]
        }
    }

    private mutating func farewell(_ reason: String, reconnect: Bool) -> [ActionCableAction] {
        isOver = true
        return [.say(CableText.disconnect(reason: reason, reconnect: reconnect)), .close(.normal)]
    }

    // MARK: - Subscriptions

    private enum Judgement {
        case carries(CableStream)
        case carriesNothing
        case refused(String)
    }

    private mutating func subscribe(_ identifier: [UInt8]) -> [ActionCableAction] {
        guard identifier.count <= Limits.cableIdentifierBytes else { return refuse(identifier, beyond: .identifier) }
        let known = subscriptions.firstIndex { $0.identifier == identifier }
        if known == nil, let limit = limit(beforeAdding: identifier) { return refuse(identifier, beyond: limit) }
        switch judge(identifier) {
        case .refused(let sentence): return refuse(identifier, sentence)
        case .carriesNothing:
            if known == nil { subscriptions.append(Subscription(identifier: identifier, listening: nil)) }
            return [.say(CableText.confirmation(identifier))]
        case .carries(let stream):
            if known == nil, let limit = limit(beforeAdding: identifier, to: stream) {
                return refuse(identifier, beyond: limit)
            }
            // A client that didn't hear the confirmation asks again, and gets the present badge again with it.
            let former = known.map { subscriptions.remove(at: $0) }?.listening?.number
            numbers += 1
            subscriptions.append(Subscription(identifier: identifier, listening: (numbers, stream)))
            let leave = former.map { [ActionCableAction.stopListening(number: $0)] } ?? []
            // Listening begins before the confirmation goes out: a client that fetches the present state when it is
            // confirmed misses nothing that happens after its fetch.
            return leave + [
                .listen(number: numbers, stream, identifier: identifier), .say(CableText.confirmation(identifier)),
            ]
        }
    }

    private mutating func unsubscribe(_ identifier: [UInt8]) -> [ActionCableAction] {
        guard let index = subscriptions.firstIndex(where: { $0.identifier == identifier }) else {
            rules.log.noEffect("It unsubscribes without a subscription.")
            return []
        }
        guard let number = subscriptions.remove(at: index).listening?.number else { return [] }
        return [.stopListening(number: number)]
    }

    private func refuse(_ identifier: [UInt8], _ sentence: String) -> [ActionCableAction] {
        rules.log.noEffect(sentence)
        return [.say(CableText.rejection(identifier))]
    }

    private func refuse(_ identifier: [UInt8], beyond limit: CableLimit) -> [ActionCableAction] {
        rules.log.rejected(limit)
        return [.say(CableText.rejection(identifier))]
    }

    /// The limit that another subscription would exceed, whatever its stream.
    private func limit(beforeAdding identifier: [UInt8]) -> CableLimit? {
        if subscriptions.count >= Limits.cableSubscriptions { return .subscriptions }
        let bytes = subscriptions.reduce(identifier.count) { $0 + $1.identifier.count }
        return bytes > Limits.cableIdentifiersBytes ? .identifiers : nil
    }

    /// The limit that another subscription to a stream would exceed: whatever happens in it is said once for each identifier,
    /// with the identifier, and the client may write that in as many ways as it likes.
    private func limit(beforeAdding identifier: [UInt8], to stream: CableStream) -> CableLimit? {
        let others = subscriptions.filter { $0.listening?.stream == stream }
        if others.count >= Limits.cableSubscriptionsPerStream { return .subscriptionsOfStream }
        let bytes = others.reduce(identifier.count) { $0 + $1.identifier.count }
        return bytes > Limits.cableIdentifierBytesPerStream ? .identifiersOfStream : nil
    }

    private func judge(_ identifier: [UInt8]) -> Judgement {
        switch CableChannel(identifier: identifier) {
        case .notifications:
            guard let cableUser else { return .refused("NotificationsChannel needs a user token.") }
            return .carries(CableStream(kind: .notifications, user: cableUser.user))
        case .turboStreams(let signedName):
            guard let name = rules.verify(signedName) else { return .refused("The stream's name is not signed with our key.") }
            guard let target = rules.pattern.target(of: name) else {
                rules.log.foreignStream(name)
                return .carriesNothing
            }
            // The signature is the authority: it may name another user than the token does.
            // But where it names no app, a stranger's token must not choose one: the same id is somebody else there.
            let own = cableUser.flatMap { $0.user.userID == target.userID ? $0.user.app : nil }
            let app = target.app ?? own ?? ExactText(AppName.standard)
            return .carries(CableStream(kind: .badgeTurbo, user: UserKey(app: app, userID: target.userID)))
        case .unknown: return .refused("The channel is not known.")
        }
    }
}
