package com.campanile

import java.io.IOException
import kotlin.concurrent.thread

internal fun callTests(tests: Tests) {
    tests.test("a call says who asks, from which app and device") {
        val transport = ScriptedTransport { _, _ -> badgeAnswer(1, 1) }
        val api = scripted(transport)
        api.deviceToken = "fcm-1"
        api.badge()
        val headers = transport.calls.single().headers
        expectEqual(headers["Authorization"], "Bearer jwt")
        expectEqual(headers["User-Agent"], "Example/1 Hotwire Native Android")
        expectEqual(headers["X-Device-Token"], "fcm-1")
        expectEqual(transport.summary, listOf("GET /badge"))
    }

    tests.test("identifiers and cursors are escaped in an address; a prefetch says so") {
        val transport = ScriptedTransport { call, _ ->
            val page = """{"notifications":[{}],"badge":{"count":1,"unread_count":1,"version":1}}"""
            if (call.method == "DELETE") HttpAnswer(204, "") else HttpAnswer(200, page)
        }
        scripted(transport).deleteDevice("a/b:c%d é")
        val page = scripted(transport).notifications(cursor = "x+/=", isPrefetch = true)
        val expected = listOf("DELETE /device_tokens/a%2Fb%3Ac%25d%20%C3%A9", "GET /notifications?limit=50&cursor=x%2B%2F%3D")
        expectEqual(transport.summary, expected)
        expectEqual(transport.calls[1].headers["X-Sec-Purpose"], "prefetch")
        expectEqual(page.notifications.size, 0, "an unreadable notification spoils no other")
    }

    tests.test("a refused token is replaced once, and never by another user's") {
        var given = mutableListOf<String?>()
        val transport = ScriptedTransport { call, _ ->
            if (call.headers["Authorization"] == "Bearer old") problem(401, "unauthorized") else badgeAnswer(2, 2)
        }
        val api = scripted(transport) { refused ->
            given += refused
            UserToken("alice", if (refused == null) "old" else "new")
        }
        expectEqual(api.badge().count, 2L)
        expectEqual(given, mutableListOf(null, "old"))
        given = mutableListOf()
        val others = scripted(transport) { refused -> if (refused == null) UserToken("alice", "old") else UserToken("bob", "new") }
        expectFailure(CampanileFailure.Kind.SIGNED_OUT) { others.badge() }
        expectEqual(transport.calls.size, 3)
        val same = scripted(transport) { UserToken("alice", "old") }
        expectEqual(expectFailure(CampanileFailure.Kind.SIGNED_OUT) { same.badge() }.status, 401)
        expectEqual(transport.calls.size, 4)
        expectFailure(CampanileFailure.Kind.SIGNED_OUT) { scripted(transport) { null }.badge() }
        expectEqual(transport.calls.size, 4)
    }

    tests.test("a failure says of what kind it is, and whether the same call may succeed later") {
        val expected = listOf(
            Triple(problem(403, "forbidden"), CampanileFailure.Kind.REFUSED, false),
            Triple(problem(404, "not_found"), CampanileFailure.Kind.NOT_FOUND, false),
            Triple(HttpAnswer(404, "404 page not found"), CampanileFailure.Kind.UNAVAILABLE, true),
            Triple(HttpAnswer(521, "<html>"), CampanileFailure.Kind.UNAVAILABLE, true),
            Triple(problem(422, "invalid"), CampanileFailure.Kind.REFUSED, false),
            Triple(problem(429, "busy"), CampanileFailure.Kind.UNAVAILABLE, true),
            Triple(problem(503, "unavailable"), CampanileFailure.Kind.UNAVAILABLE, true),
            Triple(HttpAnswer(302, ""), CampanileFailure.Kind.UNREADABLE, false),
            Triple(HttpAnswer(200, "<html>"), CampanileFailure.Kind.UNREADABLE, false)
        )
        for ((answer, kind, mayPass) in expected) {
            val failure = expectFailure(kind) { scripted(ScriptedTransport { _, _ -> answer }).badge() }
            expectEqual(failure.mayPass, mayPass, "${answer.status}")
            if (answer.status in 400..599) expectEqual(failure.code, json(answer.body)["code"].text)
        }
        val cut = ScriptedTransport { _, _ -> throw IOException("cut") }
        expect(expectFailure(CampanileFailure.Kind.UNREACHABLE) { scripted(cut).badge() }.mayPass) { "a cut is final" }
    }

    tests.test("what isn't there any more counts as deleted") {
        scripted(ScriptedTransport { _, _ -> problem(404, "not_found") }).apply {
            deleteDevice("gone")
            delete("gone")
        }
    }

    tests.test("nothing counts as deleted because a proxy answers 404 while no server is behind it") {
        scripted(ScriptedTransport { _, _ -> HttpAnswer(404, "404 page not found") }).apply {
            expectFailure(CampanileFailure.Kind.UNAVAILABLE) { deleteDevice("there") }
            expectFailure(CampanileFailure.Kind.UNAVAILABLE) { delete("there") }
        }
    }

    handedTokenTests(tests)
}

private fun handedTokenTests(tests: Tests) {
    tests.test("a call before the first page waits for the token that it hands over") {
        val handed = HandedTokens(patience = 600_000)
        var got: UserToken? = null
        val waiting = thread { got = handed(null) }
        handed.hand(userToken("alice"))
        waiting.join()
        expectEqual(got?.user, "alice")
        expectEqual(HandedTokens(patience = 0)(null), null)
    }

    tests.test("a page from before doesn't replace a fresher token; without the time of issue the later end is the fresher one") {
        val byIssue = userToken("alice", 10) to userToken("alice", 20)
        val byEnd = userToken("alice", null, 10) to userToken("alice", null, 20)
        for ((older, newer) in listOf(byIssue, byEnd)) {
            val handed = HandedTokens(patience = 0)
            expect(handed.hand(newer) && !handed.hand(older)) { "an older token was taken" }
            expectEqual(handed(null), newer)
        }
    }

    tests.test("a refused token isn't given again, also when an old page hands it over") {
        val handed = HandedTokens(patience = 0)
        val token = userToken("alice", 10)
        handed.hand(token)
        expectEqual(handed(token.text), null)
        expect(!handed.hand(token)) { "the refused token was taken" }
        expect(handed.hand(userToken("alice", 11))) { "the fresh token wasn't taken" }
    }

    tests.test("work that waits for a fresh token gets none of another user") {
        val handed = HandedTokens(patience = 600_000)
        handed.hand(userToken("alice", 10))
        var got: UserToken? = userToken("nobody yet")
        val waiting = thread { got = handed(userToken("alice", 10).text) }
        eventually("the call waits") { waiting.state == Thread.State.TIMED_WAITING }
        handed.hand(userToken("bob", 11))
        waiting.join()
        expectEqual(got, null)
        expectEqual(handed(null)?.user, "bob")
    }

    tests.test("after a sign-out nobody waits, and a page out of the cache signs nobody in") {
        val handed = HandedTokens(patience = 600_000)
        val token = userToken("alice", 10)
        handed.hand(token)
        handed.signedOut("bob")
        expectEqual(handed(null), token)
        handed.signedOut("alice")
        expectEqual(handed(null), null)
        expect(!handed.hand(token)) { "the cached page signed in" }
        expectEqual(handed(null), null)
    }
}
