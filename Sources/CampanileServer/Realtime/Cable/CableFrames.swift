import NIOCore

/// The frames that are made of a piece of news, each once for an identifier: the connections of one page's readers share the
/// identifier, and get the same bytes. On the cable's thread only.
final class CableFrames {
    private struct Entry {
        let identifier: [UInt8]
        var frames: [ByteBuffer?]
    }

    private var entries: [Entry] = []
    /// Which entry gives way to the next identifier when there are too many.
    private var oldest = 0

    /// The frames of these news, kept with them.
    static func of(_ news: StreamNews) -> CableFrames {
        if let known = news.cableFrames as? CableFrames { return known }
        let made = CableFrames()
        news.cableFrames = made
        return made
    }

    func frame(_ message: Int, of news: StreamNews, under identifier: [UInt8]) -> ByteBuffer {
        let index = entry(identifier, news)
        if let known = entries[index].frames[message] { return known }
        let text = CableText.news(news.messages[message], kind: news.kind, identifier: identifier)
        let made = WebSocketFrameWriter.text(text)
        entries[index].frames[message] = made
        return made
    }

    private func entry(_ identifier: [UInt8], _ news: StreamNews) -> Int {
        if let known = entries.firstIndex(where: { $0.identifier == identifier }) { return known }
        let made = Entry(identifier: identifier, frames: Array(repeating: nil, count: news.messages.count))
        guard entries.count >= Limits.cableSharedIdentifiers else {
            entries.append(made)
            return entries.count - 1
        }
        defer { oldest = (oldest + 1) % entries.count }
        entries[oldest] = made
        return oldest
    }
}
