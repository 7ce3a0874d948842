package com.campanile

/**
 * Follows who is signed in, as the pages of a Hotwire Native app say it. Its functions wait for the network.
 *
 * @param onUserChange called with the user when another one signs in, and with null when the user signs out, before the network
 *   is asked: what the app shows is the former user's.
 */
class UserSession(
    private val tokens: HandedTokens, private val registration: DeviceRegistration, private val onUserChange: (String?) -> Unit = {}
) {
    private class State(var user: String? = null, var pageUser: String? = null, var leaving: String? = null, var departures: Int = 0)

    private val state = State()

    /**
     * A page of somebody who is signed in was shown. Each brings a fresh token; the first one of a user also registers the
     * device, and asks for their number.
     *
     * @return whether this page signed somebody in.
     */
    fun signedIn(token: UserToken): Boolean {
        val departures = synchronized(state) {
            state.pageUser = token.user
            state.departures
        }
        // The token is handed first: no call of the new user may go with the old one. A page from before isn't taken.
        if (!tokens.hand(token)) return false
        synchronized(state) {
            // Other pages may say who they are while the user is being signed out.
            if (state.departures != departures || token.user == state.leaving || token.user == state.user) return false
            state.user = token.user
        }
        registration.signedIn(token.user) { onUserChange(token.user) }
        return true
    }

    /**
     * The web session is about to end.
     *
     * @return null when no push comes any more; else why the user's pushes still come to this device.
     */
    fun signOut(): CampanileFailure? {
        val leaving = synchronized(state) {
            state.departures += 1
            (state.user ?: state.pageUser).also {
                state.leaving = it
                state.user = null
            }
        }
        onUserChange(null)
        try {
            return registration.signOut()
        } finally {
            // A user who has signed in while the server was slow keeps their token.
            leaving?.let(tokens::signedOut)
            synchronized(state) { if (state.leaving == leaving) state.leaving = null }
        }
    }
}
