package com.example.shop

import android.app.PendingIntent
import android.content.Intent
import androidx.core.app.NotificationCompat
import androidx.core.app.NotificationManagerCompat
import com.google.firebase.messaging.FirebaseMessagingService
import com.google.firebase.messaging.RemoteMessage

/**
 * What comes from FCM. In the background the messaging library shows an alert by itself, and a tap on it starts MainActivity
 * with the message's data as extras; in the foreground the alert comes here. Badge pushes (`badge.android_data: true`) always do.
 */
class PushService : FirebaseMessagingService() {
    override fun onNewToken(token: String) = Campanile.register(token)

    override fun onMessageReceived(message: RemoteMessage) {
        val version = message.data["badgeVersion"]?.toLongOrNull()
        val alert = message.notification
        // A producer's own data may have a `type` too, so the notification part is asked first.
        if (alert != null) {
            // No alert carries a 0, so one with a version and no number says that it is 0.
            if (version != null) Campanile.apply(alert.notificationCount ?: 0, version)
            show(message, alert)
        } else if (message.data["type"] == "badge") {
            val count = message.data["count"]?.toIntOrNull() ?: return
            if (version == null || !Campanile.apply(count, version)) return
            // Android has no number to set: launchers count what is shown, so 0 takes it away.
            if (count == 0) NotificationManagerCompat.from(this).cancelAll()
        }
    }

    private fun show(message: RemoteMessage, alert: RemoteMessage.Notification) {
        val id = message.data["id"] ?: message.messageId ?: return
        val intent = Intent(this, MainActivity::class.java).addFlags(Intent.FLAG_ACTIVITY_SINGLE_TOP)
        message.data.forEach { (key, value) -> intent.putExtra(key, value) }
        val flags = PendingIntent.FLAG_UPDATE_CURRENT or PendingIntent.FLAG_IMMUTABLE
        val notification = NotificationCompat.Builder(this, alert.channelId ?: Campanile.CHANNEL)
            .setSmallIcon(R.drawable.ic_notification)
            .setContentTitle(alert.title)
            .setContentText(alert.body)
            .setAutoCancel(true)
            .setContentIntent(PendingIntent.getActivity(this, id.hashCode(), intent, flags))
        alert.notificationCount?.let { notification.setNumber(it) }
        NotificationManagerCompat.from(this).notify(id.hashCode(), notification.build())
    }
}
