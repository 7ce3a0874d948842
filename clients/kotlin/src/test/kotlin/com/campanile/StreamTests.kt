package com.campanile

import java.io.ByteArrayInputStream
import java.io.IOException
import java.io.PipedInputStream
import java.io.PipedOutputStream
import java.util.Collections
import kotlin.concurrent.thread

internal fun streamTests(tests: Tests) {
    fun badge(count: Int) = "id: $count\nevent: badge\ndata: {\"count\":$count,\"unread_count\":$count,\"version\":$count}\n\n"
    fun stream(text: String, status: Int = 200) = HttpStream(status, ByteArrayInputStream(text.toByteArray())) {}

    tests.test("a stream goes on after an end, a refusal and a cut, where it was; half an event isn't told") {
        val transport = ScriptedTransport({ _, number ->
            when (number) {
                1 -> stream("retry: 1\n\n" + badge(1) + "id: 99\nevent: badge\nda")
                2 -> stream("", 503)
                3 -> throw IOException("cut")
                4 -> stream("404 page not found", 404)
                5 -> stream(badge(2) + badge(3))
                else -> stream("""{"code":"not_found"}""", 404)
            }
        })
        val counts = mutableListOf<Long>()
        expectFailure(CampanileFailure.Kind.NOT_FOUND) {
            scripted(transport).events().run { counts += (it.change as InboxEvent.Change.Number).badge.count }
        }
        expectEqual(counts, mutableListOf(1L, 2L, 3L))
        expectEqual(transport.calls.map { it.headers["Last-Event-ID"] }, listOf(null, "1", "1", "1", "1", "3"))
    }

    tests.test("a refused token is replaced, and a stream never goes on as another user") {
        val transport = ScriptedTransport({ call, _ ->
            if (call.headers["Authorization"] == "Bearer old") stream("", 401) else stream(badge(1))
        })
        var user = "alice"
        val api = scripted(transport) { UserToken(user, if (it == null && user == "alice") "old" else "new") }
        val heard = mutableListOf<Long>()
        expectFailure(CampanileFailure.Kind.SIGNED_OUT) {
            api.events().run {
                heard += (it.change as InboxEvent.Change.Number).badge.count
                user = "bob"
            }
        }
        expectEqual(heard, mutableListOf(1L))
    }

    tests.test("closing ends a stream that waits for events, and one that waits to connect again") {
        val pipe = PipedOutputStream()
        val input = PipedInputStream(pipe)
        val transports = listOf(
            ScriptedTransport({ _, _ -> HttpStream(200, input) { pipe.close() } }),
            ScriptedTransport({ _, number -> if (number == 1) stream("retry: 86400000\n\n") else throw IOException("cut") })
        )
        for (transport in transports) {
            val events = scripted(transport).events()
            val running = thread { events.run {} }
            eventually("it is connected") { transport.calls.isNotEmpty() && running.state != Thread.State.RUNNABLE }
            events.close()
            running.join(60_000)
            expect(!running.isAlive) { "it goes on" }
        }
    }

    tests.test("a stream that is closed while it connects ends its connection once") {
        lateinit var events: EventStream
        var ends = 0
        events = scripted(ScriptedTransport({ _, _ ->
            events.close()
            HttpStream(200, ByteArrayInputStream(ByteArray(0))) { ends += 1 }
        })).events()
        events.run {}
        expectEqual(ends, 1)
    }

    tests.test("a number follows a stream until the user changes") {
        val store = BadgeStore(MemoryStorage())
        val told = Collections.synchronizedList(mutableListOf<Int>())
        store.signedIn("alice", "")
        store.observe { count ->
            told += count
            if (count == 2) store.signedIn("bob", "")
        }
        store.follow(scripted(ScriptedTransport({ _, _ -> stream(badge(1) + badge(2) + badge(3)) })).events())
        expectEqual(told.toList(), listOf(0, 1, 2, 0))
    }
}
