import Glibc
import Synchronization
import TestSupport
import Testing

@testable import CampanileServer

@Suite("What wakes the delivery worker", .endsIfItHangs)
struct WakeSignalTests {
    @Test(
        "announcing costs the stack the same however often it was done",
        .disabled(if: getenv("ASAN_OPTIONS") != nil, "under AddressSanitizer locals lie elsewhere than on the stack"))
    func depth() {
        let signal = WakeSignal()
        let addresses = Mutex<[Int]>([])
        signal.onAnnouncement {
            var local = 0
            withUnsafeMutablePointer(to: &local) { place in
                addresses.withLock { $0.append(Int(bitPattern: place)) }
            }
        }
        for _ in 0..<1_000 { signal.announce() }
        let seen = addresses.withLock { $0 }
        #expect(seen.count == 1_000)
        #expect((seen.max() ?? 0) - (seen.min() ?? 0) < 1_024)
    }
}
