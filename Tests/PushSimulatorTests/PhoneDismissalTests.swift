import Foundation
import PushSimulator
import Testing

/// Pushes take notifications off a phone's notification centre when code of the app's is there to do it.
@Suite struct PhoneDismissalTests {
    private static func id(_ number: Int) -> String { "01900000-0000-7000-8000-00000000000\(number)" }

    /// An alert of the notification with a number, with more keys beside `aps`.
    private static func alert(_ number: Int, _ more: String = "", mutable: Bool = false, version: Int = 1) -> String {
        #"{"aps":{"alert":{"title":"\#(number)","body":"b"},"badge":\#(number)\#(mutable ? #","mutable-content":1"# : "")},"#
            + #""id":"\#(id(number))","badgeVersion":\#(version)\#(more)}"#
    }

    private static func badge(_ number: Int, _ more: String) -> String {
        #"{"aps":{"badge":\#(number),"content-available":1},"badgeVersion":1\#(more)}"#
    }

    private struct Scene {
        let fixture: Fixture
        let sender: Sender
        let access: String

        func push(_ payload: String) async throws {
            #expect(try await sender.answer(fixture.push(payload: payload)).verdict == "200")
        }

        func message(_ parts: String) async throws {
            let body = #"{"message":{"token":"d1",\#(parts)}}"#
            #expect(try await sender.answer(fixture.message(body, token: access)).status == 200)
        }

        /// The titles that a phone shows.
        func shows(_ token: String = Fixture.token) -> [String] {
            fixture.simulator.device(token)?.notifications.map(\.title) ?? ["no phone"]
        }
    }

    private static func run(
        _ change: (inout SimulatorOptions) -> Void = { _ in }, _ body: (Scene) async throws -> Void
    ) async throws {
        try await withSimulator(change) { fixture in
            let sender = try await fixture.connect()
            try await body(Scene(fixture: fixture, sender: sender, access: try await fixture.accessToken(sender)))
        }
    }

    @Test("a badge push that wakes the app takes away what it names, one by one or up to one")
    func woken() async throws {
        try await Self.run { scene in
            for number in 1...4 { try await scene.push(Self.alert(number)) }
            try await scene.push(Self.badge(3, #","dismissed":["\#(Self.id(2))"]"#))
            #expect(scene.shows() == ["1", "3", "4"])
            try await scene.push(Self.badge(1, #","dismissedThrough":"\#(Self.id(3))""#))
            #expect(scene.shows() == ["4"])
        }
    }

    @Test("iOS wakes no app that its user ended, nor more often than its budget; the number changes all the same")
    func notWoken() async throws {
        try await Self.run({ $0.phoneRules.backgroundBudget = 1 }) { scene in
            for number in 1...4 { try await scene.push(Self.alert(number)) }
            scene.fixture.simulator.change(Fixture.token, PhoneChange(isStopped: true))
            try await scene.push(Self.badge(3, #","dismissed":["\#(Self.id(1))"]"#))
            #expect(scene.shows().count == 4 && scene.fixture.simulator.device(Fixture.token)?.badge == 3)
            scene.fixture.simulator.change(Fixture.token, PhoneChange(isInForeground: true))
            scene.fixture.simulator.change(Fixture.token, PhoneChange(isInForeground: false))
            try await scene.push(Self.badge(3, #","dismissed":["\#(Self.id(1))"]"#))
            try await scene.push(Self.badge(2, #","dismissed":["\#(Self.id(2))"]"#))
            #expect(scene.shows() == ["2", "3", "4"])
            scene.fixture.clock.advance(minutes: 60)
            try await scene.push(Self.badge(2, #","dismissed":["\#(Self.id(2))"]"#))
            #expect(scene.shows() == ["3", "4"])
            #expect(scene.fixture.simulator.device(Fixture.token)?.wakes == 2)
        }
    }

    @Test("an alert's extension takes away without any budget, also where the user ended the app; without one nothing does")
    func extensions() async throws {
        try await Self.run({ $0.phoneRules.backgroundBudget = 0 }) { scene in
            for number in 1...3 { try await scene.push(Self.alert(number)) }
            scene.fixture.simulator.change(Fixture.token, PhoneChange(isStopped: true))
            try await scene.push(Self.alert(4, #","dismissed":["\#(Self.id(1))"]"#, mutable: true))
            #expect(scene.shows() == ["2", "3", "4"])
            scene.fixture.simulator.change(Fixture.token, PhoneChange(hasExtension: false))
            try await scene.push(Self.alert(5, #","dismissed":["\#(Self.id(2))"]"#, mutable: true))
            #expect(scene.shows() == ["2", "3", "4", "5"])
        }
    }

    @Test("an alert that comes after its entry was handled is passive in the background, and not shown in the foreground")
    func late() async throws {
        try await Self.run { scene in
            try await scene.push(Self.badge(1, #","dismissedThrough":"\#(Self.id(3))""#))
            try await scene.push(Self.alert(2, mutable: true))
            #expect(scene.fixture.simulator.device(Fixture.token)?.notifications.map(\.alert.interruptionLevel) == ["passive"])
            scene.fixture.simulator.change(Fixture.token, PhoneChange(isInForeground: true))
            try await scene.push(Self.alert(3, mutable: true))
            #expect(scene.shows() == ["2"])
        }
    }

    @Test("what waits for an iPhone that is off is the newest push, or all of them", arguments: PhoneRules.Stored.allCases)
    func stored(_ stored: PhoneRules.Stored) async throws {
        try await Self.run({ $0.phoneRules.stored = stored }) { scene in
            try await scene.push(Self.alert(1))
            scene.fixture.simulator.setOnline(Fixture.token, false)
            try await scene.push(Self.alert(2, #","dismissed":["\#(Self.id(1))"]"#, mutable: true))
            try await scene.push(Self.alert(3))
            scene.fixture.simulator.setOnline(Fixture.token, true)
            #expect(scene.shows() == (stored == .one ? ["1", "3"] : ["2", "3"]))
        }
    }

    @Test("Android: a message of data takes away; it waits while the phone sleeps, and nothing comes to an app that was stopped")
    func android() async throws {
        try await Self.run { scene in
            func alert(_ number: Int, _ more: String = "") async throws {
                try await scene.message(
                    #""notification":{"title":"\#(number)"},"data":{"id":"\#(Self.id(number))"\#(more)},"#
                        + #""android":{"notification":{"tag":"\#(number)"}}"#)
            }
            for number in 1...4 { try await alert(number) }
            let dismiss = { (number: Int) in
                try await scene.message(#""data":{"type":"dismiss","dismissed":"\#(Self.id(number)),x"}"#)
            }
            try await dismiss(1)
            #expect(scene.shows("d1") == ["2", "3", "4"])
            #expect(scene.fixture.simulator.device("d1")?.badge == 3, "the launcher counts")
            scene.fixture.simulator.change("d1", PhoneChange(isAsleep: true))
            try await dismiss(2)
            // The system draws it, and no code of the app's runs.
            try await alert(5, #","dismissed":"\#(Self.id(3))""#)
            #expect(scene.shows("d1") == ["2", "3", "4", "5"])
            scene.fixture.simulator.change("d1", PhoneChange(isAsleep: false))
            #expect(scene.shows("d1") == ["3", "4", "5"])
            scene.fixture.simulator.change("d1", PhoneChange(isStopped: true))
            try await dismiss(3)
            scene.fixture.simulator.change("d1", PhoneChange(isInForeground: true))
            #expect(scene.shows("d1") == ["3", "4", "5"])
        }
    }

    @Test(
        "Android: an app that shows nothing for a message of high priority is demoted, and gets the next ones when the phone wakes"
    )
    func demoted() async throws {
        try await Self.run { scene in
            func drawn(_ number: Int, _ more: String = "") async throws {
                try await scene.message(
                    #""data":{"id":"\#(Self.id(number))","alert":"{\"title\":\"\#(number)\"}"\#(more)},"android":{"priority":"high"}"#
                )
            }
            scene.fixture.simulator.addDevice("d1", platform: .android)
            scene.fixture.simulator.change("d1", PhoneChange(isAsleep: true))
            try await drawn(1)
            #expect(scene.shows("d1") == ["1"])
            try await drawn(2, #","dismissed":"\#(Self.id(2)),\#(Self.id(1))""#)
            #expect(scene.shows("d1") == [] && scene.fixture.simulator.device("d1")?.isDemoted == true)
            try await drawn(3)
            #expect(scene.shows("d1") == [])
            scene.fixture.simulator.change("d1", PhoneChange(isAsleep: false))
            #expect(scene.shows("d1") == ["3"])
        }
    }

    @Test("an app that is installed again shows nothing, and has another token; the old one is dead")
    func reinstalled() async throws {
        try await Self.run { scene in
            try await scene.push(Self.alert(1))
            let newToken = String(repeating: "cd", count: 32)
            scene.fixture.simulator.reinstall(Fixture.token, as: newToken)
            #expect(scene.shows(newToken) == [] && scene.shows() == [])
            let verdict = try await scene.sender.answer(scene.fixture.push(payload: Self.alert(2))).verdict
            #expect(verdict == "410 Unregistered")
        }
    }

    @Test("an app in the foreground removes what the server calls handled, and sets no number that is older than its own")
    func reconciled() async throws {
        try await Self.run { scene in
            for number in 1...3 { try await scene.push(Self.alert(number, version: 5)) }
            scene.fixture.simulator.reconcile(Fixture.token, handled: [Self.id(1), "x"], number: 2, version: 6)
            #expect(scene.shows() == ["2", "3"] && scene.fixture.simulator.device(Fixture.token)?.badge == 2)
            scene.fixture.simulator.reconcile(Fixture.token, handled: [Self.id(2)], number: 0, version: 5)
            #expect(scene.shows() == ["3"] && scene.fixture.simulator.device(Fixture.token)?.badge == 2)
        }
    }
}
