import NIOCore

/// The open streams of one connection, in the order in which they were opened. A client's stream ids are 1, 3, 5 …
/// (RFC 9113 section 5.1.1), so a ring with a first id holds them without hashing, and the oldest is always in front.
struct StreamTable {
    private var ring: CircularBuffer<HTTP2Exchange?> = []
    /// The id of the ring's first slot.
    private var firstID = 1
    private(set) var count = 0

    /// The id of the next stream.
    var nextID: Int { firstID + 2 * ring.count }

    /// - Returns: the id of the exchange's stream.
    mutating func open(_ exchange: HTTP2Exchange) -> Int {
        let id = nextID
        ring.append(exchange)
        count += 1
        return id
    }

    subscript(id: Int) -> HTTP2Exchange? {
        guard let index = index(of: id) else { return nil }
        return ring[index]
    }

    /// Closes a stream and returns its exchange; nil when it isn't open.
    mutating func close(_ id: Int) -> HTTP2Exchange? {
        guard let index = index(of: id), let exchange = ring[index] else { return nil }
        ring[index] = nil
        count -= 1
        dropClosedFront()
        return exchange
    }

    /// The oldest open stream.
    var oldest: (id: Int, exchange: HTTP2Exchange)? {
        guard let exchange = ring.first ?? nil else { return nil }
        return (firstID, exchange)
    }

    /// Closes every stream above `id`.
    mutating func closeAll(above id: Int) -> [HTTP2Exchange] {
        var closed: [HTTP2Exchange] = []
        var position = ring.startIndex
        var streamID = firstID
        while position < ring.endIndex {
            if streamID > id, let exchange = ring[position] {
                closed.append(exchange)
                ring[position] = nil
            }
            streamID += 2
            position = ring.index(after: position)
        }
        count -= closed.count
        dropClosedFront()
        return closed
    }

    private func index(of id: Int) -> CircularBuffer<HTTP2Exchange?>.Index? {
        let offset = (id - firstID) / 2
        guard id >= firstID, offset < ring.count else { return nil }
        return ring.index(ring.startIndex, offsetBy: offset)
    }

    private mutating func dropClosedFront() {
        while let first = ring.first, first == nil {
            ring.removeFirst()
            firstID += 2
        }
    }
}
