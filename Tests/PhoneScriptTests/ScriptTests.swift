import CampanileCore
import PushSimulator
import Testing

@testable import PhoneScript

/// Scripts on a server, the simulator over HTTP/2, and its phones.
@Suite struct ScriptTests {
    private static let phones = """
        phone iphone ios alice
        phone ipad ios alice
        phone pixel android alice
        notify alice one The first
        notify alice two The second

        """

    @Test("what is read on one phone leaves the others, and the one that is off when it is back and opened, under every switch")
    func read() async throws {
        let text =
            Self.phones + """
                off iphone      # in a tunnel
                read ipad one
                wait 5s
                on iphone
                wait 5s
                open iphone
                """
        #expect(
            try await ScriptRun(text, seed: 1).report() == [
                "at the end:",
                "iphone (ios, alice): 1; two “The second”",
                "ipad (ios, alice): 1; two “The second”",
                "pixel (android, alice): 1; two “The second”",
                "The same under every switch.",
            ])
    }

    @Test("a result that hangs on the budget says so, and a later alert takes away without any")
    func budget() async throws {
        let text = Self.phones + "read ipad one\nwait 5s\n"
        let lines = try await ScriptRun(text, seed: 1).report()
        #expect(lines.last == "It depends on the background budget alone.")
        #expect(
            lines.filter { $0.hasPrefix("iphone") } == [
                "iphone (ios, alice): 1; one “The first”, two “The second”", "iphone (ios, alice): 1; two “The second”",
                "iphone (ios, alice): 1; two “The second”",
            ])
        let later = try await ScriptRun(text + "notify alice three The third", seed: 1).report()
        #expect(later.last == "The same under every switch.")
        #expect(later.contains("iphone (ios, alice): 2; two “The second”, three “The third”"))
    }

    @Test("a result that hangs on what waits for a phone that is off says so")
    func stored() async throws {
        let text =
            Self.phones + """
                off iphone
                notify alice three The third
                notify alice four The fourth
                on iphone
                """
        let lines = try await ScriptRun(text, seed: 1).report()
        #expect(lines.last == "It depends on what waits for a phone that is off alone.")
        #expect(
            lines.filter { $0.hasPrefix("iphone") } == [
                "iphone (ios, alice): 4; one “The first”, two “The second”, four “The fourth”",
                "iphone (ios, alice): 4; one “The first”, two “The second”, three “The third”, four “The fourth”",
            ])
    }

    @Test(
        "a withdrawal leaves every phone, an edit takes the banner's place, a collapse key shows its newest, a new installation nothing"
    )
    func others() async throws {
        let text =
            Self.phones + """
                withdraw one
                wait 1s
                edit two The second, mended
                notify alice old collapse=k Older
                notify alice new collapse=k Newer
                read page:alice old
                wait 5s
                reinstall ipad
                wait 5s
                sleep pixel
                read page:alice two
                wait 5s
                show
                wake pixel
                open iphone
                """
        let lines = try await ScriptRun(text, seed: 1).run(under: PhoneRules())
        #expect(
            lines == [
                "line 18:",
                "iphone (ios, alice): 1; new “Newer”", "ipad (ios, alice): 0; nothing",
                "pixel (android, alice): 3; two “The second, mended”, new “Newer”",
                "at the end:",
                "iphone (ios, alice): 1; new “Newer”", "ipad (ios, alice): 0; nothing", "pixel (android, alice): 1; new “Newer”",
            ])
    }

    @Test("a phone that its user ended shows what was read until an alert's extension, or its opening, takes it away")
    func ended() async throws {
        let text = Self.phones + "end iphone\nread ipad one\nwait 5s\n"
        func iphone(_ more: String) async throws -> String? {
            try await ScriptRun(text + more, seed: 1).run(under: PhoneRules()).last { $0.hasPrefix("iphone") }
        }
        #expect(try await iphone("") == "iphone (ios, alice): 1; one “The first”, two “The second”")
        #expect(try await iphone("open iphone") == "iphone (ios, alice): 1; two “The second”")
        #expect(try await iphone("notify alice three X") == "iphone (ios, alice): 2; two “The second”, three “X”")
    }

    @Test("one seed gives one result, and another gives another")
    func seeds() async throws {
        let text = Self.phones + "random 60\non iphone\non ipad\non pixel\nwait 1m\nopen iphone\nopen ipad\nopen pixel\n"
        let first = try await ScriptRun(text, seed: 7).run(under: PhoneRules())
        #expect(try await ScriptRun(text, seed: 7).run(under: PhoneRules()) == first)
        #expect(try await ScriptRun(text, seed: 8).run(under: PhoneRules()) != first)
    }

    @Test("every line that can't be read is told, with its number")
    func mistakes() {
        let error = #expect(throws: Mistake.self) {
            try ScriptRun(
                "phone x\nfly\nphone a ios alice\nphone a ios alice\nread a one\nread page:bob one\nwait 5\nrandom 0", seed: 1)
        }
        let lines = error?.sentence.split(separator: "\n").map { String($0) } ?? []
        #expect(lines.map { $0.prefix(7) } == ["Line 1:", "Line 2:", "Line 4:", "Line 5:", "Line 6:", "Line 7:", "Line 8:"])
        #expect(lines.first == "Line 1: The step is written: phone NAME ios|android USER [without-extension]")
    }
}
