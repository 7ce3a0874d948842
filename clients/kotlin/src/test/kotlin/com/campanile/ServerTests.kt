package com.campanile

import java.io.File
import java.net.URI
import java.net.http.HttpClient
import java.net.http.HttpRequest
import java.net.http.HttpResponse.BodyHandlers
import java.util.Collections
import kotlin.concurrent.thread
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put

/** A campanile server whose pushes go to the simulator of Firebase, which records them. */
internal class LiveServer(settings: JsonElement) {
    private val address = settings["address"].text ?: ""
    private val key = settings["key"].text ?: ""
    private val tokens = settings["tokens"] as? JsonObject ?: JsonObject(emptyMap())
    private val record = File(settings["record"].text ?: "")

    fun userToken(user: String): UserToken = UserToken(user, tokens[user].text ?: throw AssertionError("no token of $user"))

    fun api(user: String) = CampanileAPI(address, "Shop/2.1.0 Hotwire Native Android", JvmTransport()) { userToken(user) }

    fun api(userToken: (String?) -> UserToken?) = CampanileAPI(address, "Shop/2.1.0 Hotwire Native Android", JvmTransport(), userToken)

    /** @return the notification's id. */
    fun send(user: String, title: String, link: String? = null, category: String? = null): String {
        val body = buildJsonObject {
            put("user_id", user)
            put("title", title)
            link?.let { put("deep_link", it) }
            category?.let { put("category", it) }
        }
        val answer = ask("POST", "/notifications", key, body.toString())
        return json(answer)["id"].text ?: throw AssertionError(answer)
    }

    /** The tokens of a user's devices at the server, each with its app's version. */
    fun devices(user: String): Map<String?, String?> {
        val answer = json(ask("GET", "/device_tokens", userToken(user).text))
        return (answer["device_tokens"].list ?: emptyList()).associate { it["token"].text to it["app_version"].text }
    }

    /** The messages to a device, by its token or installation ID, that the simulator took, the oldest first. */
    fun messages(device: String): List<JsonElement> = record.readLines().map(::json)
        .filter { it["service"].text == "fcm" && it["status"].long == 200L }
        .map { json(it["payload"].text ?: "")["message"] ?: throw AssertionError("$it") }
        .filter { (it["token"] ?: it["fid"]).text == device }

    private fun ask(method: String, path: String, credential: String, body: String? = null): String {
        val headers = mapOf("Authorization" to "Bearer $credential", "Content-Type" to "application/json")
        val answer = UrlConnectionTransport().send(HttpCall(method, address + path, headers, body))
        expect(answer.status in 200..299) { "$method $path: ${answer.status} ${answer.body}" }
        return answer.body
    }
}

/** Sends `PATCH` with Java's other client, because the JVM's HttpURLConnection refuses it; Android's takes it. */
private class JvmTransport(private val usual: HttpTransport = UrlConnectionTransport()) : HttpTransport by usual {
    override fun send(call: HttpCall): HttpAnswer {
        if (call.method != "PATCH") return usual.send(call)
        val request = HttpRequest.newBuilder(URI(call.url)).method(call.method, HttpRequest.BodyPublishers.ofString(call.body ?: ""))
        call.headers.forEach { (name, value) -> request.header(name, value) }
        val answer = HttpClient.newHttpClient().send(request.build(), BodyHandlers.ofString())
        return HttpAnswer(answer.statusCode(), answer.body())
    }
}

/** As `PushService` of examples/android reads a message. */
private fun payload(message: JsonElement): PushPayload {
    val data = (message["data"] as? JsonObject ?: JsonObject(emptyMap())).mapValues { (_, value) -> value.text ?: "" }
    return PushPayload.read(data, message["notification"] != null, message["android"]["notification"]["notification_count"].long?.toInt())
}

private class Device(
    server: LiveServer, val user: String, val token: String, appVersion: String = "2.1.0", tokens: ((String?) -> UserToken?)? = null
) {
    val api = if (tokens == null) server.api(user) else server.api(tokens)
    val badge = BadgeStore(MemoryStorage())
    val registration = DeviceRegistration(api, MemoryStorage(), badge, appVersion)
    val handler = PushHandler(api, badge)

    init {
        registration.register(token)
        registration.signedIn(user)
    }
}

internal fun serverTests(tests: Tests, server: LiveServer) {
    tests.test("the inbox at a server: listed, read, unread, all read up to one, deleted") {
        val api = server.api("anna")
        val ids = (1..3).map { server.send("anna", "number $it", "home") }
        val looked = api.notifications(isPrefetch = true)
        expectEqual(looked.notifications.map { it.id }, ids.reversed())
        expectEqual(looked.notifications[0].deepLink, "home")
        expectEqual(looked.badge.count, 3L, "a prefetch clears nothing")
        expect(api.markRead(ids[0]).readAt != null) { "not read" }
        expectEqual(api.badge().count, 2L)
        expectEqual(api.markRead(ids[0], false).readAt, null)
        expectEqual(api.badge().count, 3L)
        val all = api.markAllRead(upTo = ids[1])
        expectEqual(Pair(all.count, all.unreadCount), Pair(0L, 1L))
        api.delete(ids[2])
        api.delete(ids[2])
        expectEqual(api.badge().unreadCount, 0L)
        expectFailure(CampanileFailure.Kind.NOT_FOUND) { api.markRead(ids[2]) }
        val first = api.notifications(limit = 1)
        val second = api.notifications(cursor = first.nextCursor ?: throw AssertionError("one page"), limit = 1)
        expectEqual((first.notifications + second.notifications).map { it.id }, listOf(ids[1], ids[0]))
    }

    tests.test("the native list and a cleared badge set 0, here and for a push that comes late") {
        val phone = Device(server, "ben", "fcm-ben")
        server.send("ben", "one")
        eventually("the push has come") { server.messages("fcm-ben").isNotEmpty() }
        val push = payload(server.messages("fcm-ben").first())
        expect(phone.handler.arrived(push)) { "the number isn't taken: $push" }
        expectEqual(phone.badge.count, 1)
        phone.badge.update { phone.api.notifications().badge }
        expectEqual(phone.badge.count, 0)
        expect(!phone.handler.arrived(push)) { "a late push brought the number back" }
        server.send("ben", "two")
        phone.badge.refresh(phone.api)
        expectEqual(phone.badge.count, 2)
        phone.handler.inboxAppeared()
        expectEqual(Pair(phone.badge.count, phone.api.badge().count), Pair(0, 0L))
    }

    tests.test("a registered device has its app's version, so a link that asks for one reaches it and an older app gets none") {
        Device(server, "clara", "fcm-clara-new", "2.1.0")
        Device(server, "clara", "fcm-clara-old", "1.9")
        expectEqual(server.devices("clara"), mapOf<String?, String?>("fcm-clara-new" to "2.1.0", "fcm-clara-old" to "1.9"))
        val id = server.send("clara", "one", "home/ranking", "NOTICE")
        eventually("both pushes have come") { listOf("fcm-clara-new", "fcm-clara-old").all { server.messages(it).isNotEmpty() } }
        val (new, old) = listOf("fcm-clara-new", "fcm-clara-old").map { payload(server.messages(it).first()) }
        expectEqual(Triple(new.id, new.deepLink, new.category), Triple(id, "home/ranking", "NOTICE"))
        expectEqual(Triple(old.id, old.deepLink, old.category), Triple(id, null, "NOTICE"))
    }

    tests.test("a device that changes from its token to its installation ID stays one, and its pushes go to the ID") {
        val phone = Device(server, "ines", "inesInstallation:fcm")
        phone.registration.registerInstallation("inesInstallation")
        expectEqual(server.devices("ines"), mapOf<String?, String?>("inesInstallation" to "2.1.0"))
        server.send("ines", "one")
        eventually("the push has come") { server.messages("inesInstallation").isNotEmpty() }
        expectEqual(server.messages("inesInstallation").first()["fid"].text, "inesInstallation")
        expectEqual(server.messages("inesInstallation:fcm").size, 0)
        expectEqual(phone.registration.signOut(), null)
        expectEqual(server.devices("ines"), emptyMap())
    }

    tests.test("what is cleared on one device comes as 0 to the other, and a tap marks read") {
        val one = Device(server, "dora", "fcm-dora-1")
        val other = Device(server, "dora", "fcm-dora-2")
        val id = server.send("dora", "one")
        eventually("both alerts have come") { listOf(one, other).all { server.messages(it.token).isNotEmpty() } }
        other.handler.arrived(payload(server.messages(other.token).first()))
        expectEqual(other.badge.count, 1)
        one.handler.tapped(PushPayload(id = id))
        expectEqual(one.badge.count, 0)
        eventually("the clearing has come") { server.messages(other.token).size > 1 }
        val clearing = payload(server.messages(other.token).last())
        expect(!clearing.isAlert && clearing.badge == 0L) { "$clearing" }
        other.handler.arrived(clearing)
        expectEqual(other.badge.count, 0)
    }

    tests.test("a sign-out deletes the device at the server, and the next user's number is their own") {
        var user = "emil"
        val phone = Device(server, "emil", "fcm-emil") { server.userToken(user) }
        server.send("emil", "one")
        phone.badge.refresh(phone.api)
        expectEqual(phone.badge.count, 1)
        expectEqual(phone.registration.signOut(), null)
        expectEqual(server.devices("emil"), emptyMap())
        expectEqual(phone.badge.count, 0)
        user = "frida"
        phone.registration.signedIn("frida")
        expectEqual(server.devices("frida").keys, setOf<String?>("fcm-emil"))
        expectEqual(phone.badge.count, 0)
        server.send("frida", "hers")
        eventually("her push has come") { server.messages("fcm-emil").any { it["notification"]["title"].text == "hers" } }
        expect(phone.handler.arrived(payload(server.messages("fcm-emil").last()))) { "her push doesn't count" }
        expectEqual(phone.badge.count, 1)
    }

    tests.test("a token that the server refuses is replaced by the next page's") {
        val handed = HandedTokens(patience = 600_000)
        handed.hand(UserToken("gina", "no.token.atall"))
        var count: Long? = null
        val asking = thread { count = server.api(handed).badge().count }
        eventually("the call waits for a page") { asking.state == Thread.State.TIMED_WAITING }
        handed.hand(server.userToken("gina"))
        asking.join()
        expectEqual(count, 0L)
    }

    tests.test("the stream tells the number and what happens, at once and from where another stream ended") {
        val api = server.api("hans")
        val badge = BadgeStore(MemoryStorage())
        val first = server.send("hans", "one")
        val following = api.events()
        val follower = thread { badge.follow(following) }
        eventually("the stream begins with the number") { badge.count == 1 }
        val heard = Collections.synchronizedList(mutableListOf<InboxEvent>())
        val events = api.events()
        val listener = thread { events.run { heard += it } }
        eventually("the other stream has begun") { heard.isNotEmpty() }
        server.send("hans", "two")
        eventually("the number follows") { badge.count == 2 }
        eventually("the notification is told") { heard.any { it.change is InboxEvent.Change.Created } }
        events.close()
        api.markRead(first)
        eventually("the number follows again") { badge.count == 1 }
        val later = api.events(after = events.lastEventID)
        val missed = Collections.synchronizedList(mutableListOf<InboxEvent>())
        val another = thread { later.run { missed += it } }
        eventually("what was missed is told") { missed.any { (it.change as? InboxEvent.Change.Updated)?.notification?.id == first } }
        listOf(following, later).forEach { it.close() }
        listOf(follower, listener, another).forEach { it.join() }
    }

    tests.test("the tree of the server leads a link to its pages") {
        val router = DeepLinkRouter(server.api("anna").deepLinks()) { it.address }
        expectEqual(router.chain("home/ranking").screens, listOf("/dashboard", "/home/ranking"))
    }
}
