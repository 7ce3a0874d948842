package com.example.shop

import android.app.NotificationManager
import android.app.PendingIntent
import android.content.Context
import android.content.Intent
import android.graphics.Bitmap
import androidx.core.app.NotificationCompat
import androidx.core.app.NotificationManagerCompat
import com.campanile.PushAlert
import com.campanile.PushPayload
import java.util.IllegalFormatException

/**
 * An alert that the app draws: every one of data alone (`display: app`), and others in the foreground. As the messaging library
 * does it in the background: by the same tag, so that a later one of the same key replaces it.
 */
class DrawnAlert(private val context: Context, private val push: PushPayload, private val alert: PushAlert, private val tag: String) {
    private val manager = NotificationManagerCompat.from(context)

    /** One that is there: Android drops an alert of a channel that isn't. */
    private val channel = Channels.known(context, alert.channelId, push.category)

    /**
     * Shows it at once, and then waits for its picture, which is silently put in: never on the main thread. Shows nothing while
     * the user hasn't allowed notifications.
     *
     * @param extras what a tap brings to MainActivity, and a swipe to SwipeReceiver.
     */
    fun show(extras: Map<String, String>) {
        val notification = begun()
            .setContentTitle(words(alert.localizedTitle, alert.title))
            .setContentText(words(alert.localizedBody, alert.body))
            .setSubText(alert.subtitle)
            .setStyle(NotificationCompat.BigTextStyle().bigText(words(alert.localizedBody, alert.body)))
            .setContentIntent(opening(tag.hashCode(), extras))
            .addExtras(ShownAlerts.extras(push.id))
        if (alert.isSilent) notification.setSilent(true)
        if (push.isReadBySwipe) notification.setDeleteIntent(swiping(tag.hashCode(), extras))
        push.badge?.let { notification.setNumber(it.coerceIn(0, Int.MAX_VALUE.toLong()).toInt()) }
        manager.notify(tag, ShownAlerts.ALERT, notification.build())
        alert.threadId?.let { showThread(it) }

        val picture = alert.imageUrl?.let(Pictures::fetch) ?: return
        val style = NotificationCompat.BigPictureStyle().bigPicture(picture).bigLargeIcon(null as Bitmap?)
        // What the user has tapped, swiped away or seen in the inbox since doesn't come back.
        if (!isShown) return
        notification.setLargeIcon(picture).setStyle(style).setOnlyAlertOnce(true)
        manager.notify(tag, ShownAlerts.ALERT, notification.build())
    }

    /** The line above a thread's alerts. Android shows it from the second one on, and takes it away with the last. */
    private fun showThread(thread: String) {
        // Not the request of an alert with that tag: an intent of the same request has the extras of the last that was made.
        val line = begun().setGroupSummary(true).setContentIntent(opening("thread $thread".hashCode(), emptyMap()))
        manager.notify(thread, ShownAlerts.THREAD, line.build())
    }

    /** What an alert and its thread's line have in common. The sound is the channel's: Android 8 and later take no other. */
    private fun begun(): NotificationCompat.Builder {
        val notification = NotificationCompat.Builder(context, channel)
            .setSmallIcon(alert.icon?.let { resource(it, "drawable") } ?: R.drawable.ic_notification)
            .setGroup(alert.threadId)
            .setGroupAlertBehavior(NotificationCompat.GROUP_ALERT_CHILDREN)
            .setAutoCancel(true)
        alert.color?.let { notification.setColor(it) }
        when (alert.visibility) {
            PushAlert.Visibility.PRIVATE -> notification.setVisibility(NotificationCompat.VISIBILITY_PRIVATE)
            PushAlert.Visibility.PUBLIC -> notification.setVisibility(NotificationCompat.VISIBILITY_PUBLIC)
            PushAlert.Visibility.SECRET -> notification.setVisibility(NotificationCompat.VISIBILITY_SECRET)
            null -> {} // As the user has set it.
        }
        return notification
    }

    private fun opening(request: Int, extras: Map<String, String>): PendingIntent {
        val intent = Intent(context, MainActivity::class.java).addFlags(Intent.FLAG_ACTIVITY_SINGLE_TOP)
        extras.forEach { (key, value) -> intent.putExtra(key, value) }
        return PendingIntent.getActivity(context, request, intent, FLAGS)
    }

    /** Android sends it when the user swipes the alert away, and neither after a tap nor when the app removes the alert. */
    private fun swiping(request: Int, extras: Map<String, String>): PendingIntent {
        val intent = Intent(context, SwipeReceiver::class.java)
        extras.forEach { (key, value) -> intent.putExtra(key, value) }
        return PendingIntent.getBroadcast(context, request, intent, FLAGS)
    }

    private val isShown: Boolean
        get() = context.getSystemService(NotificationManager::class.java).activeNotifications
            .any { it.tag == tag && it.id == ShownAlerts.ALERT }

    /** The app's own text of a key, or else the message's: the app may be older than the key, and the text want other arguments. */
    private fun words(localized: PushAlert.LocalizedText?, plain: String?): String? {
        if (localized == null) return plain
        val id = resource(localized.key, "string") ?: return plain
        if (localized.arguments.isEmpty()) return context.getString(id)
        return try {
            context.getString(id, *localized.arguments.toTypedArray())
        } catch (_: IllegalFormatException) {
            plain
        }
    }

    /** Null without such a resource. Digits aren't asked for: Android would take them for a resource's number. */
    private fun resource(name: String, kind: String): Int? =
        if (NAME.matches(name)) context.resources.getIdentifier(name, kind, context.packageName).takeIf { it != 0 } else null

    private companion object {
        const val FLAGS = PendingIntent.FLAG_UPDATE_CURRENT or PendingIntent.FLAG_IMMUTABLE
        val NAME = Regex("[A-Za-z_][A-Za-z0-9_.]*")
    }
}
