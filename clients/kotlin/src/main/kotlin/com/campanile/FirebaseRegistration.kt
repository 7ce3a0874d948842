package com.campanile

/** What Firebase knows a device by. */
enum class DeviceKind {
    /** A registration token. */
    TOKEN,

    /** A Firebase Installation ID, of an app that has opted in to them. */
    FID;

    internal companion object {
        private val fid = Regex("[A-Za-z0-9_-]{1,64}")

        /** @return the kind of what `onRegistered` brought. A registration token is an ID, a colon and more. */
        fun of(identifier: String): DeviceKind = if (fid.matches(identifier)) FID else TOKEN
    }
}

/** Two calls of `FirebaseMessaging`, which the app passes on. They answer later, on any thread. */
interface FirebaseCalls {
    /** `register()`. Its success brings no ID: that comes to the service's `onRegistered`. */
    fun register(done: (failure: Exception?) -> Unit)

    /** `token`, which is `getToken()` in Java. */
    fun token(done: (token: String?, failure: Exception?) -> Unit)
}

/**
 * Registers the app with Firebase, by the call that works in it: `register()` if the app's merged manifest opts in to installation
 * IDs, else `token`. Firebase itself says which, so an opt-in by some library's manifest counts too. Once an ID is registered it
 * never asks for a token, because a token would make Firebase drop the ID.
 *
 * @param onToken receives the token of an app that hasn't opted in. Pass it to [DeviceRegistration.register].
 * @param onFailure receives the reason when Firebase registers nothing. Until a later attempt succeeds no push comes.
 */
class FirebaseRegistration(
    private val firebase: FirebaseCalls,
    private val onToken: (String) -> Unit,
    private val onFailure: (Exception) -> Unit
) {
    @Volatile
    private var hasRegistered = false

    /** True once Firebase has said that the app hasn't opted in. The manifest stays as it is while the app runs. */
    @Volatile
    private var usesTokens = false

    @Volatile
    private var hasFailed = false

    /** Call it at every launch. */
    fun start() {
        if (usesTokens) return askForToken()
        firebase.register { failure ->
            when {
                failure == null -> hasRegistered = true
                failure is IllegalStateException && !hasRegistered -> {
                    usesTokens = true
                    askForToken()
                }
                else -> failed(failure)
            }
        }
    }

    /** Call it when the app comes to the foreground: tries again if the last attempt failed. */
    fun cameToForeground() {
        if (!hasFailed) return
        hasFailed = false
        start()
    }

    private fun askForToken() = firebase.token { token, failure ->
        if (token != null) onToken(token) else failed(failure ?: IllegalStateException("Firebase gave no token."))
    }

    private fun failed(failure: Exception) {
        hasFailed = true
        onFailure(failure)
    }
}
