package com.example.shop

import com.campanile.PageMessages
import dev.hotwire.core.bridge.BridgeComponent
import dev.hotwire.core.bridge.BridgeDelegate
import dev.hotwire.core.bridge.Message
import dev.hotwire.navigation.destinations.HotwireDestination

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
            "connect" -> PageMessages.signedIn(message.jsonData)?.let(Campanile::signedIn)
            "signOut" -> Campanile.signOut(::answer)
        }
    }

    private fun answer(isDeleted: Boolean) {
        val text = "Notifications may go on coming to this device until somebody signs in here."
        val activity = delegate.destination.fragment.activity ?: return
        activity.runOnUiThread { replyTo("signOut", PageMessages.signedOut(isDeleted, if (isDeleted) null else text)) }
    }
}
