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
        let isChanged = try configuration.withLock { configuration in
            let isChanged = try providers.apply(new)
            configuration = new
            return isChanged
        }
        // Also what waits for another reason than a wrong key is worth a try, since somebody asks.
        deliveryWorker.tryAgain()
        logger.notice("The push credentials were read again.", metadata: ["changed": "\(isChanged)"])
        for lane in providers.kept(without: new) {
            logger.warning(
                """
                The configuration has no credentials any more for an app that had some: the old ones stay in use. \
                A restart drops them; from then on the sandbox takes its pushes, and none is sent.
                """, metadata: ["app": "\(lane.app)", "provider": "\(lane.provider.rawValue)"])
        }
    }

    /// Looks now and then, until cancelled.
    func run() async {
        while (try? await Task.sleep(for: CredentialWatch.period)) != nil { look() }
    }

    /// A file that is being written may be half there: what can't be used is left for the next look.
    func look() {
        do {
            guard try configuration.withLock({ try providers.apply($0) }) else { return }
            deliveryWorker.tryAgain()
            logger.notice("The push credentials were replaced.")
        } catch {
            logger.debug("The push credentials can't be used; the present ones stay.", metadata: ["error": "\(error)"])
        }
    }
}
