/// The system's calls for this app's pushes. `Apple/` has iOS's.
struct PushSystem: Sendable {
    /// Asks for the device's token.
    var register: @MainActor @Sendable () -> Void
    /// Ends pushes until `register`.
    var unregister: @MainActor @Sendable () -> Void
    /// Empties the notification center.
    var removeDelivered: @MainActor @Sendable () -> Void
}

/// For `start`, `signOutOfDevice` and `signedInOnDevice` in Apple/.
extension DeviceRegistration {
    @MainActor
    func start(_ system: PushSystem) async {
        // Unregistered again: the app may have ended before the sign-out did.
        if await isLeft { system.unregister() } else { system.register() }
    }

    @MainActor
    func signOut(_ badge: BadgeStore, of system: PushSystem) async -> SignOut {
        // Removes the user's notifications at once: when the server's answer comes, the next user may be signed in.
        system.removeDelivered()
        let outcome = await signOut(badge)
        if await isLeft { system.unregister() }
        // And those that came until then, unless they are the next user's.
        if badge.isSignedOut { system.removeDelivered() }
        return outcome
    }

    @MainActor
    func signedIn(_ user: String, _ badge: BadgeStore, on system: PushSystem) async throws {
        if claim(badge, for: user) { system.removeDelivered() }
        system.register()
        try await signedIn(user, badge)
    }
}
