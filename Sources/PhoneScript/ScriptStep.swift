import CampanileCore
import PushSimulator

/// One line of a script: docs/simulator.md lists them.
enum ScriptStep: Sendable {
    case phone(PhoneCard)
    /// A notification for a user, under a name of the script's, which is its external id.
    case notify(user: String, name: String, title: String, collapseKey: String?)
    case edit(name: String, title: String)
    case withdraw(name: String)
    case act(Actor, Action)
    case change(phone: String, PhoneChange)
    /// The app comes to the foreground, and its library asks the server what is handled.
    case open(phone: String)
    case reinstall(phone: String)
    /// Milliseconds.
    case wait(Int64)
    case show
    /// A number of steps by chance, by the script's users and phones.
    case random(Int)

    /// A phone as a script introduces it.
    struct PhoneCard: Sendable {
        let name: String
        let user: String
        let platform: PhonePlatform
        let hasExtension: Bool
    }

    /// Somebody who acts in the app: on a phone, which names itself, or on a page.
    enum Actor: Sendable, Hashable {
        case phone(String)
        case page(user: String)
    }

    enum Action: Sendable {
        case read(String)
        case unread(String)
        case delete(String)
        case readAll
        /// The first page of a native app's list.
        case look
    }
}

/// The steps of a script with their places, from its text.
struct Script: Sendable {
    let steps: [(line: Int, step: ScriptStep)]

    /// - Throws: `Mistake` with a sentence for each line that can't be read.
    init(_ text: String) throws {
        var steps: [(line: Int, step: ScriptStep)] = []
        var mistakes: [String] = []
        var names = ScriptNames()
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let words = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace).map(String.init)
            guard let verb = words.first else { continue }
            do {
                steps.append((index + 1, try names.step(verb, Array(words.dropFirst()))))
            } catch let mistake as Mistake {
                mistakes.append("Line \(index + 1): \(mistake.sentence)")
            }
        }
        if !mistakes.isEmpty { throw Mistake(mistakes.joined(separator: "\n")) }
        self.steps = steps
    }
}

/// The names that a script has introduced so far; a step may name no other.
struct ScriptNames {
    private var phones: Set<String> = []
    private var notifications: Set<String> = []
    private var users: Set<String> = []

    static let forms = [
        "phone": "phone NAME ios|android USER [without-extension]", "notify": "notify USER NAME [collapse=KEY] TITLE",
        "edit": "edit NAME TITLE", "withdraw": "withdraw NAME", "read": "read PHONE|page:USER NAME",
        "unread": "unread PHONE|page:USER NAME", "delete": "delete PHONE|page:USER NAME", "read_all": "read_all PHONE|page:USER",
        "look": "look PHONE", "off": "off PHONE", "on": "on PHONE", "end": "end PHONE", "open": "open PHONE",
        "close": "close PHONE",
        "sleep": "sleep PHONE", "wake": "wake PHONE", "reinstall": "reinstall PHONE", "wait": "wait 5s", "show": "show",
        "random": "random COUNT",
    ]

    mutating func step(_ verb: String, _ words: [String]) throws -> ScriptStep {
        guard let form = Self.forms[verb] else {
            throw Mistake("There is no step \(verb). The steps are \(Self.forms.keys.sorted().joined(separator: ", ")).")
        }
        let wrong = Mistake("The step is written: \(form)")
        switch (verb, words.count) {
        case ("phone", 3...4): return .phone(try card(words, wrong))
        case ("notify", 3...): return try notify(words, wrong)
        case ("edit", 2...):
            return .edit(name: try notification(words[0]), title: words.dropFirst().joined(separator: " "))
        case ("withdraw", 1): return .withdraw(name: try notification(words[0]))
        case ("read", 2): return .act(try actor(words[0]), .read(try notification(words[1])))
        case ("unread", 2): return .act(try actor(words[0]), .unread(try notification(words[1])))
        case ("delete", 2): return .act(try actor(words[0]), .delete(try notification(words[1])))
        case ("read_all", 1): return .act(try actor(words[0]), .readAll)
        case ("look", 1): return .act(.phone(try phone(words[0])), .look)
        case ("off", 1): return .change(phone: try phone(words[0]), PhoneChange(isOnline: false))
        case ("on", 1): return .change(phone: try phone(words[0]), PhoneChange(isOnline: true))
        case ("end", 1): return .change(phone: try phone(words[0]), PhoneChange(isStopped: true))
        case ("open", 1): return .open(phone: try phone(words[0]))
        case ("close", 1): return .change(phone: try phone(words[0]), PhoneChange(isInForeground: false))
        case ("sleep", 1): return .change(phone: try phone(words[0]), PhoneChange(isAsleep: true))
        case ("wake", 1): return .change(phone: try phone(words[0]), PhoneChange(isAsleep: false))
        case ("reinstall", 1): return .reinstall(phone: try phone(words[0]))
        case ("wait", 1): return .wait(try milliseconds(words[0], wrong))
        case ("show", 0): return .show
        case ("random", 1):
            guard let count = Int(words[0]), (1...1_000_000).contains(count), !phones.isEmpty else {
                throw Mistake("\(form), from 1 to 1000000, after the phones.")
            }
            return .random(count)
        default: throw wrong
        }
    }

    private mutating func card(_ words: [String], _ wrong: Mistake) throws -> ScriptStep.PhoneCard {
        guard let platform = PhonePlatform(rawValue: words[1]), words.count == 3 || words[3] == "without-extension" else {
            throw wrong
        }
        guard phones.insert(words[0]).inserted else { throw Mistake("There is a phone \(words[0]) already.") }
        users.insert(words[2])
        return ScriptStep.PhoneCard(name: words[0], user: words[2], platform: platform, hasExtension: words.count == 3)
    }

    private mutating func notify(_ words: [String], _ wrong: Mistake) throws -> ScriptStep {
        guard notifications.insert(words[1]).inserted else { throw Mistake("There is a notification \(words[1]) already.") }
        users.insert(words[0])
        let prefix = "collapse="
        let key = words[2].hasPrefix(prefix) ? String(words[2].dropFirst(prefix.count)) : nil
        let title = words.dropFirst(key == nil ? 2 : 3).joined(separator: " ")
        guard !title.isEmpty, key != "" else { throw wrong }
        return .notify(user: words[0], name: words[1], title: title, collapseKey: key)
    }

    private func phone(_ name: String) throws -> String {
        guard phones.contains(name) else { throw Mistake("There is no phone \(name) yet.") }
        return name
    }

    private func notification(_ name: String) throws -> String {
        guard notifications.contains(name) else { throw Mistake("There is no notification \(name) yet.") }
        return name
    }

    private func actor(_ name: String) throws -> ScriptStep.Actor {
        let prefix = "page:"
        guard name.hasPrefix(prefix) else { return .phone(try phone(name)) }
        let user = String(name.dropFirst(prefix.count))
        guard users.contains(user) else { throw Mistake("Nobody called \(user) has a phone or a notification yet.") }
        return .page(user: user)
    }

    private func milliseconds(_ text: String, _ wrong: Mistake) throws -> Int64 {
        let units: [(String, Int64)] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)]
        guard let (unit, factor) = units.first(where: { text.hasSuffix($0.0) }), let number = Int64(text.dropLast(unit.count)),
            (1...1_000_000).contains(number)
        else { throw wrong }
        return number * factor
    }
}
