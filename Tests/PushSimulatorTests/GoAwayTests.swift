import PushSimulator
import Testing

@Suite struct GoAwayTests {
    /// Sends 10 pushes at once on a connection whose limit is up; the fault strikes the fourth one.
    private func check(
        _ last: FaultAction.LastStream, _ body: (Fixture, [Int], Sender.State) throws -> Void
    ) async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            _ = try await sender.settled()
            fixture.simulator.setFaults([FaultRule(.goaway(last, reason: "Shutdown"), every: 4, times: 1)])
            var bytes: [UInt8] = []
            var streams: [Int] = []
            for _ in 0..<10 {
                let frames = sender.frames(try fixture.push().fields, body: try fixture.push().body)
                bytes += frames.bytes
                streams.append(frames.stream)
            }
            sender.write(bytes)
            try await sender.closed()
            let state = sender.seen
            #expect(state.goAways.first?.text == #"{"reason":"Shutdown"}"#)
            try body(fixture, streams, state)
            let again = try await fixture.connect()
            #expect(try await again.answer(fixture.push()).verdict == "200")
        }
    }

    @Test("with the present stream as the last, it is answered, and later ones never were processed")
    func present() async throws {
        try await check(.present) { fixture, streams, state in
            #expect(state.goAways.map(\.lastStream) == [streams[3]])
            for (index, stream) in streams.enumerated() {
                #expect(state.answers[stream]?.isEnded == (index <= 3 ? true : nil), "\(index)")
            }
            #expect(fixture.simulator.counters.accepted == 1 + 4)
        }
    }

    @Test("with an older stream as the last, the present one isn't processed, and what was answered isn't taken back")
    func older() async throws {
        try await check(.older(by: 3)) { fixture, streams, state in
            #expect(state.goAways.map(\.lastStream) == [streams[2]])
            for (index, stream) in streams.enumerated() {
                #expect(state.answers[stream]?.isEnded == (index <= 2 ? true : nil), "\(index)")
            }
            #expect(fixture.simulator.counters.accepted == 1 + 3)
            #expect(fixture.simulator.device(Fixture.token)?.received == 1 + 3)
        }
    }

    @Test("a drain names the greatest stream, answers all that was sent, and then the last one")
    func all() async throws {
        try await check(.all) { fixture, streams, state in
            #expect(state.goAways.map(\.lastStream) == [0x7FFF_FFFF, streams[9]])
            #expect(streams.allSatisfy { state.answers[$0]?.isEnded == true })
            #expect(fixture.simulator.counters.accepted == 1 + 10)
        }
    }

    @Test("another certificate of the same authority is accepted; one of a stranger is not")
    func certificates() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            fixture.simulator.setFaults([FaultRule(.certificate(.leaf), times: 1)])
            #expect(try await sender.answer(fixture.push()).verdict == "200", "the answer goes out before the end")
            try await sender.closed()
            let again = try await fixture.connect()
            fixture.simulator.changeCertificate(.otherAuthority)
            try await again.closed()
            await #expect(throws: Sender.Closed.self) { _ = try await fixture.connect() }
            fixture.simulator.changeCertificate(.leaf)
            #expect(try await fixture.connect().answer(fixture.push()).verdict == "200")
        }
    }
}
