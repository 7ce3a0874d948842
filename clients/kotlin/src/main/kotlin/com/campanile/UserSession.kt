package com.campanile

/**
 * Follows who is signed in, as the pages of a Hotwire Native app say it. Its functions wait for the network,
 * except [signedIn] with a second argument.
 *
 * @param follower the stream of the number, which begins with a user's token and ends at the sign-out.
 * @param onUserChange called with the user when another one signs in, and with null when the user signs out, before the network
 *   is asked: what the app shows is the former user's.
 */
class UserSession(
    private val tokens: HandedTokens,
    private val registration: DeviceRegistration,
    private val follower: BadgeFollower? = null,
    private val onUserChange: (String?) -> Unit = {}
) {
    private class State(var user: String? = null, var pageUser: String? = null, var leaving: String? = null, var departures: Int = 0)

    private val state = State()

    /**
     * A page of somebody who is signed in was shown. Each brings a fresh token; the first one of a user also registers the
     * device, and asks for their number. A later one tries a registration that failed again.
     *
     * @return whether this page signed somebody in.
     */
    fun signedIn(token: UserToken): Boolean = enter(token, hand(token) ?: return false)

    /**
     * The same without waiting. Hands the token at once, on this thread: a call that was refused may hold the thread of [later]
     * until the token is there.
     *
     * @param later runs the registration, after earlier ones and sign-outs.
     */
    fun signedIn(token: UserToken, later: (work: () -> Unit) -> Unit) {
        val departures = hand(token) ?: return
        later { enter(token, departures) }
    }

    /** @return how many sign-outs there were before this page; null for an old page. */
    private fun hand(token: UserToken): Int? {
        val departures = synchronized(state) {
            state.pageUser = token.user
            state.departures
        }
        // The token is handed first: no call of the new user may go with the old one. A page from before isn't taken.
        if (!tokens.hand(token)) return null
        synchronized(state) { if (token.user == state.user) follower?.tokenCame() }
        return departures
    }

    private fun enter(token: UserToken, departures: Int): Boolean {
        val isNew = synchronized(state) {
            // Other pages may say who they are while the user is being signed out.
            if (state.departures != departures || token.user == state.leaving) return false
            (token.user != state.user).also { state.user = token.user }
        }
        if (!isNew) {
            registration.tryAgain()
            return false
        }
        try {
            registration.signedIn(token.user) { onUserChange(token.user) }
        } finally {
            // Not before: until then the number is the former user's.
            synchronized(state) { if (state.departures == departures && state.user == token.user) follower?.signedIn() }
        }
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
                follower?.signedOut()
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
