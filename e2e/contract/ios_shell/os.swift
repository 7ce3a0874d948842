// The system's log.
public enum OSLogPrivacy { case `public`, `private` }

public struct OSLogInterpolation: StringInterpolationProtocol {
    var text = ""
    public init(literalCapacity: Int, interpolationCount: Int) {}
    public mutating func appendLiteral(_ literal: String) { text += literal }
    public mutating func appendInterpolation(_ argument: @autoclosure @escaping () -> String, privacy: OSLogPrivacy = .private) {
        text += privacy == .public ? argument() : "<private>"
    }
}

public struct OSLogMessage: ExpressibleByStringInterpolation {
    let text: String
    public init(stringInterpolation: OSLogInterpolation) { text = stringInterpolation.text }
    public init(stringLiteral value: String) { text = value }
}

public struct Logger: Sendable {
    let name: String
    public init(subsystem: String, category: String) { name = "\(subsystem) \(category)" }
    public func error(_ message: OSLogMessage) { print("\(name): \(message.text)") }
}
