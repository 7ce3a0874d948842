import CampanileCore
import HTTPEngine

/// `GET /client`: what the User-Agent of the request announces, the server's twin of Rails' `hotwire_native_app?`.
struct ClientResource: Sendable {
    let nativeRequests: NativeRequests

    func get(_ request: Request) throws -> Answer {
        let client = AnnouncedClient(
            Array((request.header("user-agent") ?? "").utf8), isNative: nativeRequests.isNative(request),
            marks: nativeRequests.configured)
        var response = Response.json(200, client.json)
        response.add("Vary", "User-Agent")
        return .now(response)
    }
}

/// A client as its User-Agent tells of it. Hotwire Native writes
/// `MyApp/42; Hotwire Native iOS; Turbo Native iOS; bridge-components: [badge form]`, with the app's own words first, behind the
/// system's `Mozilla/5.0 (…) AppleWebKit/605.1.15 (KHTML, like Gecko)` on iOS and before it on Android.
struct AnnouncedClient: Equatable {
    let isNative: Bool
    /// Told of native clients only, as is the app.
    let platform: DevicePlatform?
    let app: String?
    let appVersion: String?
    let bridgeComponents: [String]

    /// - Parameter marks: the configured ones, which show the place of an app's name.
    init<Bytes: RandomAccessCollection>(_ userAgent: Bytes, isNative: Bool, marks: [[UInt8]])
    where Bytes.Element == UInt8, Bytes.Index == Int {
        let text = UserAgentText(bytes: userAgent)
        let product = isNative ? text.product(markedBy: marks) : nil
        self.isNative = isNative
        bridgeComponents = text.bridgeComponents
        platform = isNative ? text.platform : nil
        app = product?.name
        appVersion = product?.version
    }

    var json: JSONValue {
        .object([
            .init("native", .bool(isNative)), .init("platform", platform.map { .string($0.rawValue) } ?? .null),
            .init("app", app.map { .string($0) } ?? .null), .init("app_version", appVersion.map { .string($0) } ?? .null),
            .init("bridge_components", .array(bridgeComponents.map { .string($0) })),
        ])
    }
}

/// The bytes of a User-Agent. Anybody may send 16 KiB of whatever they like: a question costs a few looks at each byte at most.
private struct UserAgentText<Bytes: RandomAccessCollection> where Bytes.Element == UInt8, Bytes.Index == Int {
    let bytes: Bytes

    /// The first place of a text.
    private func first(_ text: some Collection<UInt8>, from start: Int? = nil) -> Int? {
        guard let head = text.first else { return nil }
        let start = start ?? bytes.startIndex
        // The first byte alone decides most places.
        return (start..<max(start, bytes.endIndex - text.count + 1)).first { place in
            bytes[place] == head && bytes[place...].starts(with: text)
        }
    }

    private func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    /// Behind the first `bridge-components: [`, up to the next `]`.
    var bridgeComponents: [String] {
        let mark = "bridge-components: [".utf8
        guard let start = first(mark).map({ $0 + mark.count }), let end = first("]".utf8, from: start) else { return [] }
        return words(in: start..<end, atMost: Limits.bridgeComponents).map { text($0.range) }
    }

    /// By Hotwire's own words, wherever they stand; else by those of the systems' plain HTTP clients.
    var platform: DevicePlatform? {
        let words: [(DevicePlatform, [String])] = [
            (.ios, ["Hotwire Native iOS", "Turbo Native iOS"]), (.android, ["Hotwire Native Android", "Turbo Native Android"]),
            (.ios, ["CFNetwork/", "iPhone", "iPad"]), (.android, ["Android", "okhttp/"]),
        ]
        return words.first { $0.1.contains { first($0.utf8) != nil } }?.0
    }

    // MARK: The app's own product

    /// Reads the product where a configured mark stands; else before Hotwire's words, or at the beginning of a plain HTTP
    /// client's text.
    func product(markedBy marks: [[UInt8]]) -> (name: String, version: String?)? {
        for mark in marks {
            if let place = first(mark), let product = product(at: place, mark) { return product }
        }
        let end = [first("Hotwire Native".utf8), first("Turbo Native".utf8)].compactMap(\.self).min()
        let own = ownWords(words(in: bytes.startIndex..<(end ?? bytes.endIndex)))
        return product(of: end == nil ? Array(own.prefix(1)) : own)
    }

    /// The product whose name a mark stands in. The mark may hold spaces, and the name ends with it at the earliest; what
    /// separates words at its ends is no part of the name.
    private func product(at place: Int, _ mark: [UInt8]) -> (name: String, version: String?)? {
        guard let head = mark.firstIndex(where: { !isSeparator($0) }), let tail = mark.lastIndex(where: { !isSeparator($0) })
        else { return nil }
        let start = bytes[..<(place + head)].lastIndex { isSeparator($0) }.map { $0 + 1 } ?? bytes.startIndex
        let certain = place + (mark.firstIndex(of: UInt8(ascii: "/")) ?? tail + 1)
        let nameEnd = bytes[certain...].firstIndex { isSeparator($0) || $0 == UInt8(ascii: "/") } ?? bytes.endIndex
        guard nameEnd > start else { return nil }
        guard nameEnd < bytes.endIndex, bytes[nameEnd] == UInt8(ascii: "/") else { return (text(start..<nameEnd), nil) }
        let end = bytes[nameEnd...].firstIndex(where: isSeparator) ?? bytes.endIndex
        return (text(start..<nameEnd), end == nameEnd + 1 ? nil : text(nameEnd + 1..<end))
    }

    /// A name of one or several words; the last of them has the version behind a slash, if there is one.
    private func product(of words: [Word]) -> (name: String, version: String?)? {
        var name: [String] = []
        for word in words {
            guard let slash = bytes[word.range].lastIndex(of: UInt8(ascii: "/")) else {
                name.append(text(word.range))
                continue
            }
            let version = slash + 1 == word.range.upperBound ? nil : text(slash + 1..<word.range.upperBound)
            if slash > word.range.lowerBound { name.append(text(word.range.lowerBound..<slash)) }
            return name.isEmpty ? version.map { ($0, nil) } : (name.joined(separator: " "), version)
        }
        return name.isEmpty ? nil : (name.joined(separator: " "), nil)
    }

    private struct Word {
        let range: Range<Int>
        /// The number of semicolons before it.
        let section: Int
    }

    /// The words of a part of the text without its comments, which may hold others (RFC 9110 section 5.6.5).
    private func words(in part: Range<Int>, atMost limit: Int = .max) -> [Word] {
        var words: [Word] = []
        var (depth, section, start) = (0, 0, part.lowerBound)
        func end(at index: Int) {
            if depth == 0, start < index { words.append(Word(range: start..<index, section: section)) }
            start = index + 1
        }
        for index in part where words.count < limit {
            let byte = bytes[index]
            guard isSeparator(byte) else { continue }
            end(at: index)
            switch byte {
            case UInt8(ascii: "("): depth += 1
            case UInt8(ascii: ")"): depth = max(0, depth - 1)
            case UInt8(ascii: ";") where depth == 0: section += 1
            default: break
            }
        }
        if words.count < limit { end(at: part.upperBound) }
        return words
    }

    private func isSeparator(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: ";"), UInt8(ascii: "("), UInt8(ascii: ")"): true
        default: false
        }
    }

    /// The app's words among those of its system: before a browser's, or behind them, and of one product.
    private func ownWords(_ words: [Word]) -> [Word] {
        func begins(_ word: Word, _ beginnings: [String]) -> Bool {
            beginnings.contains { bytes[word.range].starts(with: $0.utf8) }
        }
        var own = words[...]
        if let browser = words.firstIndex(where: { begins($0, ["Mozilla/"]) }) {
            // Mobile with a build of WebKit, which has been this one since iOS 11.3: an app may be called Mobile.
            let theirs = ["Mozilla/", "AppleWebKit/", "Version/", "Mobile/15E148", "Safari/", "Chrome/"]
            let last = words.lastIndex { begins($0, theirs) } ?? browser
            own = browser > 0 ? words[..<browser] : words[(last + 1)...]
        }
        own = own.drop { begins($0, ["CFNetwork/", "Darwin/", "okhttp/", "Dalvik/"]) }
        return own.filter { $0.section == own.first?.section }
    }
}
