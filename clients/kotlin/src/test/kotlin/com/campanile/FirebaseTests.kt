package com.campanile

import java.io.IOException

private const val ID = "dQw4w9WgXcQ_-0123456Az"
private const val TOKEN = "$ID:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx"

/** Answers as firebase-messaging 25.1.2 does: one of the two calls works, by the manifest's setting. */
private class ScriptedFirebase(private val hasOptedIn: Boolean, private val onRegistered: (String) -> Unit) : FirebaseCalls {
    val calls = mutableListOf<String>()

    /** Why Firebase registers nothing; null where it does. */
    var failure: Exception? = null

    override fun register(done: (Exception?) -> Unit) {
        calls += "register"
        val refusal = if (hasOptedIn) failure else IllegalStateException("API disabled.")
        done(refusal)
        if (refusal == null) onRegistered(ID)
    }

    override fun token(done: (String?, Exception?) -> Unit) {
        calls += "token"
        val refusal = if (hasOptedIn) IllegalStateException("API disabled.") else failure
        if (refusal == null) done(TOKEN, null) else done(null, refusal)
    }
}

internal fun firebaseTests(tests: Tests) {
    /** One launch of the app. */
    class Launch(hasOptedIn: Boolean, val storage: MemoryStorage = MemoryStorage()) {
        var isOnline = true
        val transport = ScriptedTransport { call, _ ->
            when {
                !isOnline -> throw IOException("no network")
                call.url.endsWith("/badge") -> badgeAnswer(1, 1)
                else -> HttpAnswer(200, "{}")
            }
        }
        val api = scripted(transport)
        val badge = BadgeStore(storage)
        val registration = DeviceRegistration(api, storage, badge, "2.1.0")
        val failures = mutableListOf<Exception>()
        val firebase = ScriptedFirebase(hasOptedIn) { id -> runCatching { registration.registerInstallation(id) } }
        private val asking = FirebaseRegistration(firebase, { token -> runCatching { registration.register(token) } }, { failures += it })

        /** Each registration at the server: what and of which kind. */
        val registered get() = transport.calls.filter { it.method == "POST" }.map { json(it.body ?: "") }
            .map { Pair(it["token"].text, it["kind"].text) }
        val deleted get() = transport.calls.filter { it.method == "DELETE" }.map { it.url.substringAfterLast('/') }
        val named get() = transport.calls.last().headers["X-Device-Token"]

        fun start() = asking.start()

        fun cameToForeground() {
            asking.cameToForeground()
            registration.cameToForeground()
        }
    }

    tests.test("an app that has opted in registers its installation ID as one, and never asks for a token") {
        val app = Launch(hasOptedIn = true)
        app.registration.signedIn("alice")
        app.start()
        app.cameToForeground()
        expectEqual(app.firebase.calls.toList(), listOf("register"))
        expectEqual(app.transport.calls[0].body, """{"token":"$ID","kind":"fid","platform":"android","app_version":"2.1.0"}""")
        expectEqual(app.named, ID)
        app.start()
        app.firebase.failure = IllegalStateException("API disabled.")
        app.start()
        app.cameToForeground()
        expectEqual(app.firebase.calls.toSet(), setOf("register"), "a token would end the ID")
        expectEqual(app.failures.size, 2)
    }

    tests.test("an app that hasn't opted in registers its token, without a kind, and asks for tokens alone from then on") {
        val app = Launch(hasOptedIn = false)
        app.registration.signedIn("alice")
        app.start()
        app.start()
        expectEqual(app.firebase.calls.toList(), listOf("register", "token", "token"))
        expectEqual(app.registered, listOf(Pair<String?, String?>(TOKEN, null), Pair(TOKEN, null)))
        expectEqual(app.named, TOKEN)
        expectEqual(app.failures.size, 0)
    }

    tests.test("an opt-in later registers the device anew, calls name its ID, and a sign-out deletes the ID alone") {
        val before = Launch(hasOptedIn = false)
        before.registration.signedIn("alice")
        before.start()
        val app = Launch(hasOptedIn = true, before.storage)
        app.start()
        app.registration.signedIn("alice")
        expectEqual(app.registered, listOf(Pair<String?, String?>(ID, "fid")))
        expectEqual(app.named, ID)
        expectEqual(app.registration.signOut(), null)
        expectEqual(app.deleted, listOf(ID))
    }

    fun optedInOffline(): Launch {
        val before = Launch(hasOptedIn = false)
        before.registration.signedIn("alice")
        before.start()
        val app = Launch(hasOptedIn = true, before.storage)
        app.registration.signedIn("alice")
        app.isOnline = false
        app.start()
        app.isOnline = true
        return app
    }

    tests.test("an opt-in that didn't reach the server is sent again in the foreground, without Firebase, and then no more") {
        val app = optedInOffline()
        app.cameToForeground()
        app.cameToForeground()
        expectEqual(app.registered, listOf(Pair<String?, String?>(ID, "fid"), Pair(ID, "fid")))
        expectEqual(app.firebase.calls.toList(), listOf("register"))
        expectEqual(app.registration.signOut(), null)
        expectEqual(app.deleted, listOf(ID))
    }

    tests.test("a sign-out after an opt-in that didn't reach the server deletes the token, which is still registered there, and the ID") {
        val app = optedInOffline()
        expectEqual(app.registration.signOut(), null)
        expectEqual(app.deleted, listOf(percentEncoded(TOKEN), ID))
    }

    tests.test("calls name what the server has taken, until it has taken the next") {
        val app = Launch(hasOptedIn = true)
        app.registration.signedIn("alice")
        app.registration.registerInstallation("first")
        app.isOnline = false
        runCatching { app.registration.registerInstallation("second") }
        app.isOnline = true
        app.api.badge()
        expectEqual(app.named, "first")
        app.cameToForeground()
        app.api.badge()
        expectEqual(app.named, "second")
    }

    tests.test("a sign-out before a registration spares what another phone's backup brought") {
        val app = Launch(hasOptedIn = true, MemoryStorage("device_token" to "anotherPhone:APA91b"))
        app.registration.signedIn("alice")
        app.isOnline = false
        app.start()
        app.isOnline = true
        expectEqual(app.registration.signOut(), null)
        expectEqual(app.deleted, listOf(ID))
    }

    for (hasOptedIn in listOf(true, false)) {
        val call = if (hasOptedIn) "register" else "token"
        tests.test("a failure of Firebase's $call is said, and tried again in the foreground until it succeeds") {
            val app = Launch(hasOptedIn)
            app.registration.signedIn("alice")
            app.firebase.failure = IOException("SERVICE_NOT_AVAILABLE")
            app.start()
            expectEqual(app.failures.map { it.message }, listOf<String?>("SERVICE_NOT_AVAILABLE"))
            app.cameToForeground()
            expectEqual(app.failures.size, 2)
            expectEqual(app.registered.size, 0)
            app.firebase.failure = null
            app.cameToForeground()
            app.cameToForeground()
            expectEqual(app.firebase.calls.filter { it == call }.size, 3)
            expectEqual(app.firebase.calls.count { it == "token" }, if (hasOptedIn) 0 else 3)
            expectEqual(app.registered, listOf(if (hasOptedIn) Pair<String?, String?>(ID, "fid") else Pair(TOKEN, null)))
        }
    }

    tests.test("a token that onRegistered brings, from old Google Play services, is registered as a token") {
        val app = Launch(hasOptedIn = true)
        app.registration.signedIn("alice")
        app.registration.registerInstallation(TOKEN)
        app.registration.registerInstallation("a".repeat(65))
        app.registration.registerInstallation("a".repeat(64))
        expectEqual(app.registered.map { it.second }, listOf(null, null, "fid"))
    }
}
