package com.example.shop

import com.campanile.DeepLinkRouter
import com.campanile.DeepLinkTree
import java.net.URI
import java.net.URISyntaxException

/** The site's addresses. The servers' own are the build type's, in `app/build.gradle.kts`. */
object Addresses {
    /** The inbox, as a path and as a deep link. */
    const val INBOX = "/notifications"
    const val SIGN_IN = "/sign_in"

    /** The app's own scheme, in `AndroidManifest.xml` too. */
    const val SCHEME = "shop"

    /** The address of a page of the site. */
    fun page(path: String): String = BuildConfig.WEB_URL + "/" + path.removePrefix("/")

    /** Path and query of a page of the site; null for another site's. */
    fun path(location: String): String? =
        location.takeIf { it == BuildConfig.WEB_URL || it.startsWith(BuildConfig.WEB_URL + "/") }?.removePrefix(BuildConfig.WEB_URL)

    /** The addresses of links that other apps may open. */
    val hosts: Set<String> = try {
        setOfNotNull(URI(BuildConfig.WEB_URL).host)
    } catch (_: URISyntaxException) {
        emptySet()
    }

    /** Every screen of this app is a page. One of its own is an entry more in the router's second argument. */
    fun router(tree: DeepLinkTree): DeepLinkRouter<String> = DeepLinkRouter(tree) { it.address }
}
