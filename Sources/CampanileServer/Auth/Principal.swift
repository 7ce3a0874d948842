enum Principal: Sendable {
    case user(User)
    case producer(Producer)
    /// A key that sees how the server does with one app, and reads and creates nothing.
    case operate(app: String)
}

/// How much somebody may be told of the server's state: the names of apps and of providers' hosts are for whoever runs them.
package enum Insight: Sendable, Equatable {
    case none
    /// What concerns one app, or none.
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
