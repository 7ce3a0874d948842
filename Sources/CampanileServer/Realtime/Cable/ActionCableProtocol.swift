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
enum CableStream: Sendable, Hashable {
    /// The events of a user's inbox.
    case inbox(StreamKind, of: UserKey)
    /// One of an app's own.
    case own(BroadcastStream)

    /// For whom a connection without a user listens.
    var visitors: TurnOwner {
        switch self {
        case .inbox(_, let user): .visitors(of: user)
        case .own(let stream): .audience(of: stream)
        }
    }
}

/// The next actions of a connection, in order.
enum ActionCableAction: Equatable {
    /// Send one text message.
    case say([UInt8])
    /// Confirm a subscription to a stream of an app's own in AnyCable's form, with the place where it began.
    case confirm([UInt8], ExactText)
    /// Subscribe to a stream, to what comes or to what came since a place too; `number` is the subscription's from now on and never
    /// another's.
    case listen(number: Int, CableStream, from: BroadcastPlace?, identifier: [UInt8])
    /// Cancel what was subscribed under this number.
    case stopListening(number: Int)
    /// Close the WebSocket; nothing follows.
    case close(WebSocketCloseCode)
}

/// One connection's conversation in ActionCable's protocol: texts in, steps out. It knows nothing of sockets, of time or
/// of the hub.
struct ActionCableProtocol {
    private struct Subscription {
        let to: IdentifiedStream
        let number: Int
    }

    private let rules: CableRules
    private let cableUser: CableUser?
    /// The connection's name in AnyCable's form of the protocol; nil: it speaks Rails'.
    private let sid: String?
    private var subscriptions: [Subscription] = []
    private var numbers = 0
    private var isOver = false

    /// - Parameter cableUser: nil when no valid user token came with the request.
    init(rules: CableRules, cableUser: CableUser?, sid: String? = nil) {
        self.rules = rules
        self.cableUser = cableUser
        self.sid = sid
    }

    /// The first messages. A refused connection gets the reason as a message, because a browser's WebSocket shows no
    /// status.
    mutating func open() -> [ActionCableAction] {
        guard cableUser != nil || rules.signedStreamsOnly else { return farewell("unauthorized", reconnect: false) }
        return [.say(sid.map(CableText.welcome(sid:)) ?? CableText.welcome)]
    }

    /// Handles a client's message. A text that isn't a command changes nothing: it may come from a newer client.
    mutating func hear(_ text: [UInt8]) -> [ActionCableAction] {
        guard !isOver else { return [] }
        do throws(Mistake) {
            switch try CableCommand(parsing: text) {
            case .subscribe(let identifier, let history): return subscribe(identifier, history)
            case .history(let identifier, let history): return replay(identifier, history)
            case .pong: return []
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
        case .remote(let mayReturn): return farewell("remote", reconnect: mayReturn)
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
        case refused(String)
    }

    private mutating func subscribe(_ identifier: [UInt8], _ history: CableHistory?) -> [ActionCableAction] {
        guard identifier.count <= Limits.cableIdentifierBytes else { return refuse(identifier, beyond: .identifier) }
        let known = subscriptions.firstIndex { $0.to.identifier == identifier }
        if known == nil, let limit = limit(beforeAdding: identifier) { return refuse(identifier, beyond: limit) }
        switch judge(identifier) {
        case .refused(let sentence): return refuse(identifier, sentence)
        case .carries(let stream):
            if known == nil, let limit = limit(beforeAdding: identifier, to: stream) {
                return refuse(identifier, beyond: limit)
            }
            // It listens already: to begin anew would lose what is on its way.
            if let known, case .own(let own) = stream, subscriptions[known].to.stream == stream,
                sid == nil || history?.says(own.name) != true
            {
                return [.say(CableText.confirmation(identifier))]
            }
            // A client that didn't hear the confirmation asks again, and gets the present badge again with it.
            //
            // Listening begins before the confirmation goes out: a client that fetches the present state when it is
            // confirmed misses nothing that happens after its fetch.
            return listen(to: stream, from: history, identifier, known) + confirm(identifier, stream, history)
        }
    }

    private func confirm(_ identifier: [UInt8], _ stream: CableStream, _ history: CableHistory?) -> [ActionCableAction] {
        guard sid != nil, case .own(let own) = stream else { return [.say(CableText.confirmation(identifier))] }
        let isUnreadable = history.map { $0.says(own.name) && $0.place(in: own.name) == nil } ?? false
        return [.confirm(identifier, own.name)] + (isUnreadable ? [.say(CableText.rejectedHistory(identifier))] : [])
    }

    /// Listens anew under an identifier.
    /// - Parameter known: the place of the subscription that it has.
    private mutating func listen(
        to stream: CableStream, from history: CableHistory?, _ identifier: [UInt8], _ known: Int?
    ) -> [ActionCableAction] {
        let former = known.map { subscriptions.remove(at: $0) }
        numbers += 1
        let to = rules.streams.shared(identifier, stream)
        subscriptions.append(Subscription(to: to, number: numbers))
        var place: BroadcastPlace?
        if sid != nil, case .own(let own) = stream { place = history?.place(in: own.name) }
        let leave = former.map { [ActionCableAction.stopListening(number: $0.number)] } ?? []
        return leave + [.listen(number: numbers, to.stream, from: place, identifier: to.identifier)]
    }

    private mutating func replay(_ identifier: [UInt8], _ history: CableHistory) -> [ActionCableAction] {
        guard sid != nil, let known = subscriptions.firstIndex(where: { $0.to.identifier == identifier }) else {
            rules.log.noEffect("It asks for the history of what it has no subscription to.")
            return []
        }
        let stream = subscriptions[known].to.stream
        // The cable keeps no history of an inbox: clients read the list over HTTP.
        guard case .own(let own) = stream, history.place(in: own.name) != nil else {
            return [.say(CableText.rejectedHistory(identifier))]
        }
        return listen(to: stream, from: history, identifier, known)
    }

    private mutating func unsubscribe(_ identifier: [UInt8]) -> [ActionCableAction] {
        guard let index = subscriptions.firstIndex(where: { $0.to.identifier == identifier }) else {
            rules.log.noEffect("It unsubscribes without a subscription.")
            return []
        }
        return [.stopListening(number: subscriptions.remove(at: index).number)]
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
        let bytes = subscriptions.reduce(identifier.count) { $0 + $1.to.identifier.count }
        return bytes > Limits.cableIdentifiersBytes ? .identifiers : nil
    }

    /// The limit that another subscription to a stream would exceed: whatever happens in it is said once for each identifier,
    /// with the identifier, and the client may write that in as many ways as it likes.
    private func limit(beforeAdding identifier: [UInt8], to stream: CableStream) -> CableLimit? {
        let others = subscriptions.filter { $0.to.stream == stream }
        if others.count >= Limits.cableSubscriptionsPerStream { return .subscriptionsOfStream }
        let bytes = others.reduce(identifier.count) { $0 + $1.to.identifier.count }
        return bytes > Limits.cableIdentifierBytesPerStream ? .identifiersOfStream : nil
    }

    private func judge(_ identifier: [UInt8]) -> Judgement {
        switch CableChannel(identifier: identifier) {
        case .notifications:
            guard let cableUser else { return .refused("NotificationsChannel needs a user token.") }
            return .carries(.inbox(.notifications, of: cableUser.user))
        case .turboStreams(let signedName):
            guard let (name, app) = rules.verify(signedName) else {
                return .refused("The stream's name is not signed with our key.")
            }
            if let target = rules.pattern.target(of: name) { return judge(target, signedBy: app) }
            guard !name.isEmpty else { return .refused("The stream has no name.") }
            // The key says whose stream it is, and a user of another app has no business there.
            guard cableUser.map({ $0.user.app == app.name }) ?? true else {
                return .refused("The stream is another app's than the token.")
            }
            return .carries(.own(BroadcastStream(app: app.name, name: ExactText(name))))
        case .unknown:
            rules.log.unknownChannel()
            return .refused("The channel is not known.")
        }
    }

    /// The signature is the authority: it may name another user than the token does. But where it names no app, a stranger's token must
    /// not choose one, as the same id is somebody else there. And an app's own key signs for that app alone.
    private func judge(_ target: StreamNamePattern.Target, signedBy signer: CableRules.Signer) -> Judgement {
        let own = cableUser.flatMap { $0.user.userID == target.userID ? $0.user.app : nil }
        let app = target.app ?? (signer.isOfAll ? own : nil) ?? signer.name
        guard signer.isOfAll || app == signer.name else { return .refused("The stream's name is signed with another app's key.") }
        return .carries(.inbox(.badgeTurbo, of: UserKey(app: app, userID: target.userID)))
    }
}
