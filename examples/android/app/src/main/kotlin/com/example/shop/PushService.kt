package com.example.shop

import androidx.core.app.NotificationManagerCompat
import com.campanile.PushAlert
import com.campanile.PushPayload
import com.google.firebase.messaging.FirebaseMessagingService
import com.google.firebase.messaging.RemoteMessage

/**
 * Takes Firebase's messages. In the background the messaging library shows an alert with a notification part by itself, and a tap
 * on it starts MainActivity with the message's data as extras; in the foreground the alert comes here. Alerts of data alone
 * (`display: app`), badge pushes (`badge.android_data: true`) and those that dismiss alerts always do.
 */
class PushService : FirebaseMessagingService() {
    /** In an app that has opted in to installation IDs, which gets no token. */
    override fun onRegistered(installationId: String) = Campanile.registerInstallation(installationId)

    @Suppress("OVERRIDE_DEPRECATION") // Called in apps that haven't.
    override fun onNewToken(token: String) = Campanile.register(token)

    override fun onMessageReceived(message: RemoteMessage) {
        val part = message.notification
        val push = PushPayload.read(message.data, part != null, part?.notificationCount)
        when {
            !push.isAlert -> if (Campanile.pushes.arrived(push) && push.badge == 0L) {
                // Android has no number to set: launchers count what is shown, so 0 takes it away.
                NotificationManagerCompat.from(this).cancelAll()
            }
            Campanile.isInboxShown -> Campanile.arrivedInInbox(push)
            else -> {
                // Shown also where its number is older than the one that is known.
                Campanile.pushes.arrived(push)
                // Read elsewhere before it came.
                if (Campanile.pushes.isDismissed(push)) return
                val words = PushAlert(title = part?.title, body = part?.body, channelId = part?.channelId, collapseKey = part?.tag)
                show(message, push, push.alert ?: words)
            }
        }
    }

    /** Firebase calls this on a thread of its own, and waits before it brings the next message. */
    private fun show(message: RemoteMessage, push: PushPayload, alert: PushAlert) {
        val tag = alert.collapseKey ?: push.id ?: message.messageId ?: return
        DrawnAlert(this, push, alert, tag).show(message.data - "alert")
    }
}
