import CampanileClient
import Foundation
import TestSupport
import Testing

/// Here and not among the client's own tests, because it starts a program.
@Suite("What an app shares with another process")
struct ClientStorageTests {
    @Test("a badge waits while another process is writing one, and is then refused if it is older")
    func otherProcess() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "storage-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let (shared, prepared) = (folder.appending(path: "shared"), folder.appending(path: "prepared"))
        BadgeStore(storage: .files(in: prepared)).apply(count: 5, version: 20)
        let store = BadgeStore(storage: .files(in: shared))
        let script = """
            touch "$0/held"
            while [ ! -e "$0/go" ]; do sleep 0.01; done
            cp "$0/prepared/badge" "$0/shared/badge"
            """
        let other = try ChildProgram(
            "/usr/bin/flock", [shared.appending(path: "lock").path(), "/bin/sh", "-c", script, folder.path()])
        defer { other.kill() }
        try await lookUntil { FileManager.default.fileExists(atPath: folder.appending(path: "held").path()) }
        let applied = Watched<Bool?>(nil)
        let hasBegun = Watched(false)
        // Not a task: it waits in the kernel.
        Thread.detachNewThread {
            hasBegun.change { $0 = true }
            let isNews = store.apply(count: 4, version: 19)
            applied.change { $0 = isNews }
        }
        await hasBegun.until { $0 }
        for _ in 0..<10_000 { await Task.yield() }
        #expect(applied.value == nil)
        try Data().write(to: folder.appending(path: "go"))
        await applied.until { $0 != nil }
        #expect(applied.value == false)
        #expect(store.count == 5 && store.version == 20)
    }
}
