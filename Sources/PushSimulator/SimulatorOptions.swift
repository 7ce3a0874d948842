package import CampanileCore

/// APNs has two environments: a device token of one is unknown in the other.
package enum SimulatedEnvironment: String, Sendable, CaseIterable {
    case production
    case sandbox
}

/// The services that the simulator replaces on its TLS ports.
package enum SimulatedService: String, Sendable, CaseIterable {
    case apns
    case fcm
    /// Google's endpoint for access tokens.
    case token
}

/// The options of a simulator.
package struct SimulatorOptions: Sendable {
    /// The address to listen on, also in the certificate.
    package var host = "127.0.0.1"
    /// The TLS port of APNs' production, Google's token endpoint and FCM; 0 takes a free one.
    package var port = 0
    /// A second TLS port, for APNs' sandbox; nil for none, 0 for a free one.
    package var sandboxPort: Int?
    /// The plain HTTP port of the page and of the control calls; nil for none, 0 for a free one.
    package var pagePort: Int?
    /// Demands the forms that Campanile itself uses, even where Apple and Google accept more.
    package var isStrict = false
    /// For benchmarks: counts and answers, and keeps neither phones nor requests.
    package var isFast = false
    /// The apps that may push. If empty, the start makes credentials.
    package var credentials: [SimulatorCredentials] = []
    /// The authority that signs the server's certificate. If nil, the start makes one.
    package var authority: SimulatedAuthority?
    /// The concurrent streams of a connection after its first good provider token; before, it is 1.
    package var streamLimit = 1_000
    /// True to refuse an unknown token instead of making a phone for it.
    package var knownTokensOnly = false
    /// The phones' rules where Apple's and Google's pages leave them open.
    package var phoneRules = PhoneRules()
    /// The seed of the faults' chances: the same seed and the same requests give the same faults.
    package var seed: UInt64 = 1
    /// The number of requests to remember.
    package var requestsKept = 2_000
    /// The file for all of them.
    package var requestFile: RequestFile?
    package let world: World

    /// The limit at the beginning of a connection. Load generators open streams before they know any limit, and give up
    /// refused ones: fast mode allows it.
    var firstStreamLimit: Int { isFast ? streamLimit : 1 }

    package init(world: World) { self.world = world }

    package static let fastKeepsNoRecord = "--record holds every request, and --fast looks at none: take one of them."

    /// The fault of the options, in a sentence that names the flag; nil for none.
    package var problem: String? {
        for (flag, port) in [("--port", port), ("--page", pagePort ?? 0), ("--sandbox-port", sandboxPort ?? 0)]
        where !(0...65_535).contains(port) {
            // The system would cut off the number's upper bits.
            return "\(flag) must be a whole number from 0 to 65535, and is \(port)."
        }
        if isFast, requestFile != nil { return SimulatorOptions.fastKeepsNoRecord }
        return nil
    }
}

/// The simulator's own limits.
enum SimulatorLimits {
    /// Bytes of a request's body that are read; a body over the service's limit, up to this one, gets its answer.
    static let bodyBytes = 1_048_576
    /// Bytes that a client may send ahead on a connection.
    static let connectionWindow = 4 * 1_048_576
    /// Remembered verified provider tokens and issued access tokens.
    static let tokens = 1_000
    /// Remembered ids of accepted pushes, to find duplicates: the newest one to two times as many.
    static let pushIDs = 500_000
    /// Listed ids of duplicates.
    static let duplicates = 1_000
    /// Phones; beyond this the simulator answers a push to a new token and forgets it.
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
