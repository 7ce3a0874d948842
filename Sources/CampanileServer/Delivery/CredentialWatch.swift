import CampanileCore
import Logging
import Push
import Synchronization

/// Keeps the push credentials up to date: when an operator says so, and when a file that holds some was replaced. A key
/// changes without a restart.
final class CredentialWatch: Sendable {
    static let period = Duration.seconds(5)

    private let configuration: Mutex<Configuration>
    private let providers: PushProviders
    private let deliveryWorker: DeliveryWorker
    private let logger: Logger

    init(configuration: Configuration, providers: PushProviders, deliveryWorker: DeliveryWorker, logger: Logger) {
        self.configuration = Mutex(configuration)
        self.providers = providers
        self.deliveryWorker = deliveryWorker
        self.logger = logger
    }

    /// Takes the credentials of another configuration. Credentials that it lacks stay until a restart.
    /// - Throws: sentences about what is wrong; then the present ones stay.
    func use(_ new: Configuration) throws {
        let changed = try configuration.withLock { configuration in
            let changed = try apply(new)
            configuration = new
            return changed
        }
        // Also what waits for another reason than a wrong key is worth a try, since somebody asks.
        deliveryWorker.tryAgain(withNewCredentialsOf: changed)
        logger.notice("The push credentials were read again.", metadata: ["changed": "\(!changed.isEmpty)"])
        for lane in providers.kept(without: new) {
            logger.warning(
                """
                The configuration has no credentials any more for an app that had some: the old ones stay in use. \
                A restart drops them; from then on the sandbox takes its pushes, and none is sent.
                """, metadata: ["app": "\(lane.app)", "provider": "\(lane.provider.rawValue)"])
        }
    }

    /// - Returns: the apps whose credentials are others now.
    private func apply(_ configuration: Configuration) throws -> Set<String> {
        let present = providers.credentials
        guard try providers.apply(configuration) else { return [] }
        return Set(providers.credentials.filter { present[$0.key] != $0.value }.keys)
    }

    /// Looks now and then, until cancelled.
    func run() async {
        while (try? await Task.sleep(for: CredentialWatch.period)) != nil { look() }
    }

    /// A file that is being written may be half there: what can't be used is left for the next look.
    func look() {
        do {
            let changed = try configuration.withLock { try apply($0) }
            guard !changed.isEmpty else { return }
            deliveryWorker.tryAgain(withNewCredentialsOf: changed)
            logger.notice("The push credentials were replaced.")
        } catch {
            logger.debug("The push credentials can't be used; the present ones stay.", metadata: ["error": "\(error)"])
        }
    }
}
