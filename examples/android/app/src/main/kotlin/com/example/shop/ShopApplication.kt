package com.example.shop

import android.app.Application
import com.google.firebase.FirebaseApp
import dev.hotwire.core.bridge.BridgeComponentFactory
import dev.hotwire.core.config.Hotwire
import dev.hotwire.core.turbo.config.PathConfiguration
import dev.hotwire.navigation.config.defaultFragmentDestination
import dev.hotwire.navigation.config.registerBridgeComponents
import dev.hotwire.navigation.config.registerFragmentDestinations
import dev.hotwire.navigation.fragments.HotwireWebBottomSheetFragment

class ShopApplication : Application() {
    override fun onCreate() {
        super.onCreate()
        Channels.create(this)

        Hotwire.config.applicationUserAgentPrefix = "Shop/${BuildConfig.VERSION_NAME};"
        Hotwire.config.webViewDebuggingEnabled = BuildConfig.DEBUG
        Hotwire.defaultFragmentDestination = WebFragment::class
        Hotwire.registerFragmentDestinations(WebFragment::class, HotwireWebBottomSheetFragment::class)
        Hotwire.registerBridgeComponents(
            BridgeComponentFactory("badge", ::BadgeComponent),
            BridgeComponentFactory("notification-token", ::NotificationTokenComponent)
        )
        Hotwire.loadPathConfiguration(
            context = this,
            location = PathConfiguration.Location(
                assetFilePath = "json/android_v1.json", // for a first start without a network
                remoteFileUrl = "${BuildConfig.CAMPANILE_URL}/configurations/android_v1.json"
            )
        )

        Campanile.start(this)
        // Without google-services.json there is no Firebase app, and calling its messaging would end this one.
        if (FirebaseApp.getApps(this).isNotEmpty()) Campanile.startPushes(MessagingCalls)
    }
}
