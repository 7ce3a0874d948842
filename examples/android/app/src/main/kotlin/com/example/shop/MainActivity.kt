package com.example.shop

import android.Manifest
import android.content.Intent
import android.os.Build
import android.os.Bundle
import android.view.View
import androidx.activity.enableEdgeToEdge
import androidx.activity.result.contract.ActivityResultContracts
import androidx.core.app.NotificationManagerCompat
import com.campanile.PushPayload
import com.google.android.material.bottomnavigation.BottomNavigationView
import dev.hotwire.navigation.activities.HotwireActivity
import dev.hotwire.navigation.navigator.Navigator
import dev.hotwire.navigation.navigator.NavigatorConfiguration
import dev.hotwire.navigation.tabs.HotwireBottomNavigationController
import java.io.Closeable

class MainActivity : HotwireActivity() {
    private lateinit var view: BottomNavigationView
    private lateinit var tabs: HotwireBottomNavigationController
    private lateinit var observation: Closeable
    private val permission = registerForActivityResult(ActivityResultContracts.RequestPermission()) {}
    private var hasAskedForPermission = false
    private var isStarted = false

    /** The pages of a link that waits for its tab. At a cold start there is no navigator yet. */
    private var waiting: List<String> = emptyList()

    /** The tabs that show a former user's pages: each begins anew when it is looked at. */
    private val stale = mutableSetOf<MainTab>()
    private val userChanged: (String?) -> Unit = { user -> runOnUiThread { userChanged(user) } }

    private val inboxArrival: () -> Unit = { runOnUiThread { if (Campanile.isInboxShown) refreshPage() } }

    override fun navigatorConfigurations(): List<NavigatorConfiguration> = MainTab.entries.map { it.configuration }

    override fun onCreate(savedInstanceState: Bundle?) {
        enableEdgeToEdge()
        super.onCreate(savedInstanceState)
        setContentView(R.layout.activity_main)
        view = findViewById(R.id.bottom_nav)
        // Each tab loads when it is looked at: the inbox's must not clear the number before.
        tabs = HotwireBottomNavigationController(this, view, lazyLoadTabs = true)
        tabs.load(MainTab.entries.map { it.tab(this) }, savedInstanceState?.getInt(SELECTED) ?: 0)
        tabs.setOnTabSelectedListener { index, _ -> tabSelected(MainTab.entries[index]) }
        observation = Campanile.badge.observe { count -> runOnUiThread { showBadge(count) } }
        Campanile.onUserChange(userChanged)
        Campanile.onArrivalInInbox(inboxArrival)
        // A turned screen brings the same intent again, and so does the list of recent apps, with a push of long ago.
        val isOld = savedInstanceState != null || (intent.flags and Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY) != 0
        if (!isOld) handle(intent)
    }

    override fun onDestroy() {
        Campanile.forgetUserChange(userChanged)
        Campanile.forgetArrivalInInbox(inboxArrival)
        observation.close()
        super.onDestroy()
    }

    override fun onSaveInstanceState(outState: Bundle) {
        super.onSaveInstanceState(outState)
        outState.putInt(SELECTED, view.selectedItemId)
    }

    override fun onStart() {
        super.onStart()
        isStarted = true
        shownPageChanged()
        Campanile.cameToForeground()
    }

    override fun onStop() {
        isStarted = false
        shownPageChanged()
        Campanile.wentToBackground()
        super.onStop()
    }

    override fun onNewIntent(intent: Intent) {
        super.onNewIntent(intent)
        handle(intent)
    }

    override fun onNavigatorReady(navigator: Navigator) {
        super.onNavigatorReady(navigator)
        // Called while the library still attaches the page.
        view.post { openWaiting() }
    }

    // Links

    /** A tapped push brings its data as extras, a link with the app's own scheme its address. */
    private fun handle(intent: Intent) {
        val push = PushPayload.tapped { intent.getStringExtra(it) }
        if (push != null) Campanile.tapped(push)
        waiting = if (push != null) Campanile.pages(push) else intent.dataString?.let(Campanile::pages) ?: emptyList()
        openWaiting()
    }

    /**
     * Opens the last page of the chain above its tab's own: the tab whose page is the deepest of the chain, or else the one that
     * shows. The pages between aren't loaded; the library has no call that tells when a page stands, so that the next could follow.
     */
    private fun openWaiting() {
        val page = waiting.lastOrNull() ?: return
        val paths = waiting.map { address -> address.takeWhile { it !in "?#" } }
        val tab = paths.asReversed().firstNotNullOfOrNull { path -> MainTab.entries.find { it.path == path } }
        // Before the tab is selected, which would have it begin anew while the page opens.
        val isStale = tab != null && stale.remove(tab)
        if (tab != null && tab.ordinal != view.selectedItemId) tabs.selectTab(tab.ordinal)
        // None until the tab that was selected has its first page: onNavigatorReady comes back.
        val navigator = delegate.currentNavigator ?: return
        waiting = emptyList()
        val isTabsOwn = page == tab?.path
        if (isStale) return navigator.reset { if (!isTabsOwn) navigator.route(Addresses.page(page)) }
        // The page that stands there may be older than the push.
        navigator.clearAll { view.post { if (isTabsOwn) refreshPage() else navigator.route(Addresses.page(page)) } }
    }

    private fun refreshPage() {
        delegate.currentNavigator?.currentDestination?.refresh(true)
    }

    // The number

    private fun showBadge(count: Int) {
        val item = MainTab.NOTIFICATIONS.ordinal
        if (count == 0) return view.removeBadge(item)
        val badge = view.getOrCreateBadge(item)
        badge.maxCharacterCount = 3 // 99+
        badge.number = count
    }

    /** The inbox that shows clears the number, here and on the user's other devices, and takes its alerts away. */
    fun shownPageChanged() {
        val location = delegate.currentNavigator?.location?.let(Addresses::path)
        val isShown = isStarted && Campanile.pushes.isInbox(location)
        if (isShown && !Campanile.isInboxShown) {
            Campanile.inboxAppeared()
            NotificationManagerCompat.from(this).cancelAll()
        }
        Campanile.isInboxShown = isShown
    }

    private fun tabSelected(tab: MainTab) {
        if (stale.remove(tab)) delegate.currentNavigator?.reset()
        shownPageChanged()
    }

    // The user

    /** Somebody else signed in, or the user signed out: the other tabs show the former user's pages, and so do Turbo's snapshots. */
    private fun userChanged(user: String?) {
        stale += MainTab.entries.filter { it.ordinal != view.selectedItemId }
        // The page that shows is the new user's. Without this, Back would bring the former one's out of the snapshots.
        delegate.currentNavigator?.session?.reset()
        if (user != null) askForPermission()
    }

    /** After the sign-in and not at the first launch: only then is there something to tell. */
    private fun askForPermission() {
        if (hasAskedForPermission || Build.VERSION.SDK_INT < Build.VERSION_CODES.TIRAMISU) return
        if (NotificationManagerCompat.from(this).areNotificationsEnabled()) return
        hasAskedForPermission = true
        permission.launch(Manifest.permission.POST_NOTIFICATIONS)
    }

    private companion object {
        const val SELECTED = "selected"
    }
}
