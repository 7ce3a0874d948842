package com.example.shop

import com.campanile.FirebaseCalls
import com.google.firebase.messaging.FirebaseMessaging

/**
 * Firebase's calls as the library takes them. Nothing else in the app may ask for a token: after an installation ID is registered,
 * a token would make Firebase drop the ID.
 */
object MessagingCalls : FirebaseCalls {
    override fun register(done: (Exception?) -> Unit) {
        FirebaseMessaging.getInstance().register().addOnCompleteListener { done(it.exception) }
    }

    @Suppress("DEPRECATION") // An app that hasn't opted in has no other call.
    override fun token(done: (String?, Exception?) -> Unit) {
        FirebaseMessaging.getInstance().token.addOnCompleteListener { done(if (it.isSuccessful) it.result else null, it.exception) }
    }
}
