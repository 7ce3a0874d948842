/// What the system is asked about this app's pushes. `Apple/` has iOS's.
struct PushSystem: Sendable {
    /// Shows something the first time only; returns whether the user allows alerts.
    var requestAuthorization: @MainActor @Sendable () async throws -> Bool
    /// Asks for the device's token.
    var register: @MainActor @Sendable () -> Void
    /// No push comes any more until `register`.
    var unregister: @MainActor @Sendable () -> Void
    /// Empties the notification center.
    var removeDelivered: @MainActor @Sendable () -> Void
}

/// `start`, `signOutOfDevice` and `signedInOnDevice` in Apple/ say what these are for.
extension DeviceRegistration {
    @MainActor
    func start(_ system: PushSystem) async throws -> Bool {
        // Unregistered again: the app may have ended before the sign-out did.
        if await isLeft { system.unregister() } else { system.register() }
        return try await system.requestAuthorization()
    }

    @MainActor
    func signOut(_ badge: BadgeStore, of system: PushSystem) async -> SignOut {
        // What the user was sent goes at once: by the server's answer the next one may be there.
        system.removeDelivered()
        let outcome = await signOut(badge)
        if await isLeft { system.unregister() }
        // And what came until then, unless it is the next one's.
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
