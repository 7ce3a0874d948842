import Testing

@testable import PushSimulator

@Suite struct SimulatedTimeTests {
    @Test("the simulator's time is the one that was passed in")
    func time() {
        #expect(SimulatedTime { 5 }.now() == 5)
    }
}
