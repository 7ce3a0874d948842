package com.example.shop

import android.app.NotificationChannel
import android.app.NotificationManager
import android.content.Context

/**
 * The channels of alerts. A push names its category's: the category's name, or `categories.NAME.android.channel_id` of the
 * server. Android drops an alert of a channel that isn't there, so each category of the server needs one here.
 */
object Channels {
    fun create(context: Context) {
        val manager = context.getSystemService(NotificationManager::class.java)
        val channels = listOf(
            R.string.default_channel to R.string.default_channel_name,
            R.string.notice_channel to R.string.notice_channel_name
        )
        for ((id, name) in channels) {
            val channel = NotificationChannel(context.getString(id), context.getString(name), NotificationManager.IMPORTANCE_DEFAULT)
            channel.setShowBadge(true)
            manager.createNotificationChannel(channel)
        }
    }

    /** @return the first of the channels that the app has, or the default one: a name may be newer than the app. */
    fun known(context: Context, vararg ids: String?): String {
        val manager = context.getSystemService(NotificationManager::class.java)
        return ids.find { it != null && manager.getNotificationChannel(it) != null } ?: context.getString(R.string.default_channel)
    }
}
