package com.example.shop

import dev.hotwire.core.bridge.BridgeComponent
import dev.hotwire.core.bridge.BridgeDelegate
import dev.hotwire.core.bridge.Message
import dev.hotwire.navigation.destinations.HotwireDestination
import kotlin.concurrent.thread
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/**
 * The web session and this device's pushes. A page of somebody who is signed in sends `connect` {userToken, userID}; before the
 * session ends it sends `signOut`, and ends it when the answer is there.
 */
class NotificationTokenComponent(
    name: String,
    private val delegate: BridgeDelegate<HotwireDestination>
) : BridgeComponent<HotwireDestination>(name, delegate) {

    override fun onReceive(message: Message) {
        when (message.event) {
            "connect" -> message.data<SignedIn>()?.let { Campanile.signedIn(it.userID, it.userToken) }
            "signOut" -> thread { answer(Campanile.signOut()) }
        }
    }

    private fun answer(deleted: Boolean) {
        val text = "Notifications may go on coming to this device until somebody signs in here."
        val activity = delegate.destination.fragment.activity ?: return
        activity.runOnUiThread { replyTo("signOut", SignedOut(deleted, if (deleted) null else text)) }
    }

    @Serializable
    data class SignedIn(
        @SerialName("userToken") val userToken: String,
        @SerialName("userID") val userID: String
    )

    @Serializable
    data class SignedOut(
        @SerialName("deleted") val deleted: Boolean,
        @SerialName("message") val message: String?
    )
}
