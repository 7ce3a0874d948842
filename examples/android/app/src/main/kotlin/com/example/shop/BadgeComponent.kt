package com.example.shop

import com.campanile.PageMessages
import dev.hotwire.core.bridge.BridgeComponent
import dev.hotwire.core.bridge.BridgeDelegate
import dev.hotwire.core.bridge.Message
import dev.hotwire.navigation.destinations.HotwireDestination

/**
 * The page's number: `update` {count} whenever it changes there. A page's number has no version, so it is only the reason to ask
 * the server for the one that has.
 */
class BadgeComponent(
    name: String,
    delegate: BridgeDelegate<HotwireDestination>
) : BridgeComponent<HotwireDestination>(name, delegate) {

    override fun onReceive(message: Message) {
        if (message.event != "update") return
        val count = PageMessages.count(message.jsonData) ?: return
        if (count != Campanile.badge.count.toLong()) Campanile.refresh()
    }
}
