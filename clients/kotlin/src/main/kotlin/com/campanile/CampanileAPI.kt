package com.campanile

import java.io.IOException
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray

/** A user token with the user whose it is, the token's `sub`. */
data class UserToken(val user: String, val text: String)

/**
 * The calls of one signed-in user. Each waits for the network, so none belongs on the main thread, and throws
 * [CampanileFailure]. None is repeated, except once with a fresh token where the server refuses the first.
 *
 * @param userAgent holds `Hotwire Native` or a text of the server's `native_user_agents`, such as
 *   `Shop/2.1.0 Hotwire Native Android`; otherwise a list of notifications clears nothing.
 * @param userToken gives the signed-in user's token, or null for none. Its argument is a token that the server refused, or
 *   null: the answer to a refused token has to be another one.
 */
class CampanileAPI(
    baseURL: String,
    private val userAgent: String,
    internal val transport: HttpTransport = UrlConnectionTransport(),
    private val userToken: (refused: String?) -> UserToken?
) {
    val baseURL: String = baseURL.trimEnd('/')

    /** The token or installation ID registered last. Calls name it, so the server sends no push for a number that an answer gave. */
    @Volatile
    var deviceToken: String? = null

    // The inbox

    /**
     * One page of the user's notifications, the newest first. The first page clears the badge, because the user sees the list.
     *
     * @param isPrefetch loads before the user looks, and clears nothing.
     */
    fun notifications(cursor: String? = null, limit: Int = 50, isPrefetch: Boolean = false): InboxPage {
        val query = "?limit=$limit" + (cursor?.let { "&cursor=" + percentEncoded(it) } ?: "")
        val headers = if (isPrefetch) mapOf("X-Sec-Purpose" to "prefetch") else emptyMap()
        return read(call("GET", "/notifications$query", headers = headers), InboxPage::read)
    }

    /** Marks a notification as read, or as unread. Its answer holds no number: call [badge] afterwards. */
    fun markRead(id: String, isRead: Boolean = true): InboxNotification = markRead(id, isRead, null)

    internal fun markRead(id: String, isRead: Boolean, user: String?): InboxNotification =
        read(call("PATCH", notification(id), buildJsonObject { put("read", isRead) }, user = user), InboxNotification::read)

    /**
     * Marks all as read and clears the badge.
     *
     * @param upTo the newest notification that the user saw; later ones stay unread.
     */
    fun markAllRead(upTo: String? = null): Badge {
        val body = buildJsonObject { upTo?.let { put("up_to", it) } }
        return read(call("POST", "/notifications/mark_all_read", body)) { Badge.read(it["badge"]) }
    }

    /** Deletes a notification. Succeeds if it is already gone. */
    fun delete(id: String) = deleteIfThere(notification(id), null)

    /**
     * Asks which of the notifications that the phone shows are to leave, because their entries were read or deleted elsewhere. Marks
     * nothing and clears nothing. [PushHandler.cameToForeground] calls it.
     *
     * @param ids as the pushes have them. More than 100 take several calls.
     */
    fun reconcile(ids: List<String>): Reconciled = reconcile(ids, null)

    internal fun reconcile(ids: List<String>, user: String?): Reconciled {
        val answers = ids.distinct().chunked(RECONCILED_IDS).ifEmpty { listOf(emptyList()) }.map { some ->
            val body = buildJsonObject { putJsonArray("ids") { some.forEach { add(JsonPrimitive(it)) } } }
            read(call("POST", "/notifications/reconcile", body, user = user), Reconciled::read)
        }
        return Reconciled(answers.flatMap { it.handled }, answers.last().badge)
    }

    // The badge

    fun badge(): Badge = badge(null)

    internal fun badge(user: String?): Badge = read(call("GET", "/badge", user = user), Badge::read)

    /**
     * Clears the number on every device, because the user has seen the inbox. [BadgeStore.clear] also shows it at once. A number that
     * the app's backend gives (`badge.policy: given`) stays, and is what this returns.
     */
    fun clearBadge(): Badge = clearBadge(null).first

    /** The number, and whether the backend gives it. */
    internal fun clearBadge(user: String?): Pair<Badge, Boolean> = try {
        Pair(read(call("DELETE", "/badge", user = user), Badge::read), false)
    } catch (failure: CampanileFailure) {
        if (failure.code != "badge_is_given") throw failure
        Pair(badge(user), true)
    }

    // Devices

    /**
     * Registers a Firebase token or installation ID for the user, or renews its registration. [DeviceRegistration] does it at the
     * right times.
     *
     * @param appVersion such as `2.1.0`. A device without one is older than every `min_app_version`.
     * @param kind what [token] is. The server refuses what can't be an installation ID as one.
     */
    fun registerDevice(token: String, appVersion: String, locale: String? = null, kind: DeviceKind = DeviceKind.TOKEN) =
        registerDevice(token, appVersion, locale, kind, null)

    internal fun registerDevice(token: String, appVersion: String, locale: String?, kind: DeviceKind, user: String?) {
        val body = buildJsonObject {
            put("token", token)
            if (kind == DeviceKind.FID) put("kind", "fid")
            put("platform", "android")
            put("app_version", appVersion)
            locale?.let { put("locale", it) }
        }
        call("POST", "/device_tokens", body, user = user)
    }

    /** Ends the pushes to a device. Succeeds if it isn't registered. */
    fun deleteDevice(token: String) = deleteDevice(token, null)

    internal fun deleteDevice(token: String, user: String?) = deleteIfThere("/device_tokens/" + percentEncoded(token), user)

    private fun deleteIfThere(path: String, user: String?) {
        try {
            call("DELETE", path, user = user)
        } catch (failure: CampanileFailure) {
            if (failure.kind != CampanileFailure.Kind.NOT_FOUND) throw failure
        }
    }

    // Streams, and what needs no user

    /**
     * The inbox's events as they happen.
     *
     * @param after the id of the newest event that was handled, to get the missed ones.
     */
    fun events(after: String? = null): EventStream = EventStream(this, "/notifications/stream", after)

    /**
     * The screens that deep links may name.
     *
     * @param app one of several apps of the server.
     */
    fun deepLinks(app: String? = null): DeepLinkTree {
        val path = "/deep_links" + (app?.let { "?app=" + percentEncoded(it) } ?: "")
        return read(checked(send(HttpCall("GET", baseURL + path, headers(null)))), DeepLinkTree::read)
    }

    // One call

    private fun notification(id: String) = "/notifications/" + percentEncoded(id)

    private fun headers(token: UserToken?): Map<String, String> = buildMap {
        put("User-Agent", userAgent)
        put("Accept", "application/json")
        if (token == null) return@buildMap
        put("Authorization", "Bearer ${token.text}")
        deviceToken?.let { put("X-Device-Token", it) }
    }

    /** @param user the user whose work it is: another one's token isn't used for it. Null for whoever is signed in. */
    private fun call(
        method: String, path: String, body: JsonObject? = null, headers: Map<String, String> = emptyMap(), user: String? = null
    ): JsonElement {
        val type = if (body == null) emptyMap() else mapOf("Content-Type" to "application/json")
        val answer = attempt(user, { it.status }) { token ->
            send(HttpCall(method, baseURL + path, headers(token) + headers + type, body?.toString()))
        }
        return checked(answer)
    }

    /** Sends with the user's token, and once more with a fresh one if the server refuses it. */
    internal fun <Answer> attempt(user: String?, status: (Answer) -> Int, send: (UserToken) -> Answer): Answer {
        val first = token(null, user)
        val answer = send(first)
        if (status(answer) != 401) return answer
        return send(token(first.text, user ?: first.user).takeIf { it.text != first.text } ?: return answer)
    }

    internal fun token(refused: String?, user: String?): UserToken {
        val token = userToken(refused)
        if (token == null || (user != null && token.user != user)) throw CampanileFailure(CampanileFailure.Kind.SIGNED_OUT)
        return token
    }

    private fun send(call: HttpCall): HttpAnswer = try {
        transport.send(call)
    } catch (failure: IOException) {
        throw CampanileFailure(CampanileFailure.Kind.UNREACHABLE, cause = failure)
    }

    private fun checked(answer: HttpAnswer): JsonElement {
        if (answer.status !in 200..299) throw CampanileFailure.of(answer.status, answer.body)
        return if (answer.body.isEmpty()) JsonPrimitive("") else json(answer.body)
    }

    private fun <Value> read(answer: JsonElement, decode: (JsonElement) -> Value?): Value =
        decode(answer) ?: throw CampanileFailure(CampanileFailure.Kind.UNREADABLE)

    internal fun streamHeaders(token: UserToken, after: String): Map<String, String> =
        headers(token) + ("Accept" to "text/event-stream") + (if (after.isEmpty()) emptyMap() else mapOf("Last-Event-ID" to after))

    private companion object {
        /** The most ids that the server takes in one call. */
        const val RECONCILED_IDS = 100
    }
}

/** Percent-encoding of everything but the unreserved characters (RFC 3986 section 2.3). */
internal fun percentEncoded(text: String): String = buildString {
    for (byte in text.toByteArray()) {
        val letter = byte.toInt().toChar()
        if (letter in 'a'..'z' || letter in 'A'..'Z' || letter in '0'..'9' || letter in "-._~") append(letter)
        else append('%').append("%02X".format(byte.toInt() and 0xFF))
    }
}
