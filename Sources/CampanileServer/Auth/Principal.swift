enum Principal: Sendable {
    case user(User)
    case producer(Producer)
    case `operator`(Operator)
    case broadcaster(Broadcaster)
}

/// The part of the server's state that a caller may see. The names of apps and of providers' hosts are for their operators.
package enum Insight: Sendable, Equatable {
    case none
    /// The state of one app, and what concerns no app in particular.
    case app(String)
    case all

    func covers(_ app: String) -> Bool {
        switch self {
        case .none: false
        case .app(let own): own == app
        case .all: true
        }
    }
}
