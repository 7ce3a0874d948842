package com.campanile

import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put

/**
 * Keeps the number right when a push comes or is tapped, and when the inbox shows. Its functions wait for the network, except
 * [arrived].
 *
 * @param inboxPath the inbox's deep link.
 */
class PushHandler(private val api: CampanileAPI, private val badge: BadgeStore, private val inboxPath: String = "/notifications") {
    /** Says if a link, or the path and query of a page's address, is the inbox's. */
    fun isInbox(link: String?): Boolean = link?.takeWhile { it != '?' && it != '#' }?.trimStart('/') == inboxPath.trimStart('/')

    /**
     * Takes the number of a push that arrives while the app runs.
     *
     * @return whether it brought a newer number.
     */
    fun arrived(push: PushPayload): Boolean = badge.apply(push)

    /** Takes a push that arrives while the user sees the inbox: its version counts, its number doesn't. Clears the badge. */
    fun arrivedInInbox(push: PushPayload) {
        badge.apply(push.copy(badge = 0))
        inboxAppeared()
    }

    /**
     * Handles a tap: marks the notification as read, and takes the number of the server's answer. A link to the inbox clears
     * it. A failed mark doesn't keep the number from being asked for.
     *
     * @throws CampanileFailure the first one, when all is done.
     */
    fun tapped(push: PushPayload) {
        val marking = push.id?.let { id -> failure { api.markRead(id) } }
        val number = failure { if (isInbox(push.deepLink)) inboxAppeared() else badge.refresh(api) }
        (marking ?: number)?.let { throw it }
    }

    /** Call it when the user sees the inbox: sets 0 at once, here and on the user's other devices. */
    fun inboxAppeared() {
        val failure = failure { badge.clear(api) } ?: return
        // Doesn't simply repeat a clearing, which could clear notifications that nobody has seen: this checks first.
        if (failure.mayPass) badge.refresh(api) else throw failure
    }

    /** Call it when the app comes to the foreground. */
    fun cameToForeground(isShowingInbox: Boolean) {
        if (badge.isSignedOut) return
        if (isShowingInbox) inboxAppeared() else badge.refresh(api)
    }

    private fun failure(work: () -> Unit): CampanileFailure? = try {
        work()
        null
    } catch (failure: CampanileFailure) {
        failure
    }
}

/** The messages of the bridge components `badge` and `notification-token`, as JSON text. */
object PageMessages {
    /** The page's number; null for another message. It has no version, so it is only a reason to ask the server. */
    fun count(data: String): Long? = json(data)["count"].long

    /** The signed-in user's token; null for another message. */
    fun signedIn(data: String): UserToken? {
        val json = json(data)
        return UserToken(json["userID"].text ?: return null, json["userToken"].text ?: return null)
    }

    /** The answer to `signOut`. @param message for the user; null when there is nothing to say. */
    fun signedOut(isDeleted: Boolean, message: String?): String = buildJsonObject {
        put("deleted", isDeleted)
        put("message", message)
    }.toString()
}
