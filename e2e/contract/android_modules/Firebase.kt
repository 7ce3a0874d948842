// Declares what examples/android and docs/integration.md use of Firebase (firebase-common, firebase-messaging 25.1.2, play-services-tasks).
// Made again from its documentation, and for firebase-messaging from firebase-messaging/api.txt in Google's repository firebase-android-sdk,
// which lists the public API: the library itself isn't here to compare with. Java's getters are Kotlin's properties. Bodies are never run.

package com.google.firebase

import android.content.Context

class FirebaseApp {
    companion object {
        fun getApps(context: Context): List<FirebaseApp> = declared()
    }
}

package com.google.firebase.messaging

import com.google.android.gms.tasks.Task

class FirebaseMessaging {
    /** Fails with IllegalStateException unless the merged manifest sets firebase_messaging_installation_id_enabled to true. */
    fun register(): Task<Void> = declared()

    /** Fails with IllegalStateException if it does. */
    @Deprecated("Use register().")
    val token: Task<String> get() = declared()

    companion object {
        fun getInstance(): FirebaseMessaging = declared()
    }
}

open class FirebaseMessagingService : android.app.Service() {
    open fun onRegistered(installationId: String) {}

    @Deprecated("Override onRegistered().")
    open fun onNewToken(token: String) {}
    open fun onMessageReceived(message: RemoteMessage) {}
}

class RemoteMessage {
    val data: Map<String, String> get() = declared()
    val notification: Notification? get() = declared()
    val messageId: String? get() = declared()

    class Notification {
        val title: String? get() = declared()
        val body: String? get() = declared()
        val channelId: String? get() = declared()
        val tag: String? get() = declared()
        val notificationCount: Int? get() = declared()
    }
}

package com.google.android.gms.tasks

class Task<TResult> {
    val isSuccessful: Boolean get() = declared()
    val result: TResult get() = declared()
    val exception: Exception? get() = declared()
    fun addOnCompleteListener(listener: (Task<TResult>) -> Unit): Task<TResult> = declared()
    fun addOnSuccessListener(listener: (TResult) -> Unit): Task<TResult> = declared()
    fun addOnFailureListener(listener: (Exception) -> Unit): Task<TResult> = declared()
}
