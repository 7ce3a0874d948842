package com.campanile

import java.io.ByteArrayInputStream
import java.io.IOException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.Executors
import kotlin.concurrent.thread

internal fun registrationTests(tests: Tests) {
    class Phone(val transport: ScriptedTransport, val storage: MemoryStorage = MemoryStorage()) {
        var user = "alice"
        val api = scripted(transport) { UserToken(user, "jwt of $user") }
        val badge = BadgeStore(storage)
        val registration = DeviceRegistration(api, storage, badge, "2.1.0", "ko-KR")
        val tokens get() = transport.calls.filter { it.method == "POST" }.map { json(it.body ?: "")["token"].text }
    }

    fun answered(call: HttpCall) =
        when {
            call.url.endsWith("/badge") -> badgeAnswer(1, 1)
            call.method == "DELETE" -> HttpAnswer(204, "")
            else -> HttpAnswer(201, "{}")
        }

    tests.test("a device is registered with its app's version, at a sign-in and at every launch, also with an unchanged token") {
        val phone = Phone(ScriptedTransport { call, _ -> answered(call) })
        phone.registration.register("fcm-1")
        expectEqual(phone.transport.calls.size, 0, "nobody is signed in")
        phone.registration.signedIn("alice")
        val body = json(phone.transport.calls[0].body ?: "")
        expectEqual(body.toString(), """{"token":"fcm-1","platform":"android","app_version":"2.1.0","locale":"ko-KR"}""")
        expectEqual(phone.transport.summary, listOf("POST /device_tokens", "GET /badge"))
        phone.registration.signedIn("alice")
        expectEqual(phone.transport.calls.size, 2, "each page says who is signed in")
        val next = Phone(phone.transport, phone.storage)
        next.registration.signedIn("alice")
        next.registration.register("fcm-1")
        expectEqual(phone.tokens, listOf("fcm-1", "fcm-1"))
    }

    tests.test("a token that changes is registered at once") {
        val phone = Phone(ScriptedTransport { call, _ -> answered(call) })
        phone.registration.signedIn("alice")
        phone.registration.register("fcm-1")
        phone.registration.register("fcm-2")
        expectEqual(phone.tokens, listOf("fcm-1", "fcm-2"))
    }

    tests.test("a registration that failed is made again in the foreground, and then no more") {
        val phone = Phone(ScriptedTransport { call, number -> if (number == 1) throw IOException("no network") else answered(call) })
        phone.registration.signedIn("alice")
        expectFailure(CampanileFailure.Kind.UNREACHABLE) { phone.registration.register("fcm-1") }
        phone.registration.cameToForeground()
        phone.registration.cameToForeground()
        expectEqual(phone.tokens, listOf("fcm-1", "fcm-1"))
    }

    tests.test("a token of an earlier launch is neither registered nor named, and a sign-out deletes it") {
        val phone = Phone(ScriptedTransport { call, _ -> answered(call) }, MemoryStorage("device_token" to "old"))
        phone.registration.signedIn("alice")
        phone.registration.cameToForeground()
        expectEqual(phone.transport.calls.size, 0)
        expectEqual(phone.registration.signOut(), null)
        expectEqual(phone.transport.summary, listOf("DELETE /device_tokens/old"))
    }

    tests.test("a sign-out waits for the registration on its way, and deletes after it") {
        val gate = CountDownLatch(1)
        val phone = Phone(ScriptedTransport { call, _ ->
            if (call.method == "POST") gate.await()
            answered(call)
        })
        phone.registration.signedIn("alice")
        val first = thread { runCatching { phone.registration.register("fcm-1") } }
        eventually("the registration is on its way") { phone.transport.calls.isNotEmpty() }
        val leaving = thread { phone.registration.signOut() }
        eventually("the number is forgotten") { phone.badge.isSignedOut }
        expectEqual(phone.transport.summary, listOf("POST /device_tokens"))
        gate.countDown()
        listOf(first, leaving).forEach { it.join() }
        expectEqual(phone.transport.summary.filter { "device" in it }, listOf("POST /device_tokens", "DELETE /device_tokens/fcm-1"))
    }

    tests.test("a token that comes after the sign-out is registered for nobody but who signs in next") {
        val phone = Phone(ScriptedTransport { call, _ -> answered(call) })
        phone.registration.signedIn("alice")
        phone.registration.signOut()
        phone.registration.register("fcm-2")
        phone.registration.cameToForeground()
        expectEqual(phone.tokens, emptyList<String?>())
        phone.user = "bob"
        phone.registration.signedIn("bob")
        expectEqual(phone.tokens, listOf<String?>("fcm-2"))
        expectEqual(phone.transport.calls.first { it.method == "POST" }.headers["Authorization"], "Bearer jwt of bob")
    }

    tests.test("a sign-out that the server didn't hear of is remembered until somebody signs in; the number is forgotten all the same") {
        val phone = Phone(ScriptedTransport { call, _ -> if (call.method == "DELETE") throw IOException("no network") else answered(call) })
        phone.registration.signedIn("alice")
        phone.registration.register("fcm-1")
        expectEqual(phone.badge.count, 1)
        expectEqual(phone.registration.signOut()?.kind, CampanileFailure.Kind.UNREACHABLE)
        expect(phone.registration.isLeft && phone.badge.count == 0) { "left: ${phone.registration.isLeft}, ${phone.badge.count}" }
        expect(Phone(phone.transport, phone.storage).registration.isLeft) { "forgotten at the next launch" }
        phone.user = "bob"
        phone.registration.signedIn("bob")
        expect(!phone.registration.isLeft) { "still left" }
    }

    tests.test("another user is noticed before the network is asked, also without a sign-out before") {
        val phone = Phone(ScriptedTransport { _, _ -> throw IOException("no network") })
        var changes = 0
        phone.registration.signedIn("alice") { changes += 1 }
        phone.registration.signedIn("alice") { changes += 1 }
        phone.user = "bob"
        phone.registration.signedIn("bob") { changes += 1 }
        expectEqual(changes, 2)
    }

    sessionTests(tests)
    handedTokenTests(tests)
}

private fun sessionTests(tests: Tests) {
    class Phone(script: (HttpCall, Int) -> HttpAnswer) {
        val transport = ScriptedTransport(script = script)
        val tokens = HandedTokens(patience = 0)
        val api = scripted(transport, tokens)
        val badge = BadgeStore(MemoryStorage())
        val registration = DeviceRegistration(api, MemoryStorage(), badge, "2.1.0")
        val changes = mutableListOf<String?>()
        val session = UserSession(tokens, registration) { changes += it }
        val senders get() = transport.calls.map { it.method + " " + it.headers["Authorization"]?.removePrefix("Bearer ") }

        init {
            registration.register("fcm-1")
        }
    }

    fun answer(call: HttpCall) = if (call.url.endsWith("/badge")) badgeAnswer(1, 1) else HttpAnswer(200, "{}")

    tests.test("the first page of a user signs in, the next ones only bring fresh tokens; another user is a change") {
        val phone = Phone { call, _ -> answer(call) }
        val (alice, later, bob) = listOf(userToken("alice", 10), userToken("alice", 11), userToken("bob", 12))
        expect(phone.session.signedIn(alice)) { "not signed in" }
        expect(!phone.session.signedIn(later)) { "signed in twice" }
        expectEqual(phone.changes.toList(), listOf<String?>("alice"))
        expect(phone.session.signedIn(bob)) { "bob isn't signed in" }
        expectEqual(phone.changes.toList(), listOf<String?>("alice", "bob"))
        expectEqual(phone.senders, listOf("POST ${alice.text}", "GET ${alice.text}", "POST ${bob.text}", "GET ${bob.text}"))
        expect(!phone.session.signedIn(alice)) { "an old page signed alice in again" }
    }

    tests.test("a page that says who it is in the middle of the sign-out signs nobody in; the device is deleted with the leaving user's token") {
        lateinit var phone: Phone
        var inTheMiddle: Boolean? = null
        phone = Phone { call, _ ->
            if (call.method == "DELETE") inTheMiddle = phone.session.signedIn(userToken("alice", 11))
            answer(call)
        }
        phone.session.signedIn(userToken("alice", 10))
        expectEqual(phone.session.signOut(), null)
        expectEqual(inTheMiddle, false)
        expectEqual(phone.senders.last(), "DELETE ${userToken("alice", 10).text}")
        expectEqual(phone.tokens(null), null)
        expect(phone.badge.isSignedOut) { "somebody is signed in" }
        expectEqual(phone.changes.toList(), listOf("alice", null))
    }

    tests.test("whoever signs in while the sign-out is slow keeps their token") {
        lateinit var phone: Phone
        phone = Phone { call, _ ->
            if (call.method == "DELETE") phone.tokens.hand(userToken("bob", 12))
            answer(call)
        }
        phone.session.signedIn(userToken("alice", 10))
        phone.session.signOut()
        expectEqual(phone.tokens(null)?.user, "bob")
    }

    tests.test("the same user signs in again after a sign-out, with a fresh token") {
        val phone = Phone { call, _ -> answer(call) }
        phone.session.signedIn(userToken("alice", 10))
        phone.session.signOut()
        expect(!phone.session.signedIn(userToken("alice", 10))) { "a page out of the cache signed in" }
        expect(phone.session.signedIn(userToken("alice", 20))) { "not signed in" }
        expectEqual(phone.senders.count { it.startsWith("POST") }, 2)
    }
}

private fun handedTokenTests(tests: Tests) {
    class Phone(patience: Long, streams: (HttpCall, Int) -> HttpStream, script: (HttpCall, Int) -> HttpAnswer) {
        val transport = ScriptedTransport(streams, script)
        val tokens = HandedTokens(patience)
        val api = scripted(transport, tokens)
        val badge = BadgeStore(MemoryStorage())
        val registration = DeviceRegistration(api, MemoryStorage(), badge, "2.1.0")
        val follower = BadgeFollower(api, badge) { work -> thread(isDaemon = true) { runCatching(work) } }
        val session = UserSession(tokens, registration, follower)
        val streamed get() = transport.calls.filter { it.url.endsWith("/stream") }.map { it.headers["Authorization"]?.removePrefix("Bearer ") }

        init {
            registration.register("fcm-1")
        }
    }

    fun answer(call: HttpCall, refused: UserToken) = when {
        call.headers["Authorization"] == "Bearer ${refused.text}" -> problem(401, "unauthorized")
        call.url.endsWith("/badge") -> badgeAnswer(1, 1)
        else -> HttpAnswer(200, "{}")
    }

    val (old, fresh) = listOf(userToken("alice", 10), userToken("alice", 11))
    val noStream = { _: HttpCall, _: Int -> throw IOException("no stream") }

    tests.test("a page's token reaches a refused registration that holds the only thread") {
        val phone = Phone(3_600_000, noStream) { call, _ -> answer(call, old) }
        val one = Executors.newSingleThreadExecutor { thread(start = false, isDaemon = true, block = it::run) }
        phone.session.signedIn(old) { one.execute(it) }
        eventually("the registration was refused") { phone.transport.calls.isNotEmpty() }
        phone.session.signedIn(fresh) { one.execute(it) }
        eventually("the registration is made with the fresh token") { phone.badge.count == 1 }
        expectEqual(phone.transport.summary, listOf("POST /device_tokens", "POST /device_tokens", "GET /badge"))
        one.shutdownNow()
    }

    tests.test("a registration that was refused is made again with the next page's token, and then no more") {
        val phone = Phone(0, noStream) { call, _ -> answer(call, old) }
        expectFailure(CampanileFailure.Kind.SIGNED_OUT) { phone.session.signedIn(old) }
        phone.session.signedIn(fresh)
        phone.session.signedIn(userToken("alice", 12))
        expectEqual(phone.transport.summary, listOf("POST /device_tokens", "POST /device_tokens", "GET /badge"))
    }

    tests.test("a stream whose token ended goes on with the next page's, and ends with the background and the sign-out") {
        val closed = CountDownLatch(2)
        val phone = Phone(0, { call, _ ->
            val isOld = call.headers["Authorization"] == "Bearer ${old.text}"
            val silence = object : ByteArrayInputStream(ByteArray(0)) {
                override fun read(bytes: ByteArray, offset: Int, length: Int): Int = -1.also { closed.await() }
            }
            HttpStream(if (isOld) 401 else 200, silence) { if (!isOld) closed.countDown() }
        }) { call, _ -> answer(call, userToken("nobody")) }
        phone.session.signedIn(old)
        phone.follower.cameToForeground()
        eventually("the stream was refused") { phone.streamed == listOf(old.text) && phone.tokens(null) == null }
        phone.session.signedIn(fresh)
        eventually("it goes on") { phone.streamed == listOf(old.text, fresh.text) }
        phone.session.signedIn(userToken("alice", 12))
        phone.follower.wentToBackground()
        eventually("the background ends it") { closed.count == 1L }
        phone.follower.cameToForeground()
        eventually("it is back") { phone.streamed.size == 3 }
        phone.session.signOut()
        eventually("the sign-out ends it") { closed.count == 0L }
    }
}
