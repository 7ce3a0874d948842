// Declares what examples/android and docs/integration.md use of Firebase (firebase-common, firebase-messaging 25, play-services-tasks), from its
// documentation: no source of it is here to compare with. Java's getters are Kotlin's properties. Bodies are never run.

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
    val token: Task<String> get() = declared()

    companion object {
        fun getInstance(): FirebaseMessaging = declared()
    }
}

open class FirebaseMessagingService : android.app.Service() {
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
    fun addOnSuccessListener(listener: (TResult) -> Unit): Task<TResult> = declared()
}
