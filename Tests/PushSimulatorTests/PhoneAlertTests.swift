import PushSimulator
import Testing

/// Alerts as a phone shows them.
@Suite struct PhoneAlertTests {
    private struct Missing: Error {}

    /// Sends a payload to an iPhone; gives what it shows.
    private func shownByApple(_ payload: String) async throws -> PhoneAlert {
        var shown: PhoneAlert?
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            #expect(try await sender.answer(fixture.push(payload: payload)).verdict == "200")
            shown = fixture.simulator.device(Fixture.token)?.notifications.last?.alert
        }
        return try #require(shown)
    }

    @Test("an iPhone shows all words, the image for the extension, the buttons, the level and the thread")
    func apple() async throws {
        let alert = try await shownByApple(
            #"""
            {"aps":{"alert":{"title":"T","subtitle":"S","body":"B"},"category":"REPLY","thread-id":"t1","mutable-content":1,
            "interruption-level":"time-sensitive"},"imageURL":"https://example.com/a.png","category":"news","deepLink":"/a"}
            """#)
        #expect((alert.title, alert.subtitle, alert.body) == ("T", "S", "B"))
        #expect((alert.imageURL, alert.buttons, alert.threadID) == ("https://example.com/a.png", "REPLY", "t1"))
        #expect((alert.interruptionLevel, alert.category, alert.deepLink) == ("time-sensitive", "news", "/a"))
        #expect(alert.drawnBy == .system)
    }

    @Test("without mutable-content nobody loads the image")
    func noExtension() async throws {
        let alert = try await shownByApple(#"{"aps":{"alert":"a"},"imageURL":"https://example.com/a.png"}"#)
        #expect(alert.imageURL == nil && alert.body == "a")
    }

    @Test("a text of the app's own stands as its key with its arguments, where there is no text")
    func localised() async throws {
        let alert = try await shownByApple(
            #"""
            {"aps":{"alert":{"title-loc-key":"ORDER","title-loc-args":["42","today"],"subtitle-loc-key":"SHIPPED",
            "body":"B","loc-key":"UNUSED"}}}
            """#)
        #expect((alert.title, alert.subtitle, alert.body) == ("ORDER(42, today)", "SHIPPED", "B"))
    }

    // MARK: - Android

    /// A phone behind FCM; sends it a message's parts beside the token.
    private func withAndroid(
        _ body: (_ simulator: PushSimulator, _ send: (String) async throws -> Phone) async throws -> Void
    ) async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            try await body(fixture.simulator) { parts in
                let answer = try await sender.answer(fixture.message("{\"message\":{\"token\":\"d1\",\(parts)}}", token: access))
                #expect(answer.status == 200, "\(answer.text)")
                guard let phone = fixture.simulator.device("d1") else { throw Missing() }
                return phone
            }
        }
    }

    /// The JSON of `alert` as a text within JSON.
    private func quoted(_ json: String) -> String { "\"" + json.replacing("\"", with: "\\\"") + "\"" }

    @Test("Android's system shows a notification's texts, keys, image and channel")
    func notification() async throws {
        try await withAndroid { _, send in
            let phone = try await send(
                #"""
                "notification":{"title":"T","image":"https://example.com/a.png"},"android":{"notification":
                {"body_loc_key":"ORDER","body_loc_args":["42"],"image":"https://example.com/b.png","channel_id":"news"}}
                """#)
            let alert = try #require(phone.notifications.first?.alert)
            #expect((alert.title, alert.body, alert.channelID) == ("T", "ORDER(42)", "news"))
            #expect(alert.imageURL == "https://example.com/b.png" && alert.drawnBy == .system)
            let keyed = try await send(#""android":{"notification":{"title_loc_key":"KEY"}}"#)
            #expect(keyed.notifications.map(\.title) == ["T", "KEY"])
        }
    }

    @Test("a message of data with an alert is drawn by the app, whatever its type, with its count, else the launcher counts")
    func dataAlert() async throws {
        let full = quoted(
            #"""
            {"title":"T","subtitle":"S","body":"B","image_url":"https://example.com/a.png","buttons":"REPLY","channel_id":"news",
            "color":"#ff0000","icon":"i","visibility":"public","sound":"s","thread_id":"t1","collapse_key":"c","count":4}
            """#.replacing("\n", with: ""))
        try await withAndroid { _, send in
            let first = try await send(
                #""data":{"type":"badge","count":"9","id":"n1","category":"orders","deepLink":"/a","alert":\#(full)}"#)
            let alert = try #require(first.notifications.first?.alert)
            #expect((alert.title, alert.subtitle, alert.body) == ("T", "S", "B"))
            #expect((alert.imageURL, alert.buttons) == ("https://example.com/a.png", "REPLY"))
            #expect((alert.channelID, alert.threadID) == ("news", "t1"))
            #expect((alert.category, alert.deepLink) == ("orders", "/a"))
            #expect(alert.drawnBy == .app)
            #expect(first.badge == 4 && first.wakes == 1 && first.history.last?.kind == .alert)
            let keyed = quoted(#"{"loc":{"title_key":"ORDER","title_args":["42"],"body_key":"SHIPPED"}}"#)
            let second = try await send(#""data":{"id":"n2","alert":\#(keyed)}"#)
            #expect(second.badge == 2 && second.notifications.last?.title == "ORDER(42)")
            #expect(second.notifications.last?.body == "SHIPPED")
            // The same collapse key replaces.
            let third = try await send(#""data":{"id":"n3","alert":\#(full)}"#)
            #expect(third.notifications.map(\.title) == ["ORDER(42)", "T"])
        }
    }

    @Test("beside a notification the system draws, and an alert that can't be read is none")
    func noDataAlert() async throws {
        try await withAndroid { _, send in
            let both = try await send(#""notification":{"title":"N"},"data":{"alert":\#(quoted(#"{"title":"D"}"#))}"#)
            #expect(both.notifications.map(\.title) == ["N"] && both.notifications.first?.alert.drawnBy == .system)
            for text in ["no JSON", "[]", "7"] {
                let phone = try await send(#""data":{"type":"badge","count":"5","alert":"\#(text)"}"#)
                #expect(phone.notifications.count == 1 && phone.badge == 5, "\(text)")
            }
        }
    }

    @Test("an alert in the data counts as a duplicate by its notification's id, and one without an id never does")
    func duplicates() async throws {
        try await withAndroid { simulator, send in
            let alert = quoted(#"{"title":"T"}"#)
            for _ in 1...2 { _ = try await send(#""data":{"id":"n1","alert":\#(alert)}"#) }
            #expect(simulator.counters.duplicates == 1)
            _ = try await send(#""android":{"data":{"id":"n1","alert":\#(alert)}}"#)
            #expect(simulator.counters.duplicates == 2)
            for _ in 1...2 { _ = try await send(#""data":{"alert":\#(alert)}"#) }
            for _ in 1...2 { _ = try await send(#""data":{"id":"n1","type":"badge","count":"1"}"#) }
            #expect(simulator.counters.duplicates == 2)
        }
    }

    @Test("an iPhone behind Firebase shows the message's title and image where its payload has none")
    func appleThroughFirebase() async throws {
        try await withAndroid { _, send in
            let image = #""fcm_options":{"image":"https://example.com/a.png"}"#
            let phone = try await send(
                #""notification":{"title":"N","body":"B"},"apns":{\#(image),"payload":{"aps":{"mutable-content":1,"badge":2}}}"#)
            let alert = try #require(phone.notifications.first?.alert)
            #expect((alert.title, alert.body, alert.imageURL) == ("N", "B", "https://example.com/a.png"))
            #expect(phone.badge == 2 && phone.platform == .ios)
            let own = try await send(#""notification":{"title":"N"},"apns":{"payload":{"aps":{"alert":{"title":"A"}}}}"#)
            #expect(own.notifications.map(\.title) == ["N", "A"])
        }
    }

    @Test("the control calls say all of an alert")
    func json() async throws {
        try await withSimulator({ $0.pagePort = 0 }) { fixture in
            let sender = try await fixture.connect()
            let payload = #"{"aps":{"alert":{"title":"T","subtitle":"S"},"category":"REPLY","thread-id":"t1"}}"#
            _ = try await sender.answer(fixture.push(payload: payload))
            let client = PageClient(port: try #require(fixture.simulator.pagePort))
            let text = try await client.get("/devices/\(Fixture.token)").body
            for member in [
                #""subtitle":"S""#, #""buttons":"REPLY""#, #""thread_id":"t1""#, #""image_url":null"#, #""drawn_by":"system""#,
                #""interruption_level":null"#, #""channel_id":null"#,
            ] {
                #expect(text.contains(member), "\(member)")
            }
        }
    }
}
