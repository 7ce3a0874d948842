import PushSimulator
import Testing

/// The keys of `aps`, which the strict simulator knows, and Apple's servers hand on unread.
@Suite struct APNsPayloadTests {
    /// Payloads of which iOS would ignore something, and the key that is at fault.
    static let mistakes: [(aps: String, key: String)] = [
        (#""alert":"a","colour":"red""#, "aps.colour"),
        (#""alert":7"#, "aps.alert"),
        (#""alert":{"title":7}"#, "aps.alert.title"),
        (#""alert":{"headline":"h"}"#, "aps.alert.headline"),
        (#""alert":{"title-loc-key":"K","title-loc-args":["a",1]}"#, "aps.alert.title-loc-args[1]"),
        (#""alert":{"loc-key":"K","loc-args":"a"}"#, "aps.alert.loc-args"),
        (#""alert":{"title":"t","loc-args":["a"]}"#, "aps.alert.loc-args"),
        (#""alert":{"title":"t","subtitle-loc-args":["a"]}"#, "aps.alert.subtitle-loc-args"),
        (#""badge":-1"#, "aps.badge"),
        (#""badge":1.5"#, "aps.badge"),
        (#""badge":"3""#, "aps.badge"),
        (#""badge":true"#, "aps.badge"),
        (#""sound":1"#, "aps.sound"),
        (#""sound":{}"#, "aps.sound"),
        (#""sound":{"critical":1,"volume":0.5}"#, "aps.sound"),
        (#""sound":{"name":"a","volume":1.1}"#, "aps.sound.volume"),
        (#""sound":{"name":"a","volume":-1}"#, "aps.sound.volume"),
        (#""sound":{"critical":true,"name":"a"}"#, "aps.sound.critical"),
        (#""sound":{"name":"a","loud":1}"#, "aps.sound.loud"),
        (#""alert":"a","thread-id":4"#, "aps.thread-id"),
        (#""alert":"a","category":["a"]"#, "aps.category"),
        (#""alert":"a","target-content-id":null"#, "aps.target-content-id"),
        (#""alert":"a","filter-criteria":{}"#, "aps.filter-criteria"),
        (#""alert":"a","content-available":0"#, "aps.content-available"),
        (#""alert":"a","content-available":true"#, "aps.content-available"),
        (#""alert":"a","mutable-content":0"#, "aps.mutable-content"),
        (#""badge":1,"mutable-content":1"#, "aps.mutable-content"),
        (#""alert":"a","interruption-level":"urgent""#, "aps.interruption-level"),
        (#""alert":"a","relevance-score":1.01"#, "aps.relevance-score"),
        (#""alert":"a","relevance-score":2"#, "aps.relevance-score"),
        (#""alert":"a","relevance-score":"0.5""#, "aps.relevance-score"),
        (#""alert":"a","event":"update""#, "aps.event"),
        (#""alert":"a","content-state":{}"#, "aps.content-state"),
        (#""alert":"a","input-push-token":1"#, "aps.input-push-token"),
    ]

    @Test("a key of aps that iOS would ignore is refused, and named, by the strict simulator, and accepted by the other")
    func keys() async throws {
        for isStrict in [true, false] {
            try await withSimulator({ $0.isStrict = isStrict }) { fixture in
                let sender = try await fixture.connect()
                for (aps, key) in Self.mistakes {
                    let answer = try await sender.answer(fixture.push(payload: "{\"aps\":{\(aps)}}"))
                    #expect(answer.verdict == (isStrict ? "400 PayloadEmpty" : "200"), "\(aps)")
                    #expect(answer.text.contains("\"explanation\":\"\(key) ") == isStrict, "\(aps): \(answer.text)")
                }
            }
        }
    }

    @Test(
        "everything that Apple describes is accepted",
        arguments: [
            #"""
            "alert":{"title":"t","subtitle":"s","body":"b","launch-image":"l","title-loc-key":"T","title-loc-args":["a"],
            "subtitle-loc-key":"S","subtitle-loc-args":[],"loc-key":"B","loc-args":["a","b"]},"badge":3,"sound":"default",
            "thread-id":"t","category":"c","content-available":1,"mutable-content":1,"target-content-id":"w",
            "interruption-level":"time-sensitive","relevance-score":0.25,"filter-criteria":"f"
            """#,
            #""alert":"a","sound":{"critical":1,"name":"default","volume":1.0},"interruption-level":"critical""#,
            #""alert":"a","relevance-score":1"#,
            #""sound":{"critical":0,"name":"a.caf","volume":0}"#, #""badge":0,"content-available":1"#,
        ])
    func described(aps: String) async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let custom = #""imageURL":"https://example.com/a.png","event":"mine","nested":{"deep":[1,null]}"#
            let answer = try await sender.answer(fixture.push(payload: "{\"aps\":{\(aps)},\(custom)}"))
            #expect(answer.verdict == "200", "\(answer.text)")
        }
    }

    @Test("a Live Activity has keys of its own and a timestamp, and widgets one key alone")
    func otherTypes() async throws {
        let state = #""timestamp":1,"content-state":{"a":1}"#
        let cases = [
            ("liveactivity", #"{"event":"update",\#(state),"relevance-score":75,"alert":{"title":{"loc-key":"K"}}}"#, "200"),
            ("liveactivity", #"{"event":"start",\#(state),"attributes-type":"A","attributes":{},"input-push-token":1}"#, "200"),
            ("liveactivity", #"{"event":"end",\#(state),"dismissal-date":9,"stale-date":8.5}"#, "200"),
            ("liveactivity", #"{"event":"update","content-state":{}}"#, "400 PayloadEmpty"),
            ("liveactivity", #"{"events":"update",\#(state)}"#, "400 PayloadEmpty"),
            ("liveactivity", #"{"event":"pause",\#(state)}"#, "400 PayloadEmpty"),
            ("widgets", #"{"content-changed":true}"#, "200"),
            ("widgets", #"{"content-changed":true,"badge":1}"#, "400 PayloadEmpty"),
        ]
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            for (type, aps, verdict) in cases {
                let topic = "\(fixture.simulator.credentials.topic).push-type.\(type)"
                let push = try fixture.push(payload: "{\"aps\":\(aps)}", ["apns-push-type": type, "apns-topic": topic])
                #expect(try await sender.answer(push).verdict == verdict, "\(type) \(aps)")
            }
        }
    }

    @Test("the log says which key was at fault")
    func log() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push(payload: #"{"aps":{"badge":-1}}"#))
            #expect(fixture.simulator.requests().first?.explanation == "aps.badge must be a whole number from 0.")
            _ = try await sender.answer(fixture.push())
            #expect(fixture.simulator.requests().first?.explanation == nil)
        }
    }
}
