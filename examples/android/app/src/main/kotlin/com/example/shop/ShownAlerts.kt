package com.example.shop

import android.app.NotificationManager
import android.content.Context
import android.os.Bundle
import android.service.notification.StatusBarNotification
import com.campanile.ShownNotifications

/** The alerts in the notification shade, whoever drew them: this app or, in the background, the messaging library. */
class ShownAlerts(context: Context) : ShownNotifications {
    private val manager = context.getSystemService(NotificationManager::class.java)

    override fun ids(): List<String> = manager.activeNotifications.mapNotNull(::notification)

    override fun remove(ids: List<String>) {
        val (gone, left) = manager.activeNotifications.partition { notification(it) in ids }
        gone.forEach { manager.cancel(it.tag, it.id) }
        // Android takes a thread's line away with the alert that the user removes last, not with the app's.
        val threads = left.filter { it.id != THREAD }.mapNotNull { it.notification.group }
        left.filter { it.id == THREAD && it.notification.group !in threads }.forEach { manager.cancel(it.tag, it.id) }
    }

    /** Finds an alert's id in its extras, where this app drew it, or in its tag. Null for a thread's line. */
    private fun notification(shown: StatusBarNotification): String? =
        if (shown.id == ALERT) shown.notification.extras.getString(ID) ?: shown.tag else null

    companion object {
        /** The id of all alerts, the messaging library's too: their tags tell them apart. */
        const val ALERT = 0

        /** The id of all threads' lines. */
        const val THREAD = 1
        private const val ID = "campanileID"

        /** Makes the extras that name an alert's notification: its tag may be a `collapse_key`. */
        fun extras(id: String?): Bundle = Bundle().apply { putString(ID, id) }
    }
}
