package com.campanile

import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray

/** The cases of clients/vectors, which Swift's tests and the web pieces' read too. */
internal fun vectorTests(tests: Tests, read: (String) -> JsonElement) {
    tests.test("deep links: chains, values, refusals, addresses and versions are those of clients/vectors") {
        deepLinks(read("deep_links"))
    }
    tests.test("payloads: what a push says is that of clients/vectors") { payloads(read("payloads")) }
    tests.test("numbers: which one counts is that of clients/vectors") { numbers(read("numbers")) }
    tests.test("stream events: texts and events say what they say in clients/vectors") { streamEvents(read("stream_events")) }
}

private val JsonElement.says: String get() = this["says"].text ?: toString()

private fun JsonElement.string(key: String): String = this[key].text ?: throw AssertionError("$says: no text under $key")

// Deep links

private fun deepLinks(vectors: JsonElement) {
    val trees = (vectors["trees"] as JsonObject).mapValues { (_, json) -> DeepLinkTree.read(json) ?: throw AssertionError("no tree") }
    fun router(tree: String = "shop") = DeepLinkRouter(trees.getValue(tree)) { it.address }
    for (vector in vectors.cases("links")) {
        val link = vector.string("link")
        val tree = trees.getValue(vector.string("tree"))
        val chain = router(vector.string("tree")).chain(link)
        expectEqual(chain.screens, vector.cases("chain").map { it.text }, vector.says)
        expectProblem(chain.problem, vector)
        expectValues(tree, link, chain.screens.size, vector)
    }
    for (vector in vectors.cases("refused")) {
        val because = try {
            router().chain(vector.string("link"))
            "accepted"
        } catch (error: DeepLinkError) {
            when (error.reason) {
                is DeepLinkError.Reason.Malformed -> "malformed"
                is DeepLinkError.Reason.UnknownSegment -> "unknown_segment"
                else -> "$error"
            }
        }
        expectEqual(because, vector.string("because"), vector.string("link"))
    }
    for (vector in vectors.cases("addresses")) {
        val screens = try {
            router().chain(vector.string("address"), setOf("www.example.com"), setOf("shop")).screens
        } catch (error: DeepLinkError) {
            expectEqual<Any>(error.reason, DeepLinkError.Reason.Foreign, vector.string("address"))
            null
        }
        expectEqual(screens, vector["chain"].list?.map { it.text }, vector.string("address"))
    }
    for (vector in vectors.cases("versions")) {
        val match = trees.getValue("shop").follow(DeepLink.parse(vector.string("link")))
        expectEqual(match.fault, null, vector.says)
        expectEqual(match.isReachedOnAndroid(vector["android"].text), vector["is_reached"].isTrue, vector.says)
    }
}

private fun expectProblem(problem: DeepLinkError?, vector: JsonElement) {
    val expected = vector["problem"]
    when (val reason = problem?.reason) {
        null -> expectEqual(expected, null, vector.says)
        is DeepLinkError.Reason.UnknownSegment -> {
            expectEqual(reason.segment, expected["unknown_segment"].text, vector.says)
            expectEqual(reason.below, expected["below"].text, vector.says)
        }
        is DeepLinkError.Reason.Query -> {
            val key = expected["query"].text ?: throw AssertionError("${vector.says}: $reason")
            expect(reason.faults.any { key in it }) { "${vector.says}: $reason" }
        }
        else -> throw AssertionError("${vector.says}: $reason")
    }
}

/** The values that a screen of the app's own gets at the chain's end. */
private fun expectValues(tree: DeepLinkTree, link: String, length: Int, vector: JsonElement) {
    val path = tree.follow(DeepLink.parse(link)).steps.take(length).joinToString("/") { it.node.segment }
    lateinit var values: DeepLinkValues
    val screens = mapOf("/$path" to { given: DeepLinkValues -> given.also { values = it }.page.address })
    DeepLinkRouter(tree, screens) { it.address }.chain(link)
    (vector["parameters"] as? JsonObject)?.forEach { (name, value) -> expectEqual(values.parameter(name), value.text, vector.says) }
    val query = vector["query"] as? JsonObject ?: JsonObject(emptyMap())
    for ((key, value) in query) {
        val given: Any = when {
            value.text != null -> values.string(key)
            value.long != null -> values.integer(key)
            else -> values.boolean(key)
        }
        expectEqual(given.toString(), (value as JsonPrimitive).content, vector.says)
    }
    expectEqual(tree.follow(DeepLink.parse(link)).query.keys, query.keys, vector.says)
}

// Payloads

private fun payloads(vectors: JsonElement) {
    for (vector in vectors.cases("firebase")) {
        val data = (vector["data"] as JsonObject).mapValues { (_, value) -> value.text ?: throw AssertionError(vector.says) }
        val payload = PushPayload.read(data, vector["has_notification"].isTrue, vector["notification_count"].long?.toInt())
        val written = buildJsonObject {
            put("id", payload.id)
            put("deep_link", payload.deepLink)
            put("category", payload.category)
            put("badge", payload.badge)
            put("badge_version", payload.badgeVersion)
            put("is_alert", payload.isAlert)
            putJsonArray("dismissed") { payload.dismissed.forEach { add(JsonPrimitive(it)) } }
            put("dismissed_through", payload.dismissedThrough)
            put("is_read_by_swipe", payload.isReadBySwipe)
        }
        expectEqual<JsonElement?>(written, vector["payload"], vector.says)
    }
}

// Numbers

private fun numbers(vectors: JsonElement) {
    for (vector in vectors.cases("sequences")) {
        var record = BadgeRecord()
        vector.cases("steps").forEachIndexed { index, step ->
            val next = taken(step, record)
            record = BadgeRecord.read((next ?: record).text)
            expectEqual(next != null, step["takes"].isTrue, "${vector.says}, step ${index + 1}")
            expectEqual(record.count.toLong(), step["count"].long, "${vector.says}, step ${index + 1}")
        }
    }
}

private fun taken(step: JsonElement, record: BadgeRecord): BadgeRecord? {
    val push = step["push"]
    val answer = step["answer"]
    return when {
        push != null -> {
            val isAlert = push["is_alert"]?.isTrue ?: true
            record.heard(PushPayload(badge = push["badge"].long, badgeVersion = push["version"].long, isAlert = isAlert))
        }
        answer != null -> {
            val count = answer["count"].long ?: throw AssertionError("$step")
            record.answered(Badge(count, count, answer["version"].long ?: throw AssertionError("$step")), record.session)
        }
        step["sign_in"] != null -> record.changed(BadgeRecord.Owner.USER, step["sign_in"].text, "")
        step["sign_out"] != null -> record.changed(BadgeRecord.Owner.NOBODY)
        step["registered"] != null -> record.registered(record.session)
        step["clear"] != null -> record.cleared()
        else -> throw AssertionError("$step")
    }
}

// Streams

private fun streamEvents(vectors: JsonElement) {
    for (vector in vectors.cases("texts")) {
        val text = vector.string("text").toByteArray()
        for (pieces in listOf(listOf(text), text.map { byteArrayOf(it) })) {
            val parser = EventStreamParser()
            val told = pieces.flatMap { parser.feed(it) }
            val expected = (vector["events"].list ?: throw AssertionError(vector.says))
                .map { ServerSentEvent(it.string("id"), it.string("name"), it.string("data")) }
            expectEqual(told, expected, vector.says)
            expectEqual(parser.lastEventID, vector.string("last_event_id"), vector.says)
            expectEqual(parser.retry, vector["retry"].long, vector.says)
        }
    }
    for (vector in vectors.cases("inbox")) {
        val event = InboxEvent.read(ServerSentEvent(vector.string("id"), vector.string("name"), vector.string("data")))
        expectEqual(written(event?.change), vector["change"] ?: throw AssertionError(vector.says), vector.says)
        expect(event == null || event.id == vector["id"].text) { vector.says }
    }
}

private fun written(change: InboxEvent.Change?): JsonElement {
    fun notification(kind: String, one: InboxNotification) = buildJsonObject {
        put("kind", kind)
        put("id", one.id)
        put("title", one.title)
        put("deep_link", one.deepLink)
        put("is_read", one.readAt != null)
    }
    return when (change) {
        null -> JsonNull
        is InboxEvent.Change.Created -> notification("created", change.notification)
        is InboxEvent.Change.Updated -> notification("updated", change.notification)
        is InboxEvent.Change.Deleted -> buildJsonObject {
            put("kind", "deleted")
            put("id", change.id)
        }
        is InboxEvent.Change.ReadAll -> buildJsonObject {
            put("kind", "read_all")
            put("up_to", change.upTo)
        }
        is InboxEvent.Change.Reset -> buildJsonObject {
            put("kind", "reset")
            put("reason", change.reason)
        }
        is InboxEvent.Change.Number -> buildJsonObject {
            put("kind", "badge")
            put("count", change.badge.count)
            put("unread_count", change.badge.unreadCount)
            put("version", change.badge.version)
        }
    }
}
