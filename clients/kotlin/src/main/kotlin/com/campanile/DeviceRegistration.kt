package com.campanile

import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/**
 * Keeps this device registered at the server: at every launch, after each sign-in, and until sign-out. Its calls wait for the
 * network, one after the other: a registration on its way must not arrive after the sign-out that follows it.
 *
 * @param appVersion such as `2.1.0`. A device without one is older than every `min_app_version`, and gets no such link.
 */
class DeviceRegistration(
    private val api: CampanileAPI,
    private val storage: ClientStorage,
    private val badge: BadgeStore,
    private val appVersion: String,
    private val locale: String? = null
) {
    private val turn = ReentrantLock()

    /** The signed-in user; null until a page says who it is, and from the sign-out on. */
    @Volatile
    private var user: String? = null

    /** The registrations begun, and the newest one that is done or superseded. */
    private var begun = 0
    private var settled = 0

    /** True if a sign-out here didn't reach the server, and nobody has signed in since. */
    val isLeft: Boolean get() = storage.read(LEFT) != null

    /**
     * Registers Firebase's token, even an unchanged one: call it at every launch, and when the token changes. Before a sign-in
     * the token waits for it.
     */
    fun register(token: String) {
        storage.write(TOKEN, token)
        api.deviceToken = token
        registerAgain()
    }

    /**
     * Call it when a page says who is signed in. The number, and the token that Firebase gave in this launch, now belong to
     * that user. A token of an earlier launch isn't registered: in a restored backup it is another phone's.
     *
     * @param isNew called before the network is asked if it was another user's number before.
     */
    fun signedIn(user: String, isNew: () -> Unit = {}) {
        val isOther = badge.signedIn(user, api.baseURL)
        val isKnown = this.user == user
        this.user = user
        storage.write(LEFT, null)
        if (isOther) isNew()
        if (!isKnown || isOther) registerAgain()
    }

    /** Call it when the app comes to the foreground: registers if the last attempt failed. */
    fun cameToForeground() = tryAgain()

    internal fun tryAgain() {
        if (synchronized(this) { settled < begun }) registerAgain()
    }

    /**
     * Call it before your own session ends, because it needs a user token. Forgets the number and deletes the device token at
     * the server. Keeps the token itself for the next user.
     *
     * @return null when no push comes any more; else why the user's pushes still come here until somebody signs in.
     */
    fun signOut(): CampanileFailure? {
        val leaving = user
        user = null
        // Before the call to the server: when its answer comes, the next user may be signed in.
        badge.signedOut()
        // Until Firebase gives a token in this launch, the server knows the last launch's.
        val token = api.deviceToken ?: storage.read(TOKEN) ?: return null
        storage.write(LEFT, "yes")
        return try {
            turn.withLock {
                synchronized(this) { settled = begun }
                api.deleteDevice(token, leaving)
            }
            storage.write(LEFT, null)
            null
        } catch (failure: CampanileFailure) {
            failure
        }
    }

    private fun registerAgain() {
        val registration = synchronized(this) { ++begun }
        turn.withLock {
            register()
            synchronized(this) { settled = maxOf(settled, registration) }
        }
    }

    private fun register() {
        // No user is signed in yet, or not any more: the next signedIn() registers.
        val user = user ?: return
        val token = api.deviceToken ?: return
        val session = badge.session
        api.registerDevice(token, appVersion, locale, user)
        if (badge.registered(session)) badge.refresh(api)
    }

    private companion object {
        const val TOKEN = "device_token"
        const val LEFT = "left"
    }
}
