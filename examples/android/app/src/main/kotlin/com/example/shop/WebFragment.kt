package com.example.shop

import dev.hotwire.core.turbo.errors.HttpError
import dev.hotwire.core.turbo.errors.VisitError
import dev.hotwire.navigation.destinations.HotwireDestinationDeepLink
import dev.hotwire.navigation.fragments.HotwireWebFragment

/** Every page of the site that isn't a sheet. */
@HotwireDestinationDeepLink(uri = "hotwire://fragment/web")
class WebFragment : HotwireWebFragment() {
    /** True if this page has led to the sign-in: one that was left shows the error page, and no sign-in again. */
    private var hasAskedForSignIn = false

    override fun onVisitRendered(location: String) {
        super.onVisitRendered(location)
        hasAskedForSignIn = false
        (activity as? MainActivity)?.shownPageChanged()
    }

    override fun onStart() {
        super.onStart()
        (activity as? MainActivity)?.shownPageChanged()
    }

    override fun refresh(displayProgress: Boolean) {
        hasAskedForSignIn = false
        super.refresh(displayProgress)
    }

    /**
     * A 401 leads to the sign-in, which the path configuration presents as a modal. The error page stands below it: the library
     * takes it away when the page is loaded again after the sign-in.
     */
    override fun onVisitErrorReceived(location: String, error: VisitError) {
        super.onVisitErrorReceived(location, error)
        if (error != HttpError.ClientError.Unauthorized || hasAskedForSignIn) return
        hasAskedForSignIn = true
        navigator.route(Addresses.page(Addresses.SIGN_IN))
    }
}
