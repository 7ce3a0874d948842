// Declares what examples/android uses of AndroidX (activity, appcompat, core, fragment, navigation), from its documentation: no source of it is
// here to compare with. Bodies are never run.

package androidx.activity

import android.content.Intent

open class ComponentActivity : android.app.Activity() {
    protected open fun onNewIntent(intent: Intent) {}
    fun <I, O> registerForActivityResult(
        contract: androidx.activity.result.contract.ActivityResultContract<I, O>,
        callback: (O) -> Unit
    ): androidx.activity.result.ActivityResultLauncher<I> = declared()
}

fun ComponentActivity.enableEdgeToEdge() {}

package androidx.activity.result

abstract class ActivityResultLauncher<I> {
    fun launch(input: I) {}
}

package androidx.activity.result.contract

abstract class ActivityResultContract<I, O>

class ActivityResultContracts {
    class RequestPermission : ActivityResultContract<String, Boolean>()
}

package androidx.appcompat.app

open class AppCompatActivity : androidx.fragment.app.FragmentActivity() {
    override fun onCreate(savedInstanceState: android.os.Bundle?) {}
}

package androidx.core.app

import android.app.Notification
import android.app.PendingIntent
import android.content.Context
import android.graphics.Bitmap
import android.graphics.drawable.Icon

class NotificationCompat {
    class Builder(context: Context, channelId: String) {
        fun setSmallIcon(icon: Int): Builder = declared()
        fun setContentTitle(title: CharSequence?): Builder = declared()
        fun setContentText(text: CharSequence?): Builder = declared()
        fun setSubText(text: CharSequence?): Builder = declared()
        fun setAutoCancel(autoCancel: Boolean): Builder = declared()
        fun setContentIntent(intent: PendingIntent?): Builder = declared()
        fun setDeleteIntent(intent: PendingIntent?): Builder = declared()
        fun addExtras(extras: android.os.Bundle?): Builder = declared()
        fun setNumber(number: Int): Builder = declared()
        fun setColor(argb: Int): Builder = declared()
        fun setVisibility(visibility: Int): Builder = declared()
        fun setGroup(groupKey: String?): Builder = declared()
        fun setGroupSummary(isGroupSummary: Boolean): Builder = declared()
        fun setGroupAlertBehavior(groupAlertBehavior: Int): Builder = declared()
        fun setOnlyAlertOnce(onlyAlertOnce: Boolean): Builder = declared()
        fun setSilent(silent: Boolean): Builder = declared()
        fun setLargeIcon(icon: Bitmap?): Builder = declared()
        fun setLargeIcon(icon: Icon?): Builder = declared()
        fun setStyle(style: Style?): Builder = declared()
        fun build(): Notification = declared()
    }

    abstract class Style

    class BigTextStyle : Style() {
        fun bigText(cs: CharSequence?): BigTextStyle = declared()
    }

    class BigPictureStyle : Style() {
        fun bigPicture(b: Bitmap?): BigPictureStyle = declared()
        fun bigPicture(i: Icon?): BigPictureStyle = declared()
        fun bigLargeIcon(b: Bitmap?): BigPictureStyle = declared()
        fun bigLargeIcon(i: Icon?): BigPictureStyle = declared()
    }

    companion object {
        const val VISIBILITY_PUBLIC: Int = 1
        const val VISIBILITY_PRIVATE: Int = 0
        const val VISIBILITY_SECRET: Int = -1
        const val GROUP_ALERT_CHILDREN: Int = 2
    }
}

class NotificationManagerCompat {
    fun notify(tag: String?, id: Int, notification: Notification) {}
    fun cancelAll() {}
    fun areNotificationsEnabled(): Boolean = declared()

    companion object {
        fun from(context: Context): NotificationManagerCompat = declared()
    }
}

package androidx.fragment.app

open class Fragment {
    val activity: FragmentActivity? get() = declared()
    open fun onStart() {}
}

open class FragmentActivity : androidx.activity.ComponentActivity()

interface FragmentOnAttachListener

package androidx.lifecycle

interface DefaultLifecycleObserver

package androidx.navigation

open class NavController {
    interface OnDestinationChangedListener
}

package androidx.navigation.fragment

open class NavHostFragment : androidx.fragment.app.Fragment()

class FragmentNavigator {
    interface Extras
}
