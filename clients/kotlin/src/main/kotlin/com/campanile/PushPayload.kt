package com.campanile

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
    /** True if the user sees it. */
    val isAlert: Boolean = true
) {
    companion object {
        /**
         * Reads a message's `data`, in which every value is text. An alert has a notification part as well; a message of data
         * alone shows nothing, and sets the number if its `type` is `badge`. A producer's own `type` comes in an alert.
         *
         * @param hasNotification whether the message has a notification part (`RemoteMessage.notification != null`).
         * @param notificationCount that part's; null when it has none.
         */
        fun read(data: Map<String, String>, hasNotification: Boolean, notificationCount: Int? = null): PushPayload {
            val isBadge = data["type"] == "badge" && !hasNotification
            return PushPayload(
                data["id"], data["deepLink"], data["category"],
                if (isBadge) data["count"]?.toLongOrNull() else notificationCount?.toLong(),
                data["badgeVersion"]?.toLongOrNull(), hasNotification
            )
        }

        /**
         * Reads the extras of the intent of a tapped push, which hold the message's `data` beside Android's own.
         *
         * @return null for an intent of another kind, such as the launcher's.
         */
        fun tapped(extra: (String) -> String?): PushPayload? {
            val id = extra("id") ?: return null
            return PushPayload(id, extra("deepLink"), extra("category"), null, extra("badgeVersion")?.toLongOrNull())
        }
    }
}
