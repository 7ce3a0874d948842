package com.example.shop

import android.content.Context
import android.content.SharedPreferences
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

    @Volatile private var userToken: String? = null
    @Volatile private var userId: String? = null
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
        inBackground { register() }
    }

    /** A page of somebody who is signed in was shown. Each brings a fresh user token; the first one of a user registers. */
    fun signedIn(user: String, token: String) {
        userToken = token
        if (user == userId) return
        userId = user
        inBackground { register() }
    }

    /** Before the web session ends: it takes a user token. Waits for the network. @return whether no push comes any more. */
    fun signOut(): Boolean {
        val token = deviceToken
        val deleted = token == null || runCatching {
            call("DELETE", "/device_tokens/" + URLEncoder.encode(token, "UTF-8"))
        }.isSuccess
        userToken = null
        userId = null
        synchronized(this) { kept.edit().remove("badgeVersion").remove("count").apply() }
        observers.forEach { it(0) }
        return deleted
    }

    /** The number of a push, or of an answer: an older version never replaces a newer one. */
    fun apply(count: Int, version: Long): Boolean {
        synchronized(this) {
            if (version < kept.getLong("badgeVersion", 0)) return false
            kept.edit().putLong("badgeVersion", version).putInt("count", count).apply()
        }
        observers.forEach { it(count) }
        return true
    }

    fun refresh() = inBackground {
        val badge = call("GET", "/badge")
        apply(badge.getInt("count"), badge.getLong("version"))
    }

    /** The user opened a notification. */
    fun opened(id: String) = inBackground {
        call("PATCH", "/notifications/$id", JSONObject().put("read", true))
        val badge = call("GET", "/badge")
        apply(badge.getInt("count"), badge.getLong("version"))
    }

    private fun register() {
        val token = deviceToken ?: return
        if (userToken == null) return
        call("POST", "/device_tokens", JSONObject().put("token", token).put("platform", "android"))
    }

    private fun inBackground(work: () -> Unit) {
        thread { runCatching(work).onFailure { android.util.Log.w("Campanile", it) } }
    }

    private fun call(method: String, path: String, body: JSONObject? = null): JSONObject {
        val connection = URL(ADDRESS + path).openConnection() as HttpURLConnection
        connection.requestMethod = method
        connection.connectTimeout = 10_000
        connection.readTimeout = 10_000
        connection.setRequestProperty("Authorization", "Bearer $userToken")
        connection.setRequestProperty("User-Agent", "Shop/1.0 Hotwire Native Android")
        deviceToken?.let { connection.setRequestProperty("X-Device-Token", it) }
        if (body != null) {
            connection.setRequestProperty("Content-Type", "application/json")
            connection.doOutput = true
            connection.outputStream.use { it.write(body.toString().toByteArray()) }
        }
        check(connection.responseCode in 200..299) { "$method $path: ${connection.responseCode}" }
        return JSONObject(connection.inputStream.bufferedReader().use { it.readText() }.ifEmpty { "{}" })
    }
}
