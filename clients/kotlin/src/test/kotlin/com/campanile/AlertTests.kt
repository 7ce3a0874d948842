package com.campanile

internal fun alertTests(tests: Tests) {
    /** A message of data alone, as an app gets it that draws its alerts itself. */
    fun read(alert: String, vararg others: Pair<String, String>) = PushPayload.read(mapOf("alert" to alert, *others), false)

    tests.test("an alert that the app draws says everything, and its number is the push's") {
        val text = """{"title":"T","subtitle":"S","body":"B","image_url":"https://example.com/a.png","buttons":"reply","channel_id":"NOTICE",
            "color":"#0a84FF","icon":"ic_parcel","visibility":"secret","sound":"default","thread_id":"order-42","collapse_key":"order",
            "loc":{"title_key":"shipped","title_args":["42","today"],"body_key":"parcels"},"count":3}"""
        val push = read(text, "id" to "n1", "deepLink" to "home", "category" to "NOTICE", "badgeVersion" to "9", "order" to "42")
        val alert = PushAlert(
            "T", "S", "B", "https://example.com/a.png", "reply", "NOTICE", 0xFF0A84FF.toInt(), "ic_parcel", PushAlert.Visibility.SECRET,
            "default", "order-42", "order", PushAlert.LocalizedText("shipped", listOf("42", "today")), PushAlert.LocalizedText("parcels")
        )
        expectEqual(push, PushPayload("n1", "home", "NOTICE", 3, 9, true, alert))
    }

    tests.test("what an alert hasn't got, doesn't know or can't read is missing, and the rest is there") {
        expectEqual(read("{}").alert, PushAlert())
        expectEqual(read("""{"title":"T","vibration":[1,2],"count":null}"""), PushPayload(alert = PushAlert("T")))
        val wrong = """{"title":7,"body":"B","subtitle":null,"image_url":[],"color":"red","visibility":"shown","count":"3","loc":"x"}"""
        expectEqual(read(wrong), PushPayload(alert = PushAlert(body = "B")))
        for (color in listOf("#fff", "0a84ff", "#0a84ffff", "#-a84ff", "#0a84fg")) {
            expectEqual(read("""{"color":"$color"}""").alert, PushAlert(), color)
        }
        for (visibility in PushAlert.Visibility.entries) {
            expectEqual(read("""{"visibility":"${visibility.name.lowercase()}"}""").alert?.visibility, visibility)
        }
    }

    tests.test("a text of the app's with an argument that can't be read counts as missing, so that no other stands in its place") {
        for (arguments in listOf("[1]", """["a",null]""", """"a"""", "{}")) {
            val alert = read("""{"title":"T","loc":{"title_key":"k","title_args":$arguments,"body_key":"b","body_args":[]}}""").alert
            expectEqual(alert, PushAlert("T", localizedBody = PushAlert.LocalizedText("b")), arguments)
        }
        expectEqual(read("""{"loc":{"title_args":["a"]}}""").alert, PushAlert())
    }

    tests.test("a message with an alert is one whatever its type, and the producer's count says nothing of the number") {
        val expected = PushPayload(badgeVersion = 9, alert = PushAlert("T"))
        expectEqual(read("""{"title":"T"}""", "type" to "badge", "count" to "7", "badgeVersion" to "9"), expected)
        expectEqual(read("""{"title":"T"}""", "type" to "dismiss", "badgeVersion" to "9"), expected)
    }

    tests.test("an alert that is no object's text is none, and leaves the number as it is") {
        for (text in listOf("", "{", "Sale!", "null", "[]", "7", "\"T\"", """{"title":"T"""", "[".repeat(100_000))) {
            val push = read(text, "id" to "n1", "type" to "badge", "count" to "7", "badgeVersion" to "9")
            expectEqual(push, PushPayload("n1", badgeVersion = 9, isAlert = false), text)
            val store = BadgeStore(MemoryStorage())
            store.apply(Badge(3, 3, 5))
            expect(!store.apply(push)) { text }
            expectEqual(Pair(store.count, store.version), Pair(3, 5L), text)
        }
    }

    tests.test("beside a notification part an alert of the data's is the producer's own") {
        val push = PushPayload.read(mapOf("alert" to """{"title":"T","count":7}""", "badgeVersion" to "9"), true, 2)
        expectEqual(push, PushPayload(badge = 2, badgeVersion = 9))
    }

    tests.test("an alert brings its number, one without a count brings 0, and an older one is still an alert and changes nothing") {
        val store = BadgeStore(MemoryStorage())
        val handler = PushHandler(scripted(ScriptedTransport()), store)
        expect(handler.arrived(read("""{"count":4}""", "badgeVersion" to "20"))) { "the number isn't taken" }
        expectEqual(store.count, 4)
        for (older in listOf("""{"title":"T","count":9}""", """{"title":"T","count":1}""", """{"title":"T"}""")) {
            val push = read(older, "badgeVersion" to "19")
            expect(push.isAlert && push.alert?.title == "T") { "$push" }
            expect(!handler.arrived(push)) { "an older alert's number counted" }
            expectEqual(Pair(store.count, store.version), Pair(4, 20L), older)
        }
        expect(!handler.arrived(read("""{"count":9}"""))) { "a number without a version counted" }
        expect(handler.arrived(read("{}", "badgeVersion" to "21"))) { "an alert without a count isn't taken" }
        expectEqual(Pair(store.count, store.version), Pair(0, 21L))
    }

    tests.test("a notification of the list has its producer's name for it and the time of its edit, and null without") {
        val times = """"created_at":"2026-11-22T00:00:00.000Z","read_at":null"""
        val edited = """{"id":"n1","title":"T","body":"B","external_id":"order-42","edited_at":"2026-11-22T00:01:00.000Z",$times}"""
        val plain = """{"id":"n2","title":"T","body":"B","external_id":null,"edited_at":null,$times}"""
        val old = """{"id":"n3","title":"T","body":"B",$times}"""
        val page = """{"notifications":[$edited,$plain,$old],"next_cursor":null,"badge":{"count":1,"unread_count":1,"version":1}}"""
        val listed = scripted(ScriptedTransport { _, _ -> HttpAnswer(200, page) }).notifications().notifications
        val expected = listOf("order-42" to "2026-11-22T00:01:00.000Z", null to null, null to null)
        expectEqual(listed.map { it.externalId to it.editedAt }, expected)
    }

    tests.test("a notification of the list has its subtitle and picture, and null without") {
        val times = """"created_at":"2026-11-22T00:00:00.000Z","read_at":null"""
        val full = """{"id":"n1","title":"T","subtitle":"S","body":"B","image_url":"https://example.com/a.png",$times}"""
        val plain = """{"id":"n2","title":"T","subtitle":null,"body":"","image_url":null,$times}"""
        val older = """{"id":"n3","title":"T","body":"",$times}"""
        val page = """{"notifications":[$full,$plain,$older],"next_cursor":null,"badge":{"count":0,"unread_count":3,"version":1}}"""
        val listed = scripted(ScriptedTransport { _, _ -> HttpAnswer(200, page) }).notifications().notifications
        expectEqual(listed.map { it.subtitle to it.imageUrl }, listOf("S" to "https://example.com/a.png", null to null, null to null))
        val event = InboxEvent.read(ServerSentEvent("7", "notification.created", full))
        expectEqual(event?.change, InboxEvent.Change.Created(listed[0]))
    }
}
