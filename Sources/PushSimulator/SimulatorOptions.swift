package import CampanileCore

/// APNs keeps two worlds: a device token of one is unknown in the other.
package enum SimulatedEnvironment: String, Sendable, CaseIterable {
    case production
    case sandbox
}

/// What the simulator stands for on its TLS ports.
package enum SimulatedService: String, Sendable, CaseIterable {
    case apns
    case fcm
    /// Google's endpoint for access tokens.
    case token
}

/// How a simulator is started.
package struct SimulatorOptions: Sendable {
    /// An address to listen on. It stands in the certificate as well.
    package var host = "127.0.0.1"
    /// The TLS port of APNs' production, Google's token endpoint and FCM; 0 takes a free one.
    package var port = 0
    /// A second TLS port, for APNs' sandbox; nil for none, 0 for a free one.
    package var sandboxPort: Int?
    /// The plain HTTP port of the page and of the control calls; nil for none, 0 for a free one.
    package var pagePort: Int?
    /// Asks for what Campanile itself keeps to, also where Apple and Google take more.
    package var isStrict = false
    /// For benchmarks: counts and answers, and keeps neither phones nor requests.
    package var isFast = false
    /// Who may push. Empty: credentials are made at the start.
    package var credentials: [SimulatorCredentials] = []
    /// Who signs the server's certificate. nil: an authority is made at the start.
    package var authority: SimulatedAuthority?
    /// The concurrent streams of a connection after its first good provider token; before, it is 1.
    package var streamLimit = 1_000
    /// Whether a token that nobody made known is refused instead of becoming a new phone.
    package var knownTokensOnly = false
    /// What decides the faults' chances: the same seed and the same requests give the same faults.
    package var seed: UInt64 = 1
    /// The requests that are remembered.
    package var requestsKept = 2_000
    /// What gets all of them.
    package var requestFile: RequestFile?
    package let world: World

    /// The limit that a connection begins with. Load generators open streams before they have heard of any limit, and
    /// give up those that are refused: fast mode lets them.
    var firstStreamLimit: Int { isFast ? streamLimit : 1 }

    package init(world: World) { self.world = world }

    package static let fastKeepsNoRecord = "--record holds every request, and --fast looks at none: take one of them."

    /// What can't be, in a sentence that names the flag; nil when all is well.
    package var problem: String? {
        for (flag, port) in [("--port", port), ("--page", pagePort ?? 0), ("--sandbox-port", sandboxPort ?? 0)]
        where !(0...65_535).contains(port) {
            // The system would take the number without its upper bits.
            return "\(flag) must be a whole number from 0 to 65535, and is \(port)."
        }
        if isFast, requestFile != nil { return SimulatorOptions.fastKeepsNoRecord }
        return nil
    }
}

/// The simulator's own limits.
enum SimulatorLimits {
    /// Bytes of a request's body that are read; what is longer than the service allows, up to here, gets its answer.
    static let bodyBytes = 1_048_576
    /// Bytes that a client may send ahead on a connection.
    static let connectionWindow = 4 * 1_048_576
    /// Verified provider tokens and given access tokens that are remembered.
    static let tokens = 1_000
    /// Ids of accepted pushes that are remembered to find duplicates: the newest one to two times as many.
    static let pushIDs = 500_000
    /// Ids of duplicates that are listed.
    static let duplicates = 1_000
    /// Phones; beyond, a push to a new token is answered and forgotten.
    static let phones = 1_000_000
    /// Notifications of one phone's notification centre.
    static let notifications = 64
    /// Pushes in the histories of all phones together.
    static let history = 200_000
    /// Pushes in the history of one phone.
    static let historyOfPhone = 20
    /// Rows of provider token renewals.
    static let renewals = 10_000
    /// Bytes of a control call's body.
    static let controlBytes = 1_048_576
}
