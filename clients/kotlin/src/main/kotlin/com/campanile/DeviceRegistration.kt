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
    private class Identifier(val text: String, val kind: DeviceKind)

    private val turn = ReentrantLock()

    /** What Firebase gave in this launch. */
    @Volatile
    private var given: Identifier? = null

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
    fun register(token: String) = register(Identifier(token, DeviceKind.TOKEN))

    /**
     * Registers the Firebase Installation ID of an app that has opted in: call it with all that `onRegistered` brings. To the
     * server the device stays the one that it had under the installation's token. On a phone whose Google Play services know no
     * such registration, Firebase may bring a token there, which is registered as a token.
     */
    fun registerInstallation(id: String) = register(Identifier(id, DeviceKind.of(id)))

    private fun register(identifier: Identifier) {
        given = identifier
        // A former one stays until the server has taken this one.
        if (api.deviceToken == null) api.deviceToken = identifier.text
        registerAgain()
    }

    /**
     * Call it when a page says who is signed in. The number, and what Firebase gave in this launch, now belong to that user. The
     * token or ID of an earlier launch isn't registered: in a restored backup it is another phone's.
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
     * Call it before your own session ends, because it needs a user token. Forgets the number and deletes the device at the
     * server. Keeps its token or ID for the next user.
     *
     * @return null when no push comes any more; else why the user's pushes still come here until somebody signs in.
     */
    fun signOut(): CampanileFailure? {
        val leaving = user
        user = null
        // Before the call to the server: when its answer comes, the next user may be signed in.
        badge.signedOut()
        if (given == null && sent.isEmpty()) return null
        storage.write(LEFT, "yes")
        return try {
            turn.withLock {
                synchronized(this) { settled = begun }
                // Until Firebase gives one in this launch, the server has the last launch's.
                val identifiers = given?.let { withFormer(it.text) } ?: sent
                identifiers.forEach { api.deleteDevice(it, leaving) }
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
            send()
            synchronized(this) { settled = maxOf(settled, registration) }
        }
    }

    private fun send() {
        // No user is signed in yet, or not any more: the next signedIn() registers.
        val user = user ?: return
        val given = given ?: return
        val session = badge.session
        // Before the call, whose answer may get lost.
        sent = withFormer(given.text)
        api.registerDevice(given.text, appVersion, locale, given.kind, user)
        sent = listOf(given.text)
        api.deviceToken = given.text
        if (badge.registered(session)) badge.refresh(api)
    }

    /** What the server may have this device under, the latest last. More than one until the server has answered. */
    private var sent: List<String>
        get() = storage.read(SENT)?.split(' ') ?: emptyList()
        set(identifiers) = storage.write(SENT, identifiers.joinToString(" "))

    /** [identifier], after what was sent for the same installation. Another one's, in a restored backup, is another phone's. */
    private fun withFormer(identifier: String): List<String> =
        sent.filter { it != identifier && installation(it) == installation(identifier) } + identifier

    /** A registration token begins with its installation's ID and a colon. */
    private fun installation(identifier: String): String = identifier.substringBefore(':')

    private companion object {
        const val SENT = "device_token"
        const val LEFT = "left"
    }
}
