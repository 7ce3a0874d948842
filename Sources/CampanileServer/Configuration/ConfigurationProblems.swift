/// All problems of a configuration, reported together, for the person who wrote it.
///
/// The description gives each problem's place and the right form. It never contains a secret, or the text of a file.
package struct ConfigurationProblems: Error, Sendable, Equatable, CustomStringConvertible {
    /// In the order of the file's lines, then the environment's names, then the flags. Never empty.
    package let problems: [Problem]

    package struct Problem: Sendable, Equatable, CustomStringConvertible {
        package let origin: Origin
        /// A sentence without its full stop, that names the setting.
        package let message: String

        package var description: String { "\(origin): \(message)" }
    }

    /// The place of a value.
    package enum Origin: Sendable, Hashable, CustomStringConvertible {
        /// A line of the configuration file, from 1; without one, the file as a whole.
        case file(String, line: Int?)
        /// An environment variable.
        case environment(String)
        /// A flag of the command line, with its dashes.
        case flag(String)

        package var description: String {
            switch self {
            case .file(let path, .some(let line)): "\(path):\(line)"
            case .file(let path, .none): path
            case .environment(let name), .flag(let name): name
            }
        }
    }

    init(_ found: [Problem]) {
        problems = found.enumerated()
            .sorted { Self.rank($0) < Self.rank($1) }
            .map(\.element)
    }

    package var description: String {
        let count = problems.count == 1 ? "a problem" : "\(problems.count) problems"
        let head = "The configuration has \(count):"
        return ([head] + problems.map { "  \($0)" }).joined(separator: "\n")
    }

    /// The order of a report. Problems at one place keep the order in which they were found.
    private static func rank(_ found: (offset: Int, element: Problem)) -> (Int, Int, String, Int) {
        switch found.element.origin {
        case .file(_, let line): (0, line ?? 0, "", found.offset)
        case .environment(let name): (1, 0, name, found.offset)
        case .flag(let name): (2, 0, name, found.offset)
        }
    }
}
