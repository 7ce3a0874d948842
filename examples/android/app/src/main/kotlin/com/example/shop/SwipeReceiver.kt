package com.example.shop

import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent
import com.campanile.PushPayload

/** Hears that the user swiped away an alert whose category says `dismiss: read`. Android starts the app for it. */
class SwipeReceiver : BroadcastReceiver() {
    override fun onReceive(context: Context, intent: Intent) {
        val push = PushPayload.tapped { intent.getStringExtra(it) } ?: return
        // Without it Android may end the app before the server has answered.
        val pending = goAsync()
        Campanile.swiped(push) { pending.finish() }
    }
}
