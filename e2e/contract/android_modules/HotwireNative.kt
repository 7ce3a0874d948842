// Declares what examples/android uses of Hotwire Native for Android 1.3.1 (dev.hotwire:core and dev.hotwire:navigation-fragments), as its sources
// declare it: names, parameters with their types and whether they have a default, access, supertypes. Bodies are the compiler's wish and
// are never run. e2e/contract/kotlin_clients.py compiles each `package` part of this file as a file of its own.

package dev.hotwire.core.bridge

import androidx.lifecycle.DefaultLifecycleObserver

abstract class BridgeComponent<in D : BridgeDestination>(
    val name: String,
    private val delegate: BridgeDelegate<D>
) {
    abstract fun onReceive(message: Message)
    fun replyTo(event: String, jsonData: String): Boolean = declared()
}

class BridgeComponentFactory<D : BridgeDestination, out C : BridgeComponent<D>> constructor(
    val name: String,
    private val creator: (name: String, delegate: BridgeDelegate<D>) -> C
)

class BridgeDelegate<D : BridgeDestination>(
    val location: String,
    val destination: D,
    private val componentFactories: List<BridgeComponentFactory<D, BridgeComponent<D>>>
) : DefaultLifecycleObserver

interface BridgeDestination

data class Message constructor(
    val id: String,
    val component: String,
    val event: String,
    val metadata: Metadata?,
    val jsonData: String
)

data class Metadata(
    val url: String
)

package dev.hotwire.core.config

import android.content.Context
import dev.hotwire.core.turbo.config.PathConfiguration

object Hotwire {
    val config: HotwireConfig = HotwireConfig()
    fun loadPathConfiguration(
        context: Context,
        location: PathConfiguration.Location,
        options: PathConfiguration.LoaderOptions = PathConfiguration.LoaderOptions()
    ) {}
}

class HotwireConfig internal constructor() {
    var webViewDebuggingEnabled = false
    var applicationUserAgentPrefix: String? = null
    val userAgent: String get() = declared()
}

package dev.hotwire.core.turbo.config

class PathConfiguration internal constructor() {
    data class Location(
        val assetFilePath: String? = null,
        val remoteFileUrl: String? = null
    )

    data class LoaderOptions(
        val httpHeaders: Map<String, String> = emptyMap()
    )
}

package dev.hotwire.core.turbo.errors

sealed interface VisitError

sealed interface HttpError : VisitError {
    sealed interface ClientError : HttpError {
        data object Unauthorized : ClientError
    }
}

package dev.hotwire.core.turbo.session

import androidx.appcompat.app.AppCompatActivity
import dev.hotwire.core.turbo.webview.HotwireWebView

class Session(
    internal val sessionName: String,
    private val activity: AppCompatActivity,
    val webView: HotwireWebView
) {
    fun reset() {}
}

package dev.hotwire.core.turbo.visit

data class VisitOptions(
    val action: VisitAction = VisitAction.ADVANCE,
    val snapshotHTML: String? = null,
    val response: VisitResponse? = null
)

data class VisitResponse(
    val statusCode: Int,
    val responseHTML: String? = null
)

enum class VisitAction {
    ADVANCE,
    REPLACE,
    RESTORE
}

package dev.hotwire.core.turbo.webview

import android.content.Context
import android.util.AttributeSet
import android.webkit.WebView

open class HotwireWebView @JvmOverloads constructor(
    context: Context,
    attrs: AttributeSet? = null
) : WebView(context, attrs)

package dev.hotwire.navigation.activities

import androidx.appcompat.app.AppCompatActivity
import dev.hotwire.navigation.navigator.Navigator
import dev.hotwire.navigation.navigator.NavigatorConfiguration

abstract class HotwireActivity : AppCompatActivity() {
    lateinit var delegate: HotwireActivityDelegate
        private set
    abstract fun navigatorConfigurations(): List<NavigatorConfiguration>
    open fun onNavigatorReady(navigator: Navigator) {}
}

class HotwireActivityDelegate(val activity: HotwireActivity) {
    val currentNavigator: Navigator? get() = declared()
}

package dev.hotwire.navigation.config

import androidx.fragment.app.Fragment
import dev.hotwire.core.bridge.BridgeComponent
import dev.hotwire.core.bridge.BridgeComponentFactory
import dev.hotwire.core.config.Hotwire
import dev.hotwire.navigation.destinations.HotwireDestination
import kotlin.reflect.KClass

fun Hotwire.registerBridgeComponents(
    vararg factories: BridgeComponentFactory<HotwireDestination, BridgeComponent<HotwireDestination>>
) {}

var Hotwire.defaultFragmentDestination: KClass<out Fragment>
    get() = declared()
    set(value) {}

fun Hotwire.registerFragmentDestinations(vararg destinations: KClass<out Fragment>) {}

package dev.hotwire.navigation.destinations

import androidx.fragment.app.Fragment
import dev.hotwire.core.bridge.BridgeDestination
import dev.hotwire.navigation.navigator.Navigator

interface HotwireDestination : BridgeDestination {
    val navigator: Navigator
    val fragment: Fragment get() = declared()
    fun refresh(displayProgress: Boolean = true)
}

interface HotwireDialogDestination

@Target(AnnotationTarget.CLASS)
annotation class HotwireDestinationDeepLink(
    val uri: String
)

package dev.hotwire.navigation.fragments

import androidx.fragment.app.Fragment
import com.google.android.material.bottomsheet.BottomSheetDialogFragment
import dev.hotwire.core.turbo.errors.VisitError
import dev.hotwire.navigation.destinations.HotwireDestination
import dev.hotwire.navigation.destinations.HotwireDialogDestination
import dev.hotwire.navigation.navigator.Navigator

abstract class HotwireFragment : Fragment(), HotwireDestination {
    override val navigator: Navigator get() = declared()
    override fun onStart() {}
    override fun refresh(displayProgress: Boolean) {}
}

open class HotwireWebFragment : HotwireFragment(), HotwireWebFragmentCallback {
    override fun onStart() {}
    override fun refresh(displayProgress: Boolean) {}
    override fun onVisitErrorReceived(location: String, error: VisitError) {}
}

interface HotwireWebFragmentCallback {
    fun onVisitRendered(location: String) {}
    fun onVisitErrorReceived(location: String, error: VisitError) {}
}

abstract class HotwireBottomSheetFragment : BottomSheetDialogFragment(),
    HotwireDestination, HotwireDialogDestination {
    override val navigator: Navigator get() = declared()
    override fun refresh(displayProgress: Boolean) {}
}

open class HotwireWebBottomSheetFragment : HotwireBottomSheetFragment(), HotwireWebFragmentCallback

package dev.hotwire.navigation.navigator

import android.os.Bundle
import androidx.fragment.app.FragmentOnAttachListener
import androidx.navigation.fragment.FragmentNavigator
import androidx.navigation.fragment.NavHostFragment
import dev.hotwire.core.turbo.session.Session
import dev.hotwire.core.turbo.visit.VisitOptions
import dev.hotwire.navigation.activities.HotwireActivity
import dev.hotwire.navigation.destinations.HotwireDestination

class Navigator(
    val host: NavigatorHost,
    val configuration: NavigatorConfiguration,
    val activity: HotwireActivity
) {
    val currentDestination: HotwireDestination? get() = declared()
    val location: String? get() = declared()
    var session: Session = declared()
        private set
    fun route(
        location: String,
        options: VisitOptions = VisitOptions(),
        bundle: Bundle? = null,
        extras: FragmentNavigator.Extras? = null
    ) {}
    fun clearAll(onCleared: () -> Unit = {}) {}
    fun reset(onReset: () -> Unit = {}) {}
}

data class NavigatorConfiguration(
    val name: String,
    val startLocation: String,
    val navigatorHostId: Int,
)

open class NavigatorHost : NavHostFragment(), FragmentOnAttachListener

package dev.hotwire.navigation.tabs

import androidx.navigation.NavController
import com.google.android.material.bottomnavigation.BottomNavigationView
import dev.hotwire.navigation.activities.HotwireActivity
import dev.hotwire.navigation.navigator.NavigatorConfiguration

class HotwireBottomNavigationController(
    val activity: HotwireActivity,
    val view: BottomNavigationView,
    val initialVisibility: Visibility = Visibility.DEFAULT,
    val clearNavigationOnTabReselection: Boolean = true,
    val animateVisibilityChanges: Boolean = true,
    val lazyLoadTabs: Boolean = false
) : NavController.OnDestinationChangedListener {
    enum class Visibility {
        DEFAULT,
        HIDDEN
    }

    fun load(
        tabs: List<HotwireBottomTab>,
        selectedTabIndex: Int = 0
    ) {}
    fun selectTab(tabIndex: Int) {}
    fun setOnTabSelectedListener(listener: ((index: Int, tab: HotwireBottomTab) -> Unit)?) {}
}

data class HotwireBottomTab(
    val title: String,
    val iconResId: Int,
    val isVisible: Boolean = true,
    val configuration: NavigatorConfiguration
)
