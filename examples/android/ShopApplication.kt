package com.example.shop

import android.app.Application
import android.app.NotificationChannel
import android.app.NotificationManager
import dev.hotwire.core.bridge.BridgeComponentFactory
import dev.hotwire.core.bridge.KotlinXJsonConverter
import dev.hotwire.core.config.Hotwire
import dev.hotwire.core.turbo.config.PathConfiguration
import dev.hotwire.navigation.config.loadPathConfiguration
import dev.hotwire.navigation.config.registerBridgeComponents

class ShopApplication : Application() {
    override fun onCreate() {
        super.onCreate()
        Campanile.start(this)
        val notices = NotificationChannel(Campanile.CHANNEL, "Notices", NotificationManager.IMPORTANCE_DEFAULT)
        notices.setShowBadge(true)
        getSystemService(NotificationManager::class.java).createNotificationChannel(notices)

        Hotwire.config.applicationUserAgentPrefix = "Shop/1.0;"
        Hotwire.config.jsonConverter = KotlinXJsonConverter() // Message.data() needs it
        Hotwire.registerBridgeComponents(
            BridgeComponentFactory("badge", ::BadgeComponent),
            BridgeComponentFactory("notification-token", ::NotificationTokenComponent)
        )
        Hotwire.loadPathConfiguration(
            context = this,
            location = PathConfiguration.Location(
                assetFilePath = "json/android_v1.json", // for a first start without a network
                remoteFileUrl = "${Campanile.ADDRESS}/configurations/android_v1.json"
            )
        )
    }
}
