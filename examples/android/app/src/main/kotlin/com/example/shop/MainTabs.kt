package com.example.shop

import android.content.Context
import dev.hotwire.navigation.navigator.NavigatorConfiguration
import dev.hotwire.navigation.tabs.HotwireBottomTab

/** The tabs of `examples/campanile.yaml`, whose hosts stand in `activity_main.xml`. */
enum class MainTab(val path: String, private val title: Int, private val icon: Int, private val host: Int) {
    HOME("/dashboard", R.string.tab_home, R.drawable.ic_home, R.id.home_host),
    NOTIFICATIONS(Addresses.INBOX, R.string.tab_notifications, R.drawable.ic_notifications, R.id.notifications_host),
    ACCOUNT("/account", R.string.tab_account, R.drawable.ic_account, R.id.account_host);

    val configuration: NavigatorConfiguration
        get() = NavigatorConfiguration(name.lowercase(), Addresses.page(path), host)

    fun tab(context: Context): HotwireBottomTab = HotwireBottomTab(context.getString(title), icon, configuration = configuration)
}
