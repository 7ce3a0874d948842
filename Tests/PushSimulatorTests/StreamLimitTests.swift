import PushSimulator
import Testing

@Suite struct StreamLimitTests {
    @Test("a connection begins with one stream, and has more after the first good token")
    func rises() async throws {
        try await withSimulator({ $0.streamLimit = 500 }) { fixture in
            let sender = try await fixture.connect()
            #expect(try await sender.settled().limits == [1])
            _ = try await sender.answer(fixture.push(["authorization": "bearer x"]))
            #expect(try await sender.settled().limits == [1])
            _ = try await sender.answer(fixture.push())
            #expect(try await sender.settled().limits == [1, 500])
            _ = try await sender.answer(fixture.push())
            #expect(try await sender.settled().limits == [1, 500])
        }
    }

    @Test("a stream above the confirmed limit is refused and counted, and the others go on")
    func violation() async throws {
        try await withSimulator { fixture in
            fixture.simulator.setFaults([FaultRule(.silence(isApplied: false), times: 1)])
            let sender = try await fixture.connect()
            _ = try await sender.settled()
            let (silent, first) = try sender.frames(fixture.push().fields, body: fixture.push().body)
            let (above, second) = try sender.frames(fixture.push().fields, body: fixture.push().body)
            // Two streams at once, before the good token of the first one is known to have raised the limit.
            sender.write(first + second)
            #expect(try await sender.answer(above).resetCode == 7)
            #expect(fixture.simulator.counters.streamLimitViolations == 1)
            #expect(fixture.simulator.counters.earlyStreams == 0)
            #expect(fixture.simulator.counters.requests == 1)
            #expect(try await sender.settled().answers[silent] == nil)
            #expect(try await sender.answer(fixture.push()).verdict == "200")
        }
    }

    @Test("as many streams as the limit allows are taken at once")
    func full() async throws {
        try await withSimulator({ $0.streamLimit = 50 }) { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            _ = try await sender.settled()
            fixture.simulator.setFaults([FaultRule(.silence(isApplied: false))])
            var bytes: [UInt8] = []
            for _ in 0..<51 { bytes += try sender.frames(fixture.push().fields, body: fixture.push().body).bytes }
            sender.write(bytes)
            let state = try await sender.settled()
            #expect(fixture.simulator.counters.streamLimitViolations == 1)
            #expect(state.answers.values.filter { $0.resetCode == 7 }.count == 1)
        }
    }

    @Test("a limit that is lowered on command goes back after so many requests")
    func lowered() async throws {
        try await withSimulator({ $0.streamLimit = 50 }) { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            fixture.simulator.setFaults([FaultRule(.settings(maxConcurrentStreams: 1, requests: 2), times: 1)])
            _ = try await sender.answer(fixture.push())
            #expect(try await sender.settled().limits == [1, 50, 1])
            _ = try await sender.answer(fixture.push())
            #expect(try await sender.settled().limits == [1, 50, 1])
            _ = try await sender.answer(fixture.push())
            #expect(try await sender.settled().limits == [1, 50, 1, 50])
            #expect(fixture.simulator.counters.streamLimitViolations == 0)
        }
    }

    @Test("more bytes than the connection's window holds go through it")
    func windows() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            _ = try await sender.settled()
            let payload = #"{"aps":{"badge":1},"x":""# + String(repeating: "y", count: 3_000) + #""}"#
            let push = try fixture.push(payload: payload)
            for _ in 0..<3 {
                var bytes: [UInt8] = []
                var last = 0
                for _ in 0..<500 {
                    let frames = sender.frames(push.fields, body: push.body)
                    bytes += frames.bytes
                    last = frames.stream
                }
                sender.write(bytes)
                _ = try await sender.answer(last)
            }
            #expect(fixture.simulator.counters.answers["200"] == 1_501)
        }
    }

    @Test("fast mode answers with the id, counts paths, and still verifies the token")
    func fast() async throws {
        try await withSimulator({ $0.isFast = true }) { fixture in
            let sender = try await fixture.connect()
            #expect(
                try await sender.answer(fixture.push(["authorization": "bearer x"])).verdict
                    == "403 InvalidProviderToken")
            let id = "01900000-0000-7000-8000-00000000000b"
            for path in ["/3/device/aa", "/3/device/bb", "/3/device/aa"] {
                let answer = try await sender.answer(fixture.push([":path": path, "apns-id": id]))
                #expect(answer.verdict == "200")
                #expect(answer.fields["apns-id"] == id)
            }
            #expect(try await sender.settled().limits == [1_000], "load generators don't wait for a limit to rise")
            #expect(fixture.simulator.counters.accepted == 3)
            #expect(fixture.simulator.counters.distinctPaths == 2)
            #expect(fixture.simulator.devices().isEmpty)
            fixture.simulator.setFaults([FaultRule(.outage(retryAfter: 3))])
            let answer = try await sender.answer(fixture.push())
            #expect(answer.verdict == "503 ServiceUnavailable")
            #expect(answer.fields["retry-after"] == "3")
        }
    }
}
