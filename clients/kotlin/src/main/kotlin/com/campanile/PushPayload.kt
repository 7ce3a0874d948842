package com.campanile

import kotlinx.serialization.json.JsonObject

/** The content of a push that Firebase delivers. */
data class PushPayload(
    /** The notification's id; null in a push that only sets the number. */
    val id: String? = null,
    /** As the producer wrote it. */
    val deepLink: String? = null,
    val category: String? = null,
    /** The number; null in an alert while the number is 0, because no alert carries a 0. */
    val badge: Long? = null,
    val badgeVersion: Long? = null,
    /** True if the user sees it, or is to. */
    val isAlert: Boolean = true,
    /** What the app draws itself; null where the message has a notification part, and in a tapped push. */
    val alert: PushAlert? = null,
    /** The ids of notifications that were read or deleted elsewhere, for the phone to remove. */
    val dismissed: List<String> = emptyList(),
    /** A notification's id: this one and everything older is to be removed. */
    val dismissedThrough: String? = null,
    /** True if the user reads it by swiping it away: its category says `dismiss: read`. */
    val isReadBySwipe: Boolean = false
) {
    companion object {
        /**
         * Reads a message's `data`, in which every value is text. An alert has a notification part as well, or an `alert` that the
         * app draws ([PushAlert]); any other message shows nothing, and sets the number if its `type` is `badge`. A producer's own
         * `type` and `count` come in an alert, and say nothing of the number.
         *
         * An `alert` that isn't a JSON object's text makes neither an alert nor a number: there is nothing to draw, and as the
         * number can't be read, the one that is there stays. Beside a notification part `alert` is the producer's own.
         *
         * Any of them may say what is to be removed (`dismissed`, `dismissedThrough`), and a message of the `type` `dismiss` says
         * nothing else. What isn't an id there is passed over.
         *
         * @param hasNotification whether the message has a notification part (`RemoteMessage.notification != null`).
         * @param notificationCount that part's; null when it has none.
         */
        fun read(data: Map<String, String>, hasNotification: Boolean, notificationCount: Int? = null): PushPayload {
            val alert = data["alert"]?.takeIf { !hasNotification }?.let { json(it) as? JsonObject }
            val badge = when {
                hasNotification -> notificationCount?.toLong()
                "alert" in data -> alert["count"].long
                data["type"] == "badge" -> data["count"]?.toLongOrNull()
                else -> null
            }
            return PushPayload(
                data["id"], data["deepLink"], data["category"], badge, data["badgeVersion"]?.toLongOrNull(),
                hasNotification || alert != null, alert?.let(PushAlert::read),
                data["dismissed"]?.split(',')?.filter(::isNotificationID) ?: emptyList(),
                data["dismissedThrough"]?.takeIf(::isNotificationID), data["dismiss"] == "read"
            )
        }

        /**
         * Reads the extras of the intent of a tapped push, which hold the message's `data` beside Android's own; also of one that
         * the user swiped away, where the app has given its `deleteIntent` the same extras.
         *
         * @return null for an intent of another kind, such as the launcher's.
         */
        fun tapped(extra: (String) -> String?): PushPayload? {
            val id = extra("id") ?: return null
            return PushPayload(
                id, extra("deepLink"), extra("category"), null, extra("badgeVersion")?.toLongOrNull(),
                isReadBySwipe = extra("dismiss") == "read"
            )
        }
    }
}
