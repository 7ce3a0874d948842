/// The owner of work on a shared thread.
enum TurnOwner: Hashable, Sendable {
    /// All connections that one user's tokens opened.
    case user(UserKey)
    /// All connections without a user, for what they hear of this user's stream: a signed name has no other owner.
    case visitors(of: UserKey)
    /// All connections without a user, for what they hear of one of an app's own streams.
    case audience(of: BroadcastStream)
    /// All connections without a user, for what they say.
    case strangers
}

/// The work that waits for a shared thread. The owners take turns, one item each: an owner with many items delays only
/// itself, and others wait for at most one item of each.
struct TurnQueue<Item> {
    private var lines: [TurnOwner: Line<Item>] = [:]
    /// The owners that have something waiting, each once.
    private var round = Line<TurnOwner>()

    var isEmpty: Bool { round.isEmpty }

    mutating func add(_ item: Item, of owner: TurnOwner) {
        if let index = lines.index(forKey: owner) {
            lines.values[index].append(item)
        } else {
            lines[owner] = Line(item)
            round.append(owner)
        }
    }

    /// The next item of the owner whose turn it is.
    mutating func next() -> Item? {
        guard let owner = round.popFirst(), let index = lines.index(forKey: owner) else { return nil }
        let item = lines.values[index].popFirst()
        if lines.values[index].isEmpty { lines.remove(at: index) } else { round.append(owner) }
        return item
    }
}

/// First in, first out.
struct Line<Element> {
    /// Nil is what has left.
    private var elements: [Element?] = []
    private var start = 0

    init() {}

    init(_ element: Element) { elements = [element] }

    var isEmpty: Bool { start == elements.count }

    /// The first element.
    var first: Element? { start < elements.count ? elements[start] : nil }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard start < elements.count else { return nil }
        let element = elements[start]
        elements[start] = nil
        start += 1
        if start == elements.count {
            self = Line()
        } else if start >= 32, start * 2 >= elements.count {
            // Seldom enough that each element is moved once at most, by and large.
            elements.removeFirst(start)
            start = 0
        }
        return element
    }
}
