package com.example.shop

import android.app.PendingIntent
import android.content.Intent
import androidx.core.app.NotificationCompat
import androidx.core.app.NotificationManagerCompat
import com.campanile.PushPayload
import com.google.firebase.messaging.FirebaseMessagingService
import com.google.firebase.messaging.RemoteMessage

/**
 * Takes Firebase's messages. In the background the messaging library shows an alert by itself, and a tap on it starts
 * MainActivity with the message's data as extras; in the foreground the alert comes here. Badge pushes
 * (`badge.android_data: true`) always do.
 */
class PushService : FirebaseMessagingService() {
    override fun onNewToken(token: String) = Campanile.register(token)

    override fun onMessageReceived(message: RemoteMessage) {
        val alert = message.notification
        val push = PushPayload.read(message.data, alert != null, alert?.notificationCount)
        when {
            alert == null -> if (Campanile.pushes.arrived(push) && push.badge == 0L) {
                // Android has no number to set: launchers count what is shown, so 0 takes it away.
                NotificationManagerCompat.from(this).cancelAll()
            }
            Campanile.isInboxShown -> Campanile.arrivedInInbox(push)
            else -> {
                Campanile.pushes.arrived(push)
                show(message, alert)
            }
        }
    }

    /** As the messaging library does it in the background: the same tag, so a later one of the same key replaces it. */
    private fun show(message: RemoteMessage, alert: RemoteMessage.Notification) {
        val tag = alert.tag ?: message.data["id"] ?: message.messageId ?: return
        val intent = Intent(this, MainActivity::class.java).addFlags(Intent.FLAG_ACTIVITY_SINGLE_TOP)
        message.data.forEach { (key, value) -> intent.putExtra(key, value) }
        val flags = PendingIntent.FLAG_UPDATE_CURRENT or PendingIntent.FLAG_IMMUTABLE
        val notification = NotificationCompat.Builder(this, Channels.known(this, alert.channelId))
            .setSmallIcon(R.drawable.ic_notification)
            .setContentTitle(alert.title)
            .setContentText(alert.body)
            .setAutoCancel(true)
            .setContentIntent(PendingIntent.getActivity(this, tag.hashCode(), intent, flags))
        alert.notificationCount?.let { notification.setNumber(it) }
        // Shows nothing while the user hasn't allowed notifications.
        NotificationManagerCompat.from(this).notify(tag, 0, notification.build())
    }
}
