package com.campanile

import java.util.Base64
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/**
 * The user token of an app whose pages hand it over, as in a Hotwire Native app with a bridge component. Pass it to
 * [CampanileAPI] as its `userToken`.
 *
 * A call without a token, or with a refused one, waits for the next page. Pages don't always come in the order in which they
 * were made, so the tokens' claims `iat`, or `exp`, decide which is fresher.
 *
 * @param patience how long a call waits for a page, in milliseconds.
 */
class HandedTokens(private val patience: Long = 10_000) : (String?) -> UserToken? {
    private val lock = ReentrantLock()
    private val handed = lock.newCondition()
    private var held: UserToken? = null
    private var isSignedOut = false

    /** The freshest accepted token, even if it was refused since, or its user has signed out. */
    private var newest: UserToken? = null
    private val refused = ArrayDeque<String>()

    /**
     * Takes a page's token.
     *
     * @return false for an old page's token, which changes nothing: the server has refused it, there is a fresher one, or its
     *   user has signed out since.
     */
    fun hand(token: UserToken): Boolean = lock.withLock {
        if (token.text in refused || isFromBefore(token)) return false
        newest = token
        held = token
        isSignedOut = false
        handed.signalAll()
        true
    }

    /** Ends this user's session. Keeps the token of another user who has signed in meanwhile. */
    fun signedOut(user: String) = lock.withLock {
        if (held?.user.let { it == null || it == user }) {
            held = null
            isSignedOut = true
            handed.signalAll()
        }
    }

    /**
     * @return the newest token that wasn't refused; null when nobody is signed in, when no page came in time, or when the next
     *   page is another user's.
     */
    override fun invoke(refused: String?): UserToken? = lock.withLock {
        refused?.let(::remember)
        if (held != null || isSignedOut) return held
        val user = newest?.user
        var nanoseconds = TimeUnit.MILLISECONDS.toNanos(patience)
        while (held == null && !isSignedOut && nanoseconds > 0) nanoseconds = handed.awaitNanos(nanoseconds)
        held.takeIf { user == null || user == it?.user }
    }

    private fun remember(token: String) {
        if (held?.text == token) held = null
        if (token in refused) return
        refused += token
        if (refused.size > REFUSED_TOKENS) refused.removeFirst()
    }

    private fun isFromBefore(token: UserToken): Boolean {
        val before = newest ?: return false
        if (isSignedOut && token.text == before.text) return true
        val (issued, ends) = claims(token)
        val (issuedBefore, endsBefore) = claims(before)
        if (issued != null && issuedBefore != null) return issued < issuedBefore
        // Two users' tokens may have different lifetimes.
        return token.user == before.user && ends != null && endsBefore != null && ends < endsBefore
    }

    /** The claims `iat` and `exp`, unverified: only the server can verify the signature. */
    private fun claims(token: UserToken): Pair<Double?, Double?> {
        val parts = token.text.split('.')
        val claims = try {
            json(String(Base64.getUrlDecoder().decode(parts.getOrNull(1) ?: "")))
        } catch (_: IllegalArgumentException) {
            return Pair(null, null)
        }
        return Pair(claims["iat"]?.toString()?.toDoubleOrNull(), claims["exp"]?.toString()?.toDoubleOrNull())
    }

    private companion object {
        const val REFUSED_TOKENS = 8
    }
}
