import Glibc
import TestSupport
import Testing

/// The tests' own programs: one that is left behind would hang the exit tests.
struct ChildProgramTests {
    private static func isThere(_ id: pid_t) -> Bool { kill(id, 0) == 0 }

    @Test("a program that nobody waited for ends with its object, and leaves nothing to be waited for")
    func dropped() throws {
        var ids: [pid_t] = []
        for words in [["-c", "exit 0"], ["-c", "sleep 600"]] {
            let program = try ChildProgram("/bin/sh", words)
            ids.append(program.id)
            #expect(withExtendedLifetime(program) { Self.isThere(program.id) })
        }
        #expect(ids.map(Self.isThere) == [false, false])
    }

    @Test("a program's end is told to everybody who waits for it, and killing it afterwards changes nothing")
    func twice() throws {
        let program = try ChildProgram("/bin/sh", ["-c", "exit 7"])
        #expect(program.waitUntilEnded() == 7)
        program.kill()
        #expect(program.waitUntilEnded() == 7)
    }
}
