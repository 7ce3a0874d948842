package com.campanile

import java.io.IOException
import java.util.Collections
import kotlin.concurrent.thread

internal fun badgeTests(tests: Tests) {
    fun push(count: Long, version: Long) = PushPayload(badge = count, badgeVersion = version)

    tests.test("a number survives the launch in its storage; a stored text that isn't one counts as none") {
        val storage = MemoryStorage()
        BadgeStore(storage).apply(push(3, 20))
        expectEqual(BadgeStore(storage).count, 3)
        expect(!BadgeStore(storage).apply(push(9, 19))) { "an older number counted at the next launch" }
        expectEqual(BadgeStore(MemoryStorage("badge" to "three at most")).count, 0)
    }

    tests.test("observers hear the number at once, each change in order, and nothing once they have ended it") {
        val store = BadgeStore(MemoryStorage())
        val heard = mutableListOf<Int>()
        store.apply(push(1, 1))
        val observation = store.observe { heard += it }
        store.apply(push(2, 2))
        store.apply(push(9, 1))
        observation.close()
        store.apply(push(4, 4))
        expectEqual(heard, mutableListOf(1, 2))
    }

    tests.test("an observer may set the number itself, and hears that afterwards") {
        val store = BadgeStore(MemoryStorage())
        val heard = mutableListOf<Int>()
        store.observe { count ->
            heard += count
            if (count == 1) store.apply(push(2, 2))
        }
        store.apply(push(1, 1))
        expectEqual(heard, mutableListOf(0, 1, 2))
    }

    tests.test("observers hear what several threads set once and in order, the newest last") {
        val store = BadgeStore(MemoryStorage())
        val heard = Collections.synchronizedList(mutableListOf<Int>())
        store.observe { heard += it }
        val threads = (1L..4L).map { first -> thread { for (number in first..400 step 4) store.apply(push(number, number)) } }
        threads.forEach { it.join() }
        eventually("the newest number is told") { heard.lastOrNull() == 400 }
        expectEqual(heard.toList(), heard.sorted().distinct())
    }

    tests.test("an answer that comes after a sign-out isn't the next user's") {
        val store = BadgeStore(MemoryStorage())
        store.signedIn("alice", "")
        store.update {
            store.signedOut()
            Badge(7, 7, 2_000)
        }
        expectEqual(store.count, 0)
        store.signedIn("bob", "")
        store.update { Badge(2, 2, 5) }
        expectEqual(store.count, 2)
    }

    tests.test("the same user at another server begins with 0") {
        val store = BadgeStore(MemoryStorage())
        store.signedIn("alice", "https://one.example")
        store.apply(Badge(7, 7, 2_000))
        expect(store.signedIn("alice", "https://two.example")) { "no change" }
        expectEqual(store.count, 0)
    }

    tests.test("a clearing without a network shows 0, and the next refresh repeats it as nothing came since") {
        val store = BadgeStore(MemoryStorage())
        val transport = ScriptedTransport { call, number ->
            if (number == 1) throw IOException("no network")
            if (call.method == "DELETE") badgeAnswer(0, 31) else badgeAnswer(3, 30)
        }
        store.apply(Badge(3, 3, 30))
        expectFailure(CampanileFailure.Kind.UNREACHABLE) { store.clear(scripted(transport)) }
        expectEqual(store.count, 0)
        store.refresh(scripted(transport))
        expectEqual(transport.summary, listOf("DELETE /badge", "GET /badge", "DELETE /badge"))
        expectEqual(store.count, 0)
        expectEqual(store.version, 31L)
    }

    tests.test("a number that the backend gives is shown again after the server refused to clear it, and no clearing is owed") {
        val store = BadgeStore(MemoryStorage())
        val transport = ScriptedTransport { call, _ -> if (call.method == "GET") badgeAnswer(7, 30) else problem(409, "badge_is_given") }
        store.apply(Badge(7, 7, 30))
        store.clear(scripted(transport))
        expectEqual(store.count, 7)
        store.refresh(scripted(transport))
        expectEqual(transport.summary, listOf("DELETE /badge", "GET /badge", "GET /badge"))
    }

    tests.test("a clearing without a network isn't repeated when something came that nobody has seen") {
        val store = BadgeStore(MemoryStorage())
        val transport = ScriptedTransport { _, number -> if (number == 1) throw IOException("no network") else badgeAnswer(4, 31) }
        store.apply(Badge(3, 3, 30))
        expectFailure(CampanileFailure.Kind.UNREACHABLE) { store.clear(scripted(transport)) }
        store.refresh(scripted(transport))
        expectEqual(transport.summary, listOf("DELETE /badge", "GET /badge"))
        expectEqual(store.count, 4)
    }

    tests.test("a tap marks read and asks for the number; one that leads to the inbox clears it") {
        val expected = mapOf("home" to "GET /badge", "notifications" to "DELETE /badge", "/notifications?a=1#b" to "DELETE /badge")
        for ((link, then) in expected) {
            val transport = ScriptedTransport { call, _ -> if (call.method == "PATCH") READ else badgeAnswer(0, 50) }
            PushHandler(scripted(transport), BadgeStore(MemoryStorage())).tapped(PushPayload(id = "n1", deepLink = link))
            expectEqual(transport.summary, listOf("PATCH /notifications/n1", then), link)
            expectEqual(transport.calls[0].body, """{"read":true}""")
        }
    }

    tests.test("a tap asks for the number also where marking failed, and says so afterwards") {
        val transport = ScriptedTransport { call, _ -> if (call.method == "PATCH") problem(404, "not_found") else badgeAnswer(2, 50) }
        val store = BadgeStore(MemoryStorage())
        expectFailure(CampanileFailure.Kind.NOT_FOUND) { PushHandler(scripted(transport), store).tapped(PushPayload(id = "gone")) }
        expectEqual(store.count, 2)
    }

    tests.test("an inbox that shows is cleared when the app comes to the foreground; while nobody is signed in nobody is asked") {
        val transport = ScriptedTransport { _, _ -> badgeAnswer(0, 50) }
        val store = BadgeStore(MemoryStorage())
        val handler = PushHandler(scripted(transport), store)
        handler.cameToForeground(isShowingInbox = true)
        handler.cameToForeground(isShowingInbox = false)
        expectEqual(transport.summary, listOf("DELETE /badge", "GET /badge"))
        store.signedOut()
        handler.cameToForeground(isShowingInbox = true)
        expectEqual(transport.calls.size, 2)
    }

    tests.test("a clearing that fails looks first whether something came, and then clears again") {
        val transport = ScriptedTransport { call, number ->
            if (number == 1) throw IOException("the network went")
            if (call.method == "DELETE") badgeAnswer(0, 31) else badgeAnswer(3, 30)
        }
        val store = BadgeStore(MemoryStorage())
        store.apply(Badge(3, 3, 30))
        PushHandler(scripted(transport), store).inboxAppeared()
        expectEqual(transport.summary, listOf("DELETE /badge", "GET /badge", "DELETE /badge"))
        expectEqual(store.count, 0)
    }

    tests.test("a push that comes while the inbox shows clears, and its number is never told") {
        val transport = ScriptedTransport { _, _ -> badgeAnswer(0, 50) }
        val store = BadgeStore(MemoryStorage())
        val heard = mutableListOf<Int>()
        store.observe { heard += it }
        PushHandler(scripted(transport), store).arrivedInInbox(push(4, 31))
        expectEqual(transport.summary, listOf("DELETE /badge"))
        expect(4 !in heard && store.version == 50L) { "$heard, ${store.version}" }
    }

    tests.test("a number that the backend gives comes with a push while the inbox shows, and is never 0 in between") {
        // The answers were made before the push.
        val transport = ScriptedTransport { call, _ -> if (call.method == "GET") badgeAnswer(7, 30) else problem(409, "badge_is_given") }
        val store = BadgeStore(MemoryStorage())
        val handler = PushHandler(scripted(transport), store)
        handler.inboxAppeared()
        val heard = mutableListOf<Int>()
        store.observe { heard += it }
        handler.arrivedInInbox(push(8, 31))
        expectEqual(heard.distinct(), listOf(7, 8))
        expectEqual(transport.summary, listOf("DELETE /badge", "GET /badge", "DELETE /badge", "GET /badge"))
    }

    tests.test("an intent's extras are a tapped push where they have its id, and no push otherwise") {
        val extras = mapOf("id" to "n1", "deepLink" to "home", "badgeVersion" to "7")
        expectEqual(PushPayload.tapped(extras::get), PushPayload("n1", "home", null, null, 7))
        expectEqual(PushPayload.tapped { null }, null)
    }

    tests.test("messages of pages: the number, who is signed in, and the answer to a sign-out") {
        expectEqual(PageMessages.count("""{"count":3}"""), 3L)
        expectEqual(PageMessages.count("""{"count":"3"}"""), null)
        expectEqual(PageMessages.signedIn("""{"userToken":"jwt","userID":"alice"}"""), UserToken("alice", "jwt"))
        expectEqual(PageMessages.signedIn("""{"userToken":null,"userID":"alice"}"""), null)
        expectEqual(PageMessages.signedOut(true, null), """{"deleted":true,"message":null}""")
    }
}

private val READ = HttpAnswer(
    200, """{"id":"n1","title":"T","body":"","created_at":"2026-11-22T00:00:00.000Z","read_at":"2026-11-22T00:00:01.000Z"}"""
)
