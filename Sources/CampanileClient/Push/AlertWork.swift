import Foundation

/// The extension's work on an alert before it is shown: what is dismissed leaves the phone, then the alert's image is fetched.
struct AlertWork: Sendable {
    let dismissals: Dismissals
    let images: AlertImageFetch

    /// - Parameter show: shows the alert with the image's file; passively and without a sound if its entry was read before it
    ///   came.
    /// - Returns: the alert that waits for it; nil if there is nothing to wait for, and it has been shown.
    func begin(
        _ alert: PushPayload, show: @escaping @Sendable (_ image: URL?, _ isDismissed: Bool) -> Void
    ) -> WaitingAlert? {
        dismissals.hear(alert)
        // When it is shown, because another alert may have dismissed it during the wait.
        let present: @Sendable (URL?) -> Void = { [dismissals] file in show(file, dismissals.covers(alert)) }
        guard alert.imageURL != nil || !dismissals.record.isEmpty else {
            present(nil)
            return nil
        }
        let waiting = WaitingAlert(present)
        waiting.wait {
            await dismissals.removeDismissed()
            guard let url = alert.imageURL else { return nil }
            return await images.file(at: url)
        }
        return waiting
    }
}
