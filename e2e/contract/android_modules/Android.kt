// Declares what examples/android and docs/integration.md use of Android's own classes, from API 36's documentation: no source of it is here to
// compare with. Java's getters and setters are Kotlin's properties. Bodies are never run.

package android

class Manifest {
    object permission {
        const val POST_NOTIFICATIONS: String = "android.permission.POST_NOTIFICATIONS"
    }
}

package android.app

import android.content.Context
import android.content.ContextWrapper
import android.content.Intent

open class Activity : ContextWrapper() {
    open val intent: Intent get() = declared()
    fun runOnUiThread(action: () -> Unit) {}
    protected open fun onCreate(savedInstanceState: android.os.Bundle?) {}
    protected open fun onStart() {}
    protected open fun onStop() {}
    protected open fun onDestroy() {}
    protected open fun onSaveInstanceState(outState: android.os.Bundle) {}
    open fun setContentView(layoutResID: Int) {}
    open fun <T : android.view.View> findViewById(id: Int): T = declared()
}

open class Application : ContextWrapper() {
    open fun onCreate() {}
}

open class Service : ContextWrapper()

class Notification {
    @JvmField val extras: android.os.Bundle = declared()
    val group: String? get() = declared()
}

class NotificationChannel(id: String, name: CharSequence, importance: Int) {
    fun setShowBadge(showBadge: Boolean) {}
}

class NotificationManager {
    fun createNotificationChannel(channel: NotificationChannel) {}
    fun getNotificationChannel(channelId: String): NotificationChannel? = declared()
    val activeNotifications: Array<android.service.notification.StatusBarNotification> get() = declared()
    fun cancel(tag: String?, id: Int) {}
    fun cancelAll() {}

    companion object {
        const val IMPORTANCE_DEFAULT: Int = 3
    }
}

class PendingIntent {
    companion object {
        const val FLAG_UPDATE_CURRENT: Int = 134217728
        const val FLAG_IMMUTABLE: Int = 67108864
        fun getActivity(context: Context, requestCode: Int, intent: Intent, flags: Int): PendingIntent = declared()
        fun getBroadcast(context: Context, requestCode: Int, intent: Intent, flags: Int): PendingIntent = declared()
    }
}

package android.content

import java.io.InputStream

abstract class BroadcastReceiver {
    abstract fun onReceive(context: Context, intent: Intent)
    fun goAsync(): PendingResult = declared()

    class PendingResult {
        fun finish() {}
    }
}

abstract class Context {
    open val assets: android.content.res.AssetManager get() = declared()
    open val resources: android.content.res.Resources get() = declared()
    open val packageName: String get() = declared()
    fun getString(resId: Int): String = declared()
    fun getString(resId: Int, vararg formatArgs: Any?): String = declared()
    fun <T> getSystemService(serviceClass: Class<T>): T = declared()
    open fun getSharedPreferences(name: String, mode: Int): SharedPreferences = declared()

    companion object {
        const val MODE_PRIVATE: Int = 0
    }
}

open class ContextWrapper : Context()

open class Intent(packageContext: Context, cls: Class<*>) {
    open val flags: Int get() = declared()
    open val dataString: String? get() = declared()
    fun addFlags(flags: Int): Intent = declared()
    fun putExtra(name: String, value: String?): Intent = declared()
    fun getStringExtra(name: String): String? = declared()

    companion object {
        const val FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY: Int = 1048576
        const val FLAG_ACTIVITY_SINGLE_TOP: Int = 536870912
    }
}

interface SharedPreferences {
    fun getString(key: String, defValue: String?): String?
    fun getLong(key: String, defValue: Long): Long
    fun edit(): Editor

    interface Editor {
        fun putString(key: String, value: String?): Editor
        fun putLong(key: String, value: Long): Editor
        fun putInt(key: String, value: Int): Editor
        fun apply()
    }
}

package android.content.res

class AssetManager {
    fun open(fileName: String): java.io.InputStream = declared()
}

open class Resources {
    open fun getIdentifier(name: String?, defType: String?, defPackage: String?): Int = declared()
}

package android.graphics

class Bitmap

class BitmapFactory {
    open class Options {
        @JvmField var inJustDecodeBounds: Boolean = false
        @JvmField var inSampleSize: Int = 0
        @JvmField var outWidth: Int = 0
        @JvmField var outHeight: Int = 0
    }

    companion object {
        fun decodeByteArray(data: ByteArray?, offset: Int, length: Int, opts: Options?): Bitmap? = declared()
    }
}

package android.graphics.drawable

class Icon

package android.os

class Bundle {
    fun getInt(key: String): Int = declared()
    fun putInt(key: String, value: Int) {}
    fun getString(key: String?): String? = declared()
    fun putString(key: String?, value: String?) {}
}

class Build {
    object VERSION {
        val SDK_INT: Int = 0
    }

    object VERSION_CODES {
        const val TIRAMISU: Int = 33
    }
}

package android.service.notification

open class StatusBarNotification {
    open val id: Int get() = declared()
    open val tag: String? get() = declared()
    open val notification: android.app.Notification get() = declared()
}

package android.util

class Log {
    companion object {
        fun w(tag: String?, tr: Throwable?): Int = declared()
        fun w(tag: String?, msg: String?, tr: Throwable?): Int = declared()
    }
}

interface AttributeSet

package android.webkit

import android.content.Context
import android.util.AttributeSet

open class WebView(context: Context, attrs: AttributeSet?) : android.view.View()

package android.view

open class View {
    fun post(action: () -> Unit): Boolean = declared()
}

package org.json

class JSONObject() {
    constructor(json: String) : this()

    fun put(name: String, value: Any?): JSONObject = declared()
}
