import CampanileCore
import PushSimulator
import Testing

@Suite struct FaultTests {
    static let id = "01900000-0000-7000-8000-00000000000c"

    @Test("every reason of Apple's table can be commanded, with its status")
    func reasons() async throws {
        let reasons: [(Int, String)] = [
            (400, "BadDeviceToken"), (400, "IdleTimeout"), (403, "Forbidden"), (403, "BadEnvironmentKeyIdInToken"),
            (410, "ExpiredToken"), (429, "TooManyRequests"), (500, "InternalServerError"), (503, "Shutdown"),
        ]
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            for (status, reason) in reasons {
                try fixture.simulator.setFaults(
                    json: #"{"action":{"type":"status","reason":"\#(reason)","retry_after":7,"timestamp_ms":5}}"#)
                let answer = try await sender.answer(fixture.push())
                #expect(answer.verdict == "\(status) \(reason)")
                #expect(answer.fields["retry-after"] == "7")
            }
            #expect(fixture.simulator.counters.accepted == 0)
            #expect(fixture.simulator.counters.faults == ["status": reasons.count])
        }
    }

    @Test("an error that was applied all the same explains the duplicate that follows")
    func applied() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            try fixture.simulator.setFaults(
                json: #"[{"times":1,"action":{"type":"status","reason":"InternalServerError","applied":true}}]"#)
            #expect(try await sender.answer(fixture.push(["apns-id": Self.id])).status == 500)
            #expect(fixture.simulator.device(Fixture.token)?.badge == 3)
            #expect(try await sender.answer(fixture.push(["apns-id": Self.id])).status == 200)
            #expect(fixture.simulator.counters.duplicates == 1)
            #expect(fixture.simulator.counters.unexplainedDuplicates == 0)
        }
    }

    @Test("a push that is sent again although it was answered is an unexplained duplicate")
    func unexplained() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            for _ in 0..<2 { _ = try await sender.answer(fixture.push(["apns-id": Self.id])) }
            #expect(fixture.simulator.counters.unexplainedDuplicates == 1)
            #expect(fixture.simulator.counters.duplicateIDs == [Self.id])
        }
    }

    @Test("matches, counts and chances decide which requests are struck")
    func which() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            func verdicts(_ count: Int, _ payload: String = #"{"aps":{"alert":"x"}}"#) async throws -> [Int?] {
                var verdicts: [Int?] = []
                for _ in 0..<count { verdicts.append(try await sender.answer(fixture.push(payload: payload)).status) }
                return verdicts
            }
            let broken = #""action":{"type":"status","reason":"InternalServerError"}"#
            try fixture.simulator.setFaults(json: "[{\"every\":3,\(broken)}]")
            #expect(try await verdicts(6) == [200, 200, 500, 200, 200, 500])
            try fixture.simulator.setFaults(json: "[{\"every\":2,\"times\":1,\(broken)}]")
            #expect(try await verdicts(4) == [200, 500, 200, 200])
            try fixture.simulator.setFaults(json: "[{\"match\":{\"kind\":\"clearing\"},\(broken)}]")
            #expect(try await verdicts(1) == [200])
            #expect(try await verdicts(1, #"{"aps":{"badge":4}}"#) == [200])
            #expect(try await verdicts(1, #"{"aps":{"badge":0}}"#) == [500])
            try fixture.simulator.setFaults(json: "[{\"match\":{\"token_prefix\":\"ff\"},\(broken)}]")
            #expect(try await verdicts(1) == [200])
            try fixture.simulator.setFaults(json: "[{\"match\":{\"service\":\"fcm\"},\(broken)}]")
            #expect(try await verdicts(1) == [200])
            try fixture.simulator.setFaults(json: "[{\"match\":{\"connection\":1},\(broken)}]")
            #expect(try await verdicts(1) == [500])
        }
    }

    @Test("the same seed strikes the same requests")
    func seeds() async throws {
        func run(seed: UInt64) async throws -> [Int?] {
            var verdicts: [Int?] = []
            try await withSimulator({ $0.seed = seed }) { fixture in
                let sender = try await fixture.connect()
                try fixture.simulator.setFaults(
                    json: #"[{"probability":0.5,"action":{"type":"status","reason":"TooManyRequests"}}]"#)
                for _ in 0..<40 { verdicts.append(try await sender.answer(fixture.push()).status) }
            }
            return verdicts
        }
        let first = try await run(seed: 7)
        #expect(try await run(seed: 7) == first)
        #expect(try await run(seed: 8) != first)
        #expect((8...32).contains(first.filter { $0 == 429 }.count))
    }

    @Test("an outage lasts until its rule is taken away")
    func outage() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            try fixture.simulator.setFaults(
                json: #"[{"match":{"app":"com.example.app"},"action":{"type":"outage","retry_after":9}}]"#)
            for _ in 0..<3 { #expect(try await sender.answer(fixture.push()).verdict == "503 ServiceUnavailable") }
            fixture.simulator.setFaults([])
            #expect(try await sender.answer(fixture.push()).verdict == "200")
        }
    }

    @Test("a refused and a reset stream end with their codes; the connection goes on")
    func resets() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            fixture.simulator.setFaults([FaultRule(.refusedStream)])
            #expect(try await sender.answer(fixture.push()).resetCode == 7)
            fixture.simulator.setFaults([FaultRule(.resetStream(code: 2, isApplied: true))])
            #expect(try await sender.answer(fixture.push()).resetCode == 2)
            fixture.simulator.setFaults([])
            #expect(try await sender.answer(fixture.push()).verdict == "200")
            #expect(fixture.simulator.counters.accepted == 2)
            #expect(fixture.simulator.counters.unanswered == 1)
        }
    }

    @Test("silence leaves the stream open, whether or not the phone got the push", arguments: [true, false])
    func silence(isApplied: Bool) async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            fixture.simulator.setFaults([FaultRule(.silence(isApplied: isApplied), times: 1)])
            let stream = sender.send(try fixture.push())
            #expect(try await sender.settled().answers[stream] == nil)
            #expect(try await sender.answer(fixture.push()).verdict == "200")
            #expect(fixture.simulator.device(Fixture.token)?.received == (isApplied ? 2 : 1))
            sender.reset(stream)
            _ = try await sender.settled()
        }
    }

    @Test("a half-open connection answers nothing, not even a ping, and stays open")
    func halfOpen() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            fixture.simulator.setFaults([FaultRule(.halfOpen(isApplied: true), times: 1)])
            let stream = sender.send(try fixture.push())
            // Another connection shows that the push arrived, and that only this one is stuck.
            let other = try await fixture.connect()
            while fixture.simulator.counters.requests < 2 { _ = try await other.settled() }
            sender.write(Frame.bytes(type: 6, stream: 0, payload: [UInt8](repeating: 1, count: 8)))
            _ = try await other.answer(fixture.push())
            #expect(sender.seen.pongs == 0)
            #expect(sender.seen.answers[stream] == nil)
            #expect(!sender.seen.isClosed)
            #expect(fixture.simulator.device(Fixture.token)?.received == 3)
        }
    }

    @Test("the connection ends without an answer, whether or not the phone got the push", arguments: [true, false])
    func close(isApplied: Bool) async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            fixture.simulator.setFaults([FaultRule(.close(isApplied: isApplied), times: 1)])
            let stream = sender.send(try fixture.push(["apns-id": Self.id]))
            try await sender.closed()
            #expect(sender.seen.answers[stream] == nil)
            let other = try await fixture.connect()
            #expect(try await other.answer(fixture.push(["apns-id": Self.id])).verdict == "200")
            #expect(fixture.simulator.counters.duplicates == (isApplied ? 1 : 0))
            #expect(fixture.simulator.counters.unexplainedDuplicates == 0)
        }
    }

    @Test("of pushes that came at once, those before the end are answered, and those after it aren't looked at")
    func closeInTheMiddle() async throws {
        for action in [FaultAction.close(isApplied: true), .halfOpen(isApplied: true)] {
            try await withSimulator { fixture in
                let sender = try await fixture.connect()
                _ = try await sender.answer(fixture.push())
                _ = try await sender.settled()
                fixture.simulator.setFaults([FaultRule(action, every: 4, times: 1)])
                let pushes = try (0..<10).map { index in
                    try fixture.push(["apns-id": "01900000-0000-7000-8000-00000000001\(index)"])
                }
                var bytes: [UInt8] = []
                var streams: [Int] = []
                for push in pushes {
                    let frames = sender.frames(push.fields, body: push.body)
                    bytes += frames.bytes
                    streams.append(frames.stream)
                }
                sender.write(bytes)
                _ = try await sender.answer(streams[2])
                let again = try await fixture.connect()
                while fixture.simulator.counters.requests < 5 { _ = try await again.settled() }
                #expect(fixture.simulator.counters.accepted == 1 + 4)
                for push in pushes[3...] { #expect(try await again.answer(push).verdict == "200") }
                #expect(fixture.simulator.counters.duplicates == 1)
                #expect(fixture.simulator.counters.unexplainedDuplicates == 0)
                #expect(sender.seen.answers.count == 1 + 3)
            }
        }
    }

    @Test("a trickled answer comes byte by byte")
    func trickle() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            fixture.simulator.markGone(Fixture.token, since: 5)
            fixture.simulator.setFaults([FaultRule(.trickle(gapMilliseconds: 1))])
            let answer = try await sender.answer(fixture.push())
            #expect(answer.text == #"{"reason":"Unregistered","timestamp":5}"#)
            #expect(answer.pieces == answer.body.count)
        }
    }

    @Test("a broken body and one of a mebibyte come whole")
    func bodies() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            fixture.simulator.setFaults([FaultRule(.brokenJSON(status: 400))])
            let broken = try await sender.answer(fixture.push())
            #expect(broken.status == 400)
            #expect(broken.text == #"{"reason":"Internal"#)
            fixture.simulator.setFaults([FaultRule(.oversizedBody(bytes: 1_048_576, status: 500))])
            let large = try await sender.answer(fixture.push())
            #expect(large.status == 500)
            #expect(large.body.count > 1_048_576)
            #expect(fixture.simulator.counters.accepted == 0)
        }
    }

    @Test("a late answer is overtaken by others; a sender that gives it up explains its duplicate")
    func latency() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            _ = try await sender.settled()
            fixture.simulator.setFaults([FaultRule(.latency(1...20))])
            #expect(try await sender.answer(fixture.push()).verdict == "200")
            fixture.simulator.setFaults([FaultRule(.latency(60_000...60_000), times: 1)])
            let given = sender.send(try fixture.push(["apns-id": Self.id]))
            #expect(try await sender.answer(fixture.push()).verdict == "200")
            #expect(sender.seen.answers[given] == nil)
            sender.reset(given)
            _ = try await sender.settled()
            _ = try await sender.answer(fixture.push(["apns-id": Self.id]))
            #expect(fixture.simulator.counters.duplicates == 1)
            #expect(fixture.simulator.counters.unexplainedDuplicates == 0)
        }
    }

    @Test("a rule that can't be read is refused with the place that is wrong")
    func syntax() async throws {
        let wrong = [
            (#"{"action":{"type":"boom"}}"#, "rule.action.type is unknown: boom."),
            (#"[{"acton":{}}]"#, "rules[0].action is missing."),
            (#"{"action":{"type":"silence","aplied":true}}"#, "rule.action.aplied is unknown."),
            (#"{"probability":2,"action":{"type":"silence"}}"#, "rule.probability must be a number from 0 to 1."),
            (
                #"{"match":{"kind":"loud"},"action":{"type":"silence"}}"#,
                "rule.match.kind must be one of alert, clearing, sync, background."
            ),
            (
                #"{"action":{"type":"status","reason":"Odd"}}"#,
                "rule.action.status is missing: no table knows the reason Odd."
            ),
        ]
        try await withSimulator { fixture in
            for (json, sentence) in wrong {
                let error = #expect(throws: Mistake.self) { try fixture.simulator.setFaults(json: json) }
                #expect(error?.description == sentence)
            }
        }
    }
}
