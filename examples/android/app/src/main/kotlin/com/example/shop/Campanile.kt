package com.example.shop

import android.content.Context
import android.content.SharedPreferences
import android.util.Log
import com.campanile.BadgeFollower
import com.campanile.BadgeStore
import com.campanile.CampanileAPI
import com.campanile.ClientStorage
import com.campanile.DeepLinkError
import com.campanile.DeepLinkRouter
import com.campanile.DeepLinkTree
import com.campanile.DeviceRegistration
import com.campanile.FirebaseCalls
import com.campanile.FirebaseRegistration
import com.campanile.HandedTokens
import com.campanile.PushHandler
import com.campanile.PushPayload
import com.campanile.UserSession
import com.campanile.UserToken
import dev.hotwire.core.config.Hotwire
import java.util.Locale
import java.util.concurrent.CopyOnWriteArraySet
import java.util.concurrent.Executor
import java.util.concurrent.Executors

/** This device at Campanile, for the whole app. Its functions return at once; what needs the network is done behind. */
object Campanile {
    private val background = Executors.newCachedThreadPool()

    /** Sign-ins, sign-outs and registrations, one after the other in the order of the pages. */
    private val inTurn = Executors.newSingleThreadExecutor()
    private val tokens = HandedTokens()
    private val userChanges = CopyOnWriteArraySet<(String?) -> Unit>()
    private lateinit var api: CampanileAPI
    private lateinit var registration: DeviceRegistration
    private lateinit var session: UserSession
    private lateinit var follower: BadgeFollower
    private val arrivals = CopyOnWriteArraySet<() -> Unit>()

    /** Null in an app without Firebase. */
    private var firebase: FirebaseRegistration? = null

    lateinit var badge: BadgeStore
        private set
    lateinit var pushes: PushHandler
        private set

    /** True while the user is looking at the inbox: a push that comes then shows nothing. */
    @Volatile
    var isInboxShown = false

    /** The app's own table of deep links, until the server's is there. */
    @Volatile
    private lateinit var router: DeepLinkRouter<String>

    /** After Hotwire's configuration, whose user agent the calls have too. */
    fun start(context: Context) {
        val storage = PreferencesStorage(context.getSharedPreferences("campanile", Context.MODE_PRIVATE))
        val table = context.assets.open("json/deep_links.json").bufferedReader().use { it.readText() }
        router = Addresses.router(DeepLinkTree.read(table) ?: DeepLinkTree(emptyList()))
        api = CampanileAPI(BuildConfig.CAMPANILE_URL, Hotwire.config.userAgent, userToken = tokens)
        badge = BadgeStore(storage)
        registration = DeviceRegistration(api, storage, badge, BuildConfig.VERSION_NAME, Locale.getDefault().toLanguageTag())
        follower = BadgeFollower(api, badge) { work -> inBackground { work() } }
        session = UserSession(tokens, registration, follower) { user -> userChanges.forEach { it(user) } }
        pushes = PushHandler(api, badge, Addresses.INBOX, ShownAlerts(context))
        inBackground { router = Addresses.router(api.deepLinks()) }
    }

    // The user

    /** Calls [body] with the user, on any thread, when another one signs in, and with null at a sign-out. */
    fun onUserChange(body: (String?) -> Unit) {
        userChanges += body
    }

    fun forgetUserChange(body: (String?) -> Unit) {
        userChanges -= body
    }

    /** A page of somebody who is signed in was shown. */
    fun signedIn(token: UserToken) = session.signedIn(token) { work -> inBackground(inTurn, work) }

    /** Before the web session ends: it takes a user token. @param answer called with false where pushes may go on coming here. */
    fun signOut(answer: (Boolean) -> Unit) = inBackground(inTurn) {
        answer(session.signOut()?.also { Log.w(TAG, it) } == null)
    }

    /** At every start: registers the app with Firebase, whose answer comes to one of the next two functions. */
    fun startPushes(calls: FirebaseCalls) {
        val begun = FirebaseRegistration(calls, ::register) { Log.w(TAG, "Firebase hasn't registered this app: no pushes yet.", it) }
        firebase = begun
        begun.start()
    }

    /** Firebase has given a token: at every start, and when it changes. */
    fun register(token: String) = inBackground(inTurn) { registration.register(token) }

    /** The same in an app that has opted in to installation IDs. */
    fun registerInstallation(id: String) = inBackground(inTurn) { registration.registerInstallation(id) }

    // The number

    fun cameToForeground() {
        firebase?.cameToForeground()
        inBackground(inTurn) { registration.cameToForeground() }
        inBackground { pushes.cameToForeground(isInboxShown) }
        follower.cameToForeground()
    }

    fun wentToBackground() = follower.wentToBackground()

    fun inboxAppeared() = inBackground { pushes.inboxAppeared() }

    /** A push came while the user looks at the inbox: clears the number, and has the page show what came. */
    fun arrivedInInbox(push: PushPayload) {
        inBackground { pushes.arrivedInInbox(push) }
        arrivals.forEach { it() }
    }

    /** Calls [body], on any thread, when a push comes while the user looks at the inbox. */
    fun onArrivalInInbox(body: () -> Unit) {
        arrivals += body
    }

    fun forgetArrivalInInbox(body: () -> Unit) {
        arrivals -= body
    }

    fun refresh() = inBackground { badge.refresh(api) }

    // Links

    fun tapped(push: PushPayload) = inBackground { pushes.tapped(push) }

    /** @param done called when the server knows of it, or the library keeps it for later. */
    fun swiped(push: PushPayload, done: () -> Unit) = inBackground {
        try {
            pushes.swiped(push)
        } finally {
            done()
        }
    }

    /** The pages of a push's link, parents first; empty for a push without one, or a link that the app doesn't know. */
    fun pages(push: PushPayload): List<String> = pages { router.chain(push)?.screens ?: emptyList() }

    /** The pages of an address with the app's own scheme. */
    fun pages(address: String): List<String> =
        pages { router.chain(address, Addresses.hosts, setOf(Addresses.SCHEME)).screens }

    private fun pages(find: () -> List<String>): List<String> = try {
        find()
    } catch (error: DeepLinkError) {
        Log.w(TAG, error)
        emptyList()
    }

    /** Does it on another thread and logs why it failed: nothing of this is worth an alert. */
    private fun inBackground(executor: Executor = background, work: () -> Unit) =
        executor.execute { runCatching(work).onFailure { Log.w(TAG, it) } }

    private const val TAG = "Campanile"
}

private class PreferencesStorage(private val preferences: SharedPreferences) : ClientStorage {
    override fun read(key: String): String? = preferences.getString(key, null)

    override fun write(key: String, text: String?) = preferences.edit().putString(key, text).apply()
}
