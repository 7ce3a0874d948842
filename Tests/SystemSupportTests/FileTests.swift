import Foundation
import SystemSupport
import Testing

@Suite struct FileTests {
    private func reading(_ path: String, limit: Int) -> String {
        do throws(SystemError) {
            return "\(try File.read(path, limit: limit).count) bytes"
        } catch {
            return error.reason
        }
    }

    @Test(
        "a file is read whole up to the limit, and not at all beyond it",
        arguments: [
            (0, 0, "0 bytes"), (10, 10, "10 bytes"), (11, 10, "is larger than 10 bytes"), (200_000, 200_000, "200000 bytes"),
            (200_001, 200_000, "is larger than 200000 bytes"),
        ])
    func limit(size: Int, limit: Int, told: String) throws {
        let file = URL.temporaryDirectory.appending(path: "campanile-\(UUID().uuidString)")
        let content = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try Data(content).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        #expect(reading(file.path(), limit: limit) == told)
        if size <= limit { #expect(try File.read(file.path(), limit: limit) == content) }
    }

    @Test("a file that tells no size, as the system's own, is read to its end")
    func sizeless() throws {
        let status = try File.read("/proc/self/status", limit: 100_000)
        #expect(String(decoding: status, as: UTF8.self).contains("VmRSS"))
    }

    @Test(
        "what can't be read is told with its reason",
        arguments: [
            ("/no such folder/file", "isn't there"), ("/", "is a directory"), ("/dev/null/file", "isn't there"),
            ("/proc/self/mem", "can't be read: Input/output error"),
        ])
    func unreadable(path: String, told: String) {
        #expect(reading(path, limit: 100) == told)
        let error = #expect(throws: SystemError.self) { try File.read(path, limit: 100) }
        #expect(error?.description == "\(path) \(told).")
    }

    @Test("a file's size is its bytes; what isn't there has none")
    func size() throws {
        #expect(File.size("/proc/self/no-such-file") == nil)
        #expect(File.size(#filePath) == (try File.read(#filePath, limit: 1 << 20)).count)
    }

    @Test("the system says of this process what it has")
    func process() {
        let before = ProcessFigures()
        let descriptor = open("/dev/null", O_RDONLY)
        defer { close(descriptor) }
        #expect(ProcessFigures().openDescriptors ?? 0 > 0 && before.descriptorLimit ?? 0 > 0)
        #expect((before.residentBytes ?? 0) > 1_000_000 && ProcessFigures().cpuNanoseconds >= before.cpuNanoseconds)
    }

    @Test("a file gets a new name, and never one that is taken")
    func rename() throws {
        let folder = URL.temporaryDirectory.appending(path: "campanile-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (old, new) = (folder.appending(path: "old"), folder.appending(path: "new"))
        try Data("old".utf8).write(to: old)
        #expect(File.rename(old.path(), toNew: new.path()) == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path()) == ["new"])
        try Data("mine".utf8).write(to: old)
        #expect(File.rename(old.path(), toNew: new.path()) == EEXIST)
        #expect(try String(contentsOf: new, encoding: .utf8) == "old" && String(contentsOf: old, encoding: .utf8) == "mine")
        #expect(File.rename(folder.path() + "/none", toNew: folder.path() + "/other") == ENOENT)
    }
}
