package com.example.shop

import dev.hotwire.core.bridge.BridgeComponent
import dev.hotwire.core.bridge.BridgeDelegate
import dev.hotwire.core.bridge.Message
import dev.hotwire.navigation.destinations.HotwireDestination
import kotlinx.serialization.SerialName
import kotlinx.serialization.Serializable

/**
 * The page's number: `update` {count} whenever it changes there. A page's number has no version, so it is only the reason to ask
 * the server for the one that has.
 */
class BadgeComponent(
    name: String,
    private val delegate: BridgeDelegate<HotwireDestination>
) : BridgeComponent<HotwireDestination>(name, delegate) {

    override fun onReceive(message: Message) {
        if (message.event != "update") return
        val number = message.data<Number>() ?: return
        if (number.count != Campanile.count) Campanile.refresh()
    }

    @Serializable
    data class Number(@SerialName("count") val count: Int)
}
