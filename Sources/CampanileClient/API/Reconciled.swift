public import CampanileCore

/// The answer to `CampanileAPI.reconcile`.
public struct Reconciled: Hashable, Sendable {
    /// The ids whose entries are read, deleted, withdrawn or not there.
    public let handled: [String]
    /// The number, as `CampanileAPI.badge` gives it.
    public let badge: Badge

    public init(handled: [String], badge: Badge) {
        self.handled = handled
        self.badge = badge
    }
}

extension Reconciled {
    init?(json: JSONValue) {
        guard case .array(let handled)? = json["handled"], let badge = json["badge"].flatMap(Badge.init(json:)) else {
            return nil
        }
        self.init(handled: handled.compactMap(\.string), badge: badge)
    }
}

extension CampanileAPI {
    /// The most ids that the server takes in one call.
    private static let reconciledIDs = 100

    /// Asks which of the notifications that the phone shows are to leave, because their entries were read or deleted elsewhere.
    /// Marks nothing and clears nothing. `PushHandler.cameToForeground` calls it.
    /// - Parameter ids: as the pushes have them. More than 100 take several calls.
    public func reconcile(_ ids: [String]) async throws -> Reconciled { try await reconcile(ids, as: CallUser()) }

    func reconcile(_ ids: [String], as user: CallUser) async throws -> Reconciled {
        var seen: Set<String> = []
        let ids = ids.filter { seen.insert($0).inserted }
        var answer = try await reconcile(ids.prefix(CampanileAPI.reconciledIDs), as: user)
        var rest = ids.dropFirst(CampanileAPI.reconciledIDs)
        while !rest.isEmpty {
            let next = try await reconcile(rest.prefix(CampanileAPI.reconciledIDs), as: user)
            answer = Reconciled(handled: answer.handled + next.handled, badge: next.badge)
            rest = rest.dropFirst(CampanileAPI.reconciledIDs)
        }
        return answer
    }

    private func reconcile(_ ids: ArraySlice<String>, as user: CallUser) async throws -> Reconciled {
        let body = JSONValue.object([.init("ids", .array(ids.map { .string($0) }))])
        return try await call("POST", "/notifications/reconcile", body: body, user: user, Reconciled.init(json:))
    }
}
