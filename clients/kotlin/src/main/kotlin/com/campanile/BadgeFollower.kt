package com.campanile

/**
 * Has the number follow the server by a stream while the app is in the foreground. Its functions return at once.
 *
 * @param inBackground runs what waits for the network on another thread, and takes what it throws.
 */
class BadgeFollower(
    private val api: CampanileAPI, private val badge: BadgeStore, private val inBackground: (work: () -> Unit) -> Unit
) {
    private var isInForeground = false
    private var stream: EventStream? = null

    /** True if a page's token came while [stream] ran: the stream may have been about to end for want of it. */
    private var hasFreshToken = false

    fun cameToForeground() = synchronized(this) {
        isInForeground = true
        begin()
    }

    fun wentToBackground() = synchronized(this) {
        isInForeground = false
        end()
    }

    /** A fresh token was accepted: follows again if the stream ended with the last one. */
    internal fun tokenCame() = synchronized(this) {
        hasFreshToken = stream != null
        begin()
    }

    /** Follows anew: a stream belongs to the user of its first connection. */
    internal fun signedIn() = synchronized(this) {
        end()
        begin()
    }

    internal fun signedOut() = synchronized(this) { end() }

    // Called with the lock.

    private fun begin() {
        if (!isInForeground || stream != null) return
        val next = api.events()
        stream = next
        inBackground {
            try {
                badge.follow(next)
            } finally {
                synchronized(this) { ended(next) }
            }
        }
    }

    private fun ended(one: EventStream) {
        if (stream !== one) return
        stream = null
        if (hasFreshToken) begin()
        hasFreshToken = false
    }

    private fun end() {
        val ended = stream ?: return
        stream = null
        hasFreshToken = false
        inBackground { ended.close() }
    }
}
