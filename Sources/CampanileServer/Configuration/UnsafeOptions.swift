package import CampanileCore
import SQLEngine

/// Switches that weaken the program, for measurements and for the controls of tests. The default weakens nothing. They aren't settings:
/// only environment variables change them.
package struct UnsafeOptions: Sendable {
    /// The moment at which a commit is on the disk. Anything but `full` can lose what was acknowledged, and is there for
    /// measurements and for the controls of the power-loss test.
    package enum Durability: String, Sendable {
        case full, normal, off

        var synchronous: DatabaseOptions.Synchronous {
            switch self {
            case .full: .full
            case .normal: .normal
            case .off: .off
            }
        }
    }

    package var durability = Durability.full
    /// Divides the delays of retries and probes, for tests that can't wait for minutes.
    package var delayDivisor: Int64 = 1
    /// False: requests aren't counted for `/metrics`, so that a measurement shows what counting costs.
    package var countsRequests = true
    /// False: a node of a cluster sends pushes for shards that it has lost.
    package var checksLeases = true

    package init() {}
}

extension UnsafeOptions {
    private static let synchronous = "CAMPANILE_UNSAFE_SYNCHRONOUS"
    private static let retryScale = "CAMPANILE_UNSAFE_RETRY_SCALE"
    private static let uncounted = "CAMPANILE_UNSAFE_UNCOUNTED"
    private static let noEpoch = "CAMPANILE_UNSAFE_NO_EPOCH"

    /// The variables that are no settings.
    package static let variables: Set = [synchronous, retryScale, uncounted, noEpoch]

    /// - Throws: a sentence about a value that isn't one of the variable's.
    package init(environment: [String: String]) throws(OperatorError) {
        if let word = environment[UnsafeOptions.synchronous] {
            guard let value = Durability(rawValue: word) else {
                throw OperatorError("\(UnsafeOptions.synchronous) must be full, normal or off.")
            }
            durability = value
        }
        if let text = environment[UnsafeOptions.retryScale] {
            guard let value = Int64(text), (1...1_000_000).contains(value) else {
                throw OperatorError("\(UnsafeOptions.retryScale) must be a whole number from 1 to 1000000.")
            }
            delayDivisor = value
        }
        countsRequests = try !UnsafeOptions.isSet(UnsafeOptions.uncounted, environment)
        checksLeases = try !UnsafeOptions.isSet(UnsafeOptions.noEpoch, environment)
    }

    private static func isSet(_ name: String, _ environment: [String: String]) throws(OperatorError) -> Bool {
        guard let text = environment[name] else { return false }
        guard text == "1" else { throw OperatorError("\(name) must be 1, or not be there.") }
        return true
    }
}
