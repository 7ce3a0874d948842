package com.campanile

import java.io.IOException
import java.util.concurrent.CountDownLatch
import kotlin.concurrent.thread

/** A notification's id: the greater the number, the newer. */
private fun id(number: Int): String = "0198f0c2-%04d-7abc-8def-0123456789ab".format(number)

/** The notifications that a phone shows, by their names in Android. */
private class Shade(vararg names: String) : ShownNotifications {
    val names = mutableListOf(*names)
    val removals = mutableListOf<List<String>>()

    override fun ids(): List<String> = names.toList()

    override fun remove(ids: List<String>) {
        removals += ids
        names -= ids.toSet()
    }
}

private class Phone(vararg shown: String, val storage: MemoryStorage = MemoryStorage(), script: (HttpCall, Int) -> HttpAnswer) {
    val transport = ScriptedTransport(script = script)
    val shade = Shade(*shown)
    val badge = BadgeStore(storage)
    val api = scripted(transport)
    val handler = PushHandler(api, badge, shown = shade)

    fun arrived(vararg data: Pair<String, String>): PushPayload = read(*data).also { handler.arrived(it) }

    fun alert(id: String): PushPayload = arrived("id" to id, "alert" to """{"title":"T"}""")

    /** Somebody signs in, and the server knows this device as theirs. */
    fun signIn(user: String) {
        badge.signedIn(user, "")
        badge.registered(badge.session)
        badge.apply(Badge(0, 0, 1))
    }
}

private fun read(vararg data: Pair<String, String>) = PushPayload.read(mapOf(*data), false)

private fun silent(vararg shown: String) = Phone(*shown) { call, _ -> throw IOException("nobody is to be asked: ${call.url}") }

private fun reconciled(vararg handled: String, count: Int = 3, version: Long = 40): HttpAnswer {
    val ids = handled.joinToString(",") { "\"$it\"" }
    return HttpAnswer(200, """{"handled":[$ids],"badge":{"count":$count,"unread_count":5,"version":$version,"updated_at":null}}""")
}

private fun marked(call: HttpCall): HttpAnswer {
    val id = call.url.substringAfterLast('/')
    val times = """"created_at":"2026-11-22T00:00:00.000Z","read_at":"2026-11-22T00:00:01.000Z""""
    return HttpAnswer(200, """{"id":"$id","title":"T","body":"",$times}""")
}

internal fun dismissalTests(tests: Tests) {
    messageTests(tests)
    foregroundTests(tests)
    lateAlertTests(tests)
    swipeTests(tests)
}

private fun messageTests(tests: Tests) {
    tests.test("a message says what to remove whatever its type, and beside an alert; what isn't an id there is passed over") {
        val keys = arrayOf("dismissed" to "${id(1)},order-42,,${id(2).uppercase()},${id(3)}", "dismissedThrough" to id(4))
        for (others in listOf(listOf("type" to "dismiss"), listOf("type" to "badge", "count" to "3"), listOf("alert" to "{}", "id" to id(9)))) {
            val push = read(*keys, *others.toTypedArray())
            expectEqual(Pair(push.dismissed, push.dismissedThrough), Pair(listOf(id(1), id(3)), id(4)), "$others")
        }
        val withPart = PushPayload.read(mapOf(*keys), true, 3)
        expectEqual(Pair(withPart.dismissed, withPart.dismissedThrough), Pair(listOf(id(1), id(3)), id(4)))
        // As texts these are greater than every id.
        for (through in listOf("zzz", "", id(1).replace("-7", "-4"))) expectEqual(read("dismissedThrough" to through).dismissedThrough, null)
        expectEqual(read("type" to "dismiss"), PushPayload(isAlert = false))
    }

    tests.test("named notifications leave the phone, and no others") {
        for (type in listOf("dismiss", "badge")) {
            val phone = silent(id(1), id(2), id(3))
            phone.arrived("type" to type, "count" to "3", "badgeVersion" to "9", "dismissed" to "${id(1)},${id(3)},${id(7)}")
            expectEqual(phone.shade.names, mutableListOf(id(2)), type)
        }
    }

    tests.test("with dismissedThrough this one and everything older leaves, and nothing that isn't Campanile's") {
        val own = listOf("order-42", "", "0", "0098f0c2-0001-4abc-8def-0123456789ab")
        val phone = silent(id(4), id(1), id(3), id(2), *own.toTypedArray())
        phone.arrived("type" to "dismiss", "dismissedThrough" to id(3))
        expectEqual(phone.shade.names, (listOf(id(4)) + own).toMutableList())
        phone.arrived("type" to "dismiss", "dismissed" to id(9))
        expectEqual(phone.shade.removals.size, 1, "nothing to remove")
    }

    tests.test("a message that dismisses sets no number: not 0 where it has none, and its own where it has one") {
        val phone = silent(id(1), id(2))
        phone.badge.apply(Badge(3, 3, 8))
        phone.arrived("type" to "dismiss", "dismissed" to "${id(1)},${id(2)}", "badgeVersion" to "9", "count" to "0")
        expectEqual(Pair(phone.badge.count, phone.shade.names.size), Pair(3, 0))
        phone.arrived("type" to "badge", "dismissed" to id(1), "badgeVersion" to "10", "count" to "2")
        expectEqual(phone.badge.count, 2)
    }

    tests.test("a message that comes while the inbox shows removes too") {
        val phone = Phone(id(1), id(2)) { _, _ -> badgeAnswer(0, 50) }
        phone.handler.arrivedInInbox(read("alert" to "{}", "id" to id(3), "dismissed" to id(1)))
        expectEqual(phone.shade.names, mutableListOf(id(2)))
    }

    tests.test("before the server knows the device as the user's, a message dismisses nothing: it may be the former user's") {
        val phone = silent(id(1))
        phone.badge.signedIn("bob", "")
        phone.arrived("type" to "dismiss", "dismissedThrough" to id(5))
        expectEqual(phone.shade.names, mutableListOf(id(1)))
        phone.signIn("bob")
        expect(!phone.handler.isDismissed(phone.alert(id(2)))) { "the former user's counts" }
        phone.arrived("type" to "dismiss", "dismissedThrough" to id(5))
        expectEqual(phone.shade.names, mutableListOf())
    }
}

private fun foregroundTests(tests: Tests) {
    tests.test("a reconciliation asks about the ids from this device, and its answer has the handled ones and the number") {
        val phone = Phone { _, _ -> reconciled(id(2), count = 4, version = 41) }
        phone.api.deviceToken = "fcm-1"
        expectEqual(phone.api.reconcile(listOf(id(1), id(2), id(1))), Reconciled(listOf(id(2)), Badge(4, 5, 41)))
        val call = phone.transport.calls.single()
        expectEqual(phone.transport.summary, listOf("POST /notifications/reconcile"))
        expectEqual(call.body, """{"ids":["${id(1)}","${id(2)}"]}""")
        expectEqual(call.headers["X-Device-Token"], "fcm-1")
        expectFailure(CampanileFailure.Kind.UNREADABLE) { scripted(ScriptedTransport { _, _ -> badgeAnswer(1, 1) }).reconcile(listOf(id(1))) }
    }

    tests.test("more than 100 ids take several calls, and the last one's number counts") {
        val ids = (1..250).map(::id)
        val phone = Phone { _, number -> reconciled(id(number), count = number, version = 40L + number) }
        expectEqual(phone.api.reconcile(ids), Reconciled(listOf(id(1), id(2), id(3)), Badge(3, 5, 43)))
        val asked = phone.transport.calls.map { call -> json(call.body ?: "")["ids"].list?.map { it.text } ?: emptyList() }
        expectEqual(asked.map { it.size }, listOf(100, 100, 50))
        expectEqual(asked.flatten(), ids)
    }

    tests.test("in the foreground what is handled leaves the phone, and the number is the same answer's") {
        val phone = Phone(id(1), "order-42", id(2)) { _, _ -> reconciled(id(1), "order-42") }
        phone.badge.apply(Badge(9, 9, 30))
        phone.handler.cameToForeground(isShowingInbox = false)
        expectEqual(phone.shade.names, mutableListOf("order-42", id(2)))
        expectEqual(phone.badge.count, 3)
        expectEqual(phone.transport.summary, listOf("POST /notifications/reconcile"))
        expectEqual(phone.transport.calls[0].body, """{"ids":["${id(1)}","${id(2)}"]}""", "a tag that is no id")
        expect(phone.handler.isDismissed(phone.alert(id(1)))) { "handled, and drawn once more" }
    }

    tests.test("an older answer removes, and its number doesn't count") {
        val phone = Phone(id(1)) { _, _ -> reconciled(id(1), count = 9, version = 20) }
        phone.badge.apply(Badge(2, 2, 30))
        phone.handler.cameToForeground(isShowingInbox = false)
        expectEqual(Triple(phone.badge.count, phone.badge.version, phone.shade.names.size), Triple(2, 30L, 0))
    }

    tests.test("a phone that shows nothing, and an app that doesn't say, ask for the number alone") {
        val phone = Phone("order-42") { _, _ -> badgeAnswer(4, 50) }
        phone.handler.cameToForeground(isShowingInbox = false)
        PushHandler(phone.api, phone.badge).cameToForeground(isShowingInbox = false)
        expectEqual(phone.transport.summary, listOf("GET /badge", "GET /badge"))
        expectEqual(phone.badge.count, 4)
    }

    tests.test("an inbox that shows is cleared first, and what was read elsewhere leaves all the same") {
        val phone = Phone(id(1), id(2)) { call, _ ->
            if (call.method == "DELETE") badgeAnswer(0, 50) else reconciled(id(2), count = 0, version = 50)
        }
        phone.handler.cameToForeground(isShowingInbox = true)
        expectEqual(phone.transport.summary, listOf("DELETE /badge", "POST /notifications/reconcile"))
        expectEqual(Pair(phone.badge.count, phone.shade.names), Pair(0, mutableListOf(id(1))))
    }

    tests.test("a clearing that the server doesn't know of is repeated after a reconciliation too") {
        val phone = Phone(id(1)) { call, number ->
            if (number == 1) throw IOException("no network")
            if (call.method == "DELETE") badgeAnswer(0, 31) else reconciled(count = 3, version = 30)
        }
        phone.badge.apply(Badge(3, 3, 30))
        expectFailure(CampanileFailure.Kind.UNREACHABLE) { phone.badge.clear(phone.api) }
        phone.handler.cameToForeground(isShowingInbox = false)
        expectEqual(phone.transport.summary, listOf("DELETE /badge", "POST /notifications/reconcile", "DELETE /badge"))
        expectEqual(phone.badge.count, 0)
    }

    tests.test("a server that doesn't know the call still tells the number, and the failure is thrown afterwards") {
        val phone = Phone(id(1)) { call, _ -> if (call.method == "POST") problem(404, "not_found") else badgeAnswer(4, 50) }
        expectFailure(CampanileFailure.Kind.NOT_FOUND) { phone.handler.cameToForeground(isShowingInbox = false) }
        expectEqual(Pair(phone.badge.count, phone.shade.names), Pair(4, mutableListOf(id(1))))
    }

    tests.test("an answer that comes after a change of user removes, and is neither the next user's number nor their dismissals") {
        lateinit var phone: Phone
        phone = Phone(id(1)) { _, _ ->
            phone.signIn("bob")
            reconciled(id(1), count = 9, version = 90)
        }
        phone.signIn("alice")
        phone.handler.cameToForeground(isShowingInbox = false)
        expectEqual(Pair(phone.badge.count, phone.shade.names.size), Pair(0, 0))
        expect(!phone.handler.isDismissed(read("id" to id(1)))) { "bob's" }
    }

    tests.test("while nobody is signed in nobody is asked") {
        val phone = silent(id(1))
        phone.badge.signedOut()
        phone.handler.cameToForeground(isShowingInbox = false)
        expectEqual(phone.shade.names, mutableListOf(id(1)))
    }
}

private fun lateAlertTests(tests: Tests) {
    tests.test("an alert that comes after its entry was read is known as dismissed, at the next launch too; a newer one isn't") {
        val phone = silent()
        expect(!phone.handler.isDismissed(phone.alert(id(5)))) { "nothing was dismissed" }
        phone.arrived("type" to "dismiss", "dismissed" to id(5))
        phone.arrived("type" to "dismiss", "dismissedThrough" to id(3))
        val next = Phone(storage = phone.storage) { _, _ -> throw IOException("no network") }
        for (one in listOf(phone, next)) {
            val dismissed = (1..6).filter { one.handler.isDismissed(one.alert(id(it))) }
            expectEqual(dismissed, listOf(1, 2, 3, 5))
            for (other in listOf(PushPayload(), PushPayload(id = "0"))) expect(!one.handler.isDismissed(other)) { "no id: $other" }
        }
    }

    tests.test("an older dismissedThrough takes nothing back, and one of the alert's own counts") {
        val phone = silent()
        phone.arrived("type" to "dismiss", "dismissedThrough" to id(5))
        phone.arrived("type" to "dismiss", "dismissedThrough" to id(2))
        expect(phone.handler.isDismissed(phone.alert(id(4)))) { "forgotten" }
        val push = phone.arrived("alert" to "{}", "id" to id(7), "dismissedThrough" to id(7))
        expect(phone.handler.isDismissed(push)) { "read, by its own words" }
    }

    tests.test("an alert that was drawn though its entry was read leaves with the next message, and in the foreground without a network") {
        val phone = silent()
        phone.arrived("type" to "dismiss", "dismissed" to id(1))
        phone.shade.names += id(1)
        phone.arrived("type" to "badge", "count" to "1", "badgeVersion" to "9")
        expectEqual(phone.shade.names, mutableListOf())
        phone.shade.names += id(1)
        expectFailure(CampanileFailure.Kind.UNREACHABLE) { phone.handler.cameToForeground(isShowingInbox = false) }
        expectEqual(phone.shade.names, mutableListOf())
    }

    tests.test("the ids that were dismissed last are kept, and not all there ever were") {
        val phone = silent()
        for (number in 1..DismissalRecord.KEPT + 1) phone.arrived("type" to "dismiss", "dismissed" to "${id(number)},${id(2)}")
        val kept = DismissalRecord.read(phone.storage.read("dismissals"), 0).ids
        expectEqual(kept.size, DismissalRecord.KEPT)
        expectEqual(kept.toSet(), (2..DismissalRecord.KEPT + 1).map(::id).toSet(), "each once, and the oldest is forgotten")
    }

    tests.test("another user's alert is drawn even if it is older than what the former user has read") {
        val phone = silent()
        phone.signIn("alice")
        phone.arrived("type" to "dismiss", "dismissedThrough" to id(5))
        expect(phone.handler.isDismissed(phone.alert(id(4)))) { "alice has read it" }
        phone.signIn("bob")
        expect(!phone.handler.isDismissed(phone.alert(id(4)))) { "bob hasn't" }
    }

    tests.test("a stored text that isn't a record counts as none") {
        for (text in listOf("", "[]", """{"session":7,"ids":["${id(1)}"]}""", """{"session":0,"ids":[7],"through":1}""")) {
            expectEqual(DismissalRecord.read(text, 0), DismissalRecord(), text)
        }
    }

    tests.test("several threads lose none of what is dismissed") {
        val phone = silent()
        val threads = (1..4).map { first ->
            val handler = PushHandler(phone.api, phone.badge, shown = phone.shade)
            thread { for (number in first..80 step 4) handler.arrived(read("type" to "dismiss", "dismissed" to id(number))) }
        }
        threads.forEach { it.join() }
        expect((1..80).all { phone.handler.isDismissed(read("id" to id(it))) }) { "one is lost" }
    }
}

private fun swipeTests(tests: Tests) {
    fun swipe(number: Int, vararg others: Pair<String, String>): PushPayload =
        PushPayload.tapped(mapOf("id" to id(number), *others)::get) ?: throw AssertionError("no push")

    fun answer(call: HttpCall) = if (call.method == "PATCH") marked(call) else badgeAnswer(2, 50)

    tests.test("a swipe isn't reading: nothing is sent, and the number stays") {
        val phone = silent()
        phone.badge.apply(Badge(3, 3, 8))
        for (push in listOf(swipe(1), swipe(1, "dismiss" to "nothing"), swipe(1, "dismiss" to ""))) phone.handler.swiped(push)
        phone.handler.swiped(PushPayload(isReadBySwipe = true))
        expectEqual(Pair(phone.transport.calls.size, phone.badge.count), Pair(0, 3))
    }

    tests.test("a swipe of an alert whose category says so reads it, and the number is the server's") {
        for (push in listOf(swipe(1, "dismiss" to "read"), read("id" to id(1), "alert" to "{}", "dismiss" to "read"))) {
            val phone = Phone { call, _ -> answer(call) }
            phone.badge.apply(Badge(3, 3, 8))
            phone.handler.swiped(push)
            expectEqual(phone.transport.summary, listOf("PATCH /notifications/${id(1)}", "GET /badge"))
            expectEqual(phone.transport.calls[0].body, """{"read":true}""")
            expectEqual(phone.badge.count, 2)
            expect(phone.handler.isDismissed(read("id" to id(1)))) { "read, and drawn when it comes again" }
        }
    }

    tests.test("a swipe without a network, or without a user token, is sent in the foreground, once, and before the number is asked for") {
        val noToken = { _: String? -> null }
        for (kind in listOf(CampanileFailure.Kind.UNREACHABLE, CampanileFailure.Kind.SIGNED_OUT)) {
            val storage = MemoryStorage()
            val badge = BadgeStore(storage)
            badge.apply(Badge(3, 3, 8))
            val dead = ScriptedTransport()
            val api = if (kind == CampanileFailure.Kind.SIGNED_OUT) scripted(dead, noToken) else scripted(dead)
            expectFailure(kind) { PushHandler(api, badge).swiped(swipe(1, "dismiss" to "read")) }
            expectEqual(badge.count, 3)
            val next = Phone(storage = storage) { call, _ -> answer(call) }
            next.handler.cameToForeground(isShowingInbox = false)
            next.handler.cameToForeground(isShowingInbox = false)
            expectEqual(next.transport.summary, listOf("PATCH /notifications/${id(1)}", "GET /badge", "GET /badge"))
            expectEqual(next.badge.count, 2)
        }
    }

    tests.test("a swipe whose notification is gone is done, and the next one is sent") {
        var isOffline = true
        val phone = Phone { call, _ ->
            if (isOffline) throw IOException("no network")
            if (call.url.endsWith(id(1))) problem(404, "not_found") else answer(call)
        }
        for (number in 1..2) expectFailure(CampanileFailure.Kind.UNREACHABLE) { phone.handler.swiped(swipe(number, "dismiss" to "read")) }
        isOffline = false
        val before = phone.transport.calls.size
        repeat(2) { phone.handler.cameToForeground(isShowingInbox = false) }
        val expected = listOf("PATCH /notifications/${id(1)}", "PATCH /notifications/${id(2)}", "GET /badge", "GET /badge")
        expectEqual(phone.transport.summary.drop(before), expected)
    }

    tests.test("a swipe that waits is never sent as another user's, and after a sign-out none is taken") {
        val phone = Phone { call, number -> if (number == 1) throw IOException("no network") else answer(call) }
        phone.signIn("alice")
        expectFailure(CampanileFailure.Kind.UNREACHABLE) { phone.handler.swiped(swipe(1, "dismiss" to "read")) }
        phone.badge.signedOut()
        phone.handler.swiped(swipe(2, "dismiss" to "read"))
        phone.signIn("alice")
        phone.handler.cameToForeground(isShowingInbox = false)
        expectEqual(phone.transport.summary, listOf("PATCH /notifications/${id(1)}", "GET /badge"))
    }

    tests.test("many swipes at once are each sent once, and none waits for another's answer") {
        val gate = CountDownLatch(1)
        val phone = Phone { call, _ ->
            if (call.method == "PATCH") gate.await()
            answer(call)
        }
        val first = thread { phone.handler.swiped(swipe(1, "dismiss" to "read")) }
        eventually("the first is on its way") { phone.transport.calls.isNotEmpty() }
        val others = (2..9).map { thread { phone.handler.swiped(swipe(it, "dismiss" to "read")) } }
        eventually("the others don't wait") { others.none { it.isAlive } }
        gate.countDown()
        first.join()
        val sent = phone.transport.summary
        expectEqual(sent.sorted(), (listOf("GET /badge") + (1..9).map { "PATCH /notifications/${id(it)}" }).sorted())
        expectEqual(sent.last(), "GET /badge")
    }
}
