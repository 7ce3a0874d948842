import Foundation

/// One event of a stream (WHATWG HTML, section 9.2).
struct ServerSentEvent: Hashable, Sendable {
    /// The id with which a client resumes.
    var id: String
    var name: String
    var data: Data
}

/// Parses `text/event-stream`, in pieces of any size.
struct EventStreamParser {
    /// The most bytes of one event.
    static let eventBytes = 1 << 20

    /// The id of the newest complete event.
    private(set) var lastEventID: String
    /// The wait before reconnecting that the server asked for.
    private(set) var retry: Duration?

    private var line: [UInt8] = []
    private var id: String
    private var name = ""
    private var data: [UInt8] = []
    private var hasData = false
    private var endedWithCR = false
    private var isAtStart = true

    init(lastEventID: String? = nil, retry: Duration? = nil) {
        self.lastEventID = lastEventID ?? ""
        id = self.lastEventID
        self.retry = retry
    }

    mutating func feed(_ bytes: Data) throws(ClientFailure) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        for byte in bytes {
            defer { endedWithCR = byte == 0x0D }
            switch byte {
            case 0x0A where endedWithCR: continue
            case 0x0A, 0x0D:
                if let event = endLine() { events.append(event) }
            default:
                line.append(byte)
                guard line.count + data.count <= EventStreamParser.eventBytes else {
                    throw ClientFailure(.unknown, detail: "an event of more than \(EventStreamParser.eventBytes) bytes")
                }
            }
        }
        return events
    }

    private mutating func endLine() -> ServerSentEvent? {
        defer { line.removeAll(keepingCapacity: true) }
        if isAtStart, line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        isAtStart = false
        guard !line.isEmpty else { return dispatch() }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
            field(line[...], [])
            return nil
        }
        var value = line[(colon + 1)...]
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        field(line[..<colon], value)
        return nil
    }

    private mutating func field(_ field: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) {
        switch String(decoding: field, as: UTF8.self) {
        case "event": name = String(decoding: value, as: UTF8.self)
        case "data":
            if hasData { data.append(0x0A) }
            data += value
            hasData = true
        case "id" where !value.contains(0): id = String(decoding: value, as: UTF8.self)
        case "retry":
            let isDigits = !value.isEmpty && value.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            guard isDigits, let milliseconds = Int64(String(decoding: value, as: UTF8.self)) else { return }
            retry = .milliseconds(milliseconds)
        default: return
        }
    }

    private mutating func dispatch() -> ServerSentEvent? {
        defer {
            name = ""
            data.removeAll(keepingCapacity: true)
            hasData = false
        }
        lastEventID = id
        guard hasData else { return nil }
        return ServerSentEvent(id: lastEventID, name: name.isEmpty ? "message" : name, data: Data(data))
    }
}
