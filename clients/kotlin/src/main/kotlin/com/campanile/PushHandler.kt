package com.campanile

import java.util.concurrent.locks.ReentrantLock
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put

/**
 * Keeps the number right when a push comes, is tapped or swiped away, and when the inbox shows. Has the phone remove what was read
 * elsewhere. Its functions wait for the network, except [arrived] and [isDismissed].
 *
 * @param inboxPath the inbox's deep link.
 * @param shown the phone's notifications; null leaves them as they are.
 */
class PushHandler(
    private val api: CampanileAPI,
    private val badge: BadgeStore,
    private val inboxPath: String = "/notifications",
    private val shown: ShownNotifications? = null
) {
    private val dismissals = Dismissals(badge)
    private val reading = ReentrantLock()

    /** Says if a link, or the path and query of a page's address, is the inbox's. */
    fun isInbox(link: String?): Boolean = link?.takeWhile { it != '?' && it != '#' }?.trimStart('/') == inboxPath.trimStart('/')

    /**
     * Takes the number of a push that arrives while the app runs, and removes what it dismisses. An alert is shown in either case,
     * unless it [isDismissed]: an older one says nothing of the number, and is news all the same.
     *
     * @return whether it brought a newer number.
     */
    fun arrived(push: PushPayload): Boolean {
        dismiss(push)
        return badge.apply(push)
    }

    /**
     * Takes a push that arrives while the user sees the inbox: its version counts, but not its number, unless the backend gives that.
     * Clears the badge.
     */
    fun arrivedInInbox(push: PushPayload) {
        dismiss(push)
        badge.see(push)
        inboxAppeared()
    }

    /** Says if an alert's entry was read or deleted before it came. Whoever draws it asks after [arrived], and then draws nothing. */
    fun isDismissed(push: PushPayload): Boolean = push.id?.let(dismissals.record::covers) ?: false

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

    /**
     * Handles a swipe: marks the notification as read if its category says so (`dismiss: read`), and then takes the server's number.
     * Otherwise does nothing, because a swipe isn't reading. A mark that doesn't reach the server, or has no user token, is kept for
     * [cameToForeground].
     */
    fun swiped(push: PushPayload) {
        val id = push.id
        if (!push.isReadBySwipe || id == null || badge.isSignedOut) return
        dismissals.change { it.swiped(id) }
        if (readSwiped()) badge.refresh(api)
    }

    /** Call it when the user sees the inbox: sets 0 at once, here and on the user's other devices. */
    fun inboxAppeared() {
        val failure = failure { badge.clear(api) } ?: return
        // Doesn't simply repeat a clearing, which could clear notifications that nobody has seen: this checks first.
        if (failure.mayPass) badge.refresh(api) else throw failure
    }

    /**
     * Call it when the app comes to the foreground: takes the server's number, removes what was read or deleted elsewhere, and sends
     * the swipes that the server doesn't know of. A step that fails keeps none of the others back.
     *
     * @throws CampanileFailure the first one, when all is done.
     */
    fun cameToForeground(isShowingInbox: Boolean) {
        if (badge.isSignedOut) return
        removeDismissed()
        val clearing = if (isShowingInbox) failure { inboxAppeared() } else null
        val swipes = failure { readSwiped() }
        val reconciling = failure { reconcile(hasNumber = isShowingInbox) }
        (clearing ?: swipes ?: reconciling)?.let { throw it }
    }

    // The phone's notifications

    private fun dismiss(push: PushPayload) {
        if (badge.takesPushes) dismissals.change { it.dismissed(push.dismissed, push.dismissedThrough) }
        removeDismissed()
    }

    /** Tags may be anything of the app's, and a server would call them handled: only ids are asked about, and removed. */
    private fun shownIDs(): List<String> = shown?.ids()?.filter(::isNotificationID) ?: emptyList()

    /** Removes everything that is known to be dismissed, also what the messaging library drew after it was. */
    private fun removeDismissed() = remove(shownIDs().filter(dismissals.record::covers))

    private fun remove(ids: List<String>) {
        if (ids.isNotEmpty()) shown?.remove(ids)
    }

    /** Asks the server about all that is shown; its answer has the number too. @param hasNumber the number was asked for already. */
    private fun reconcile(hasNumber: Boolean) {
        val session = badge.session
        val ids = shownIDs()
        if (ids.isEmpty()) {
            if (!hasNumber) badge.refresh(api)
            return
        }
        val failure = failure {
            badge.refresh(api) { user ->
                val answer = api.reconcile(ids, user)
                val handled = answer.handled.filter { it in ids }
                dismissals.change(session) { it.dismissed(handled) }
                remove(handled)
                answer.badge
            }
        } ?: return
        // Asks for the number alone: the server may be older than the call.
        if (!hasNumber && !failure.mayPass) badge.refresh(api)
        throw failure
    }

    /** Marks what was swiped away as read. Another thread that does so takes these too. @return whether something was marked here. */
    private fun readSwiped(): Boolean {
        var hasMarked = false
        while (dismissals.record.swiped.isNotEmpty() && reading.tryLock()) {
            try {
                while (true) {
                    val (session, user) = Pair(badge.session, badge.user)
                    val id = dismissals.record.swiped.firstOrNull() ?: break
                    val failure = failure { api.markRead(id, true, user) }
                    if (failure != null && (failure.mayPass || failure.kind == CampanileFailure.Kind.SIGNED_OUT)) throw failure
                    // Also what the server refuses: it would refuse it again.
                    dismissals.change(session) { it.settled(id) }
                    hasMarked = true
                }
            } finally {
                reading.unlock()
            }
        }
        return hasMarked
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
