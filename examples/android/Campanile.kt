package com.example.shop

import android.content.Context
import android.content.SharedPreferences
import java.io.IOException
import java.net.HttpURLConnection
import java.net.URL
import java.net.URLEncoder
import java.util.concurrent.CopyOnWriteArraySet
import kotlin.concurrent.thread
import org.json.JSONObject

/** This device at Campanile: its registration, and the one number that every screen shows. */
object Campanile {
    const val ADDRESS = "http://10.0.2.2:3001" // the emulator's name for the machine that it runs on
    const val CHANNEL = "notices"

    /** Whoever is signed in, as the newest page said. */
    private class Session(val user: String, val token: String)

    /** One that the server answered, and not the network. */
    private class Refused(val status: Int, call: String) : IOException("$call: $status")

    @Volatile private var session: Session? = null
    /** Who is signing out: their pages say who they are until their session ends. */
    @Volatile private var leaving: Session? = null
    /** What the user opened before a page said who they are. */
    private var waiting: String? = null
    private lateinit var kept: SharedPreferences
    private val observers = CopyOnWriteArraySet<(Int) -> Unit>()

    fun start(context: Context) {
        kept = context.getSharedPreferences("campanile", Context.MODE_PRIVATE)
    }

    val deviceToken: String? get() = kept.getString("deviceToken", null)
    val count: Int get() = kept.getInt("count", 0)

    /** Called with the number at every change, on whatever thread changed it. */
    fun observe(observer: (Int) -> Unit) {
        observers.add(observer)
        observer(count)
    }

    fun forget(observer: (Int) -> Unit) {
        observers.remove(observer)
    }

    /** FCM has given a token: at every start, and when it changes. */
    fun register(token: String) {
        kept.edit().putString("deviceToken", token).apply()
        inBackground { registerDevice(session ?: return@inBackground) }
    }

    /**
     * A page of somebody who is signed in was shown. Each brings a fresh user token; the first one of a user registers, and asks
     * for their number. The number of somebody else is forgotten, also if they never signed out.
     */
    fun signedIn(user: String, token: String) {
        if (user == leaving?.user) return
        val now = Session(user, token)
        val (before, opened) = synchronized(this) {
            if (kept.getString("user", null) != user) forgetNumber(user)
            Pair(session, waiting).also {
                session = now
                waiting = null
            }
        }
        if (before?.user != user) {
            observers.forEach { it(count) }
            inBackground {
                registerDevice(now)
                askNumber(now)
            }
        }
        opened?.let { opened(it) }
    }

    /**
     * Before the web session ends: it takes a user token. Waits for the network.
     * @return whether no push comes any more.
     */
    fun signOut(): Boolean {
        val gone = synchronized(this) {
            forgetNumber(null)
            waiting = null
            session.also {
                leaving = it
                session = null
            }
        }
        try {
            observers.forEach { it(0) }
            val token = deviceToken ?: return true
            call(gone ?: return false, "DELETE", "/device_tokens/" + URLEncoder.encode(token, "UTF-8"))
            return true
        } catch (failure: Refused) {
            return failure.status == 404 // not there any more: deleted too
        } catch (failure: IOException) {
            return false
        } finally {
            if (leaving === gone) leaving = null
        }
    }

    /**
     * The number of a push: an older version never replaces a newer one. After a sign-in it counts once the server has answered
     * that user; before, and after a sign-out, it may be the former user's.
     */
    fun apply(count: Int, version: Long): Boolean {
        synchronized(this) {
            if (!kept.getBoolean("isConfirmed", false) || !take(count, version)) return false
        }
        observers.forEach { it(count) }
        return true
    }

    fun refresh() {
        inBackground { askNumber(session ?: return@inBackground) }
    }

    /** The user opened a notification; at a cold start the first page says who they are. */
    fun opened(id: String) {
        val now = synchronized(this) { session.also { if (it == null) waiting = id } } ?: return
        inBackground {
            call(now, "PATCH", "/notifications/$id", JSONObject().put("read", true))
            askNumber(now)
        }
    }

    /** Takes the answer, unless its user has gone meanwhile. */
    private fun askNumber(asking: Session) {
        val badge = call(asking, "GET", "/badge")
        val count = badge.getInt("count")
        synchronized(this) {
            if (session?.user != asking.user) return
            kept.edit().putBoolean("isConfirmed", true).apply()
            if (!take(count, badge.getLong("version"))) return
        }
        observers.forEach { it(count) }
    }

    private fun take(count: Int, version: Long): Boolean {
        if (version < kept.getLong("badgeVersion", 0)) return false
        kept.edit().putLong("badgeVersion", version).putInt("count", count).apply()
        return true
    }

    private fun forgetNumber(user: String?) {
        kept.edit().putString("user", user).remove("badgeVersion").remove("count").remove("isConfirmed").apply()
    }

    private fun registerDevice(now: Session) {
        val token = deviceToken ?: return
        call(now, "POST", "/device_tokens", JSONObject().put("token", token).put("platform", "android"))
    }

    private fun inBackground(work: () -> Unit) {
        thread { runCatching(work).onFailure { android.util.Log.w("Campanile", it) } }
    }

    private fun call(asking: Session, method: String, path: String, body: JSONObject? = null): JSONObject {
        val connection = URL(ADDRESS + path).openConnection() as HttpURLConnection
        connection.requestMethod = method
        connection.connectTimeout = 10_000
        connection.readTimeout = 10_000
        connection.setRequestProperty("Authorization", "Bearer ${asking.token}")
        connection.setRequestProperty("User-Agent", "Shop/1.0 Hotwire Native Android")
        deviceToken?.let { connection.setRequestProperty("X-Device-Token", it) }
        if (body != null) {
            connection.setRequestProperty("Content-Type", "application/json")
            connection.doOutput = true
            connection.outputStream.use { it.write(body.toString().toByteArray()) }
        }
        if (connection.responseCode !in 200..299) throw Refused(connection.responseCode, "$method $path")
        return JSONObject(connection.inputStream.bufferedReader().use { it.readText() }.ifEmpty { "{}" })
    }
}
