import CampanileCore
import HTTPEngine
import Synchronization

/// The kind of messages that a subscriber gets.
enum StreamKind: Int, CaseIterable, Sendable {
    /// The badge, as JSON.
    case badge
    /// The badge, as the HTML that Turbo renders.
    case badgeTurbo
    /// Everything that happens, the badge with it.
    case notifications
    /// An app's messages to a stream of its own.
    case broadcast

    /// The kinds that an inbox has.
    static let ofInboxes: [StreamKind] = [.badge, .badgeTurbo, .notifications]

    /// True if the newest batches contain everything in older ones, so that a subscriber without those needs only these.
    var isAbsolute: Bool { self == .badge || self == .badgeTurbo }
}

/// One message to a subscriber.
struct StreamMessage: Sendable {
    /// `badge`, `notification.created`, …; the type of a server-sent event, and the word in a cable's message.
    let event: String
    /// The badge's version on a stream of badges, a broadcast's offset, else the event's sequence.
    let id: Int64
    /// JSON, or for `badgeTurbo` HTML. One line.
    let data: [UInt8]
    /// The cable connection that doesn't get it; nil: all do.
    var exceptSID: String?
}

/// The answer to a client that asked for what it missed: its event in a batch of broadcasts.
enum HistoryReply: String, Sendable, CaseIterable {
    /// It has all of it.
    case confirmed = "confirm_history"
    /// Some of it is kept no more.
    case rejected = "reject_history"

    /// The outcome in metrics.
    var word: String { self == .confirmed ? "confirmed" : "rejected" }
}

/// Messages for all subscribers of one kind.
///
/// Sendable: the messages never change; `eventStream` is made and read on the hub's thread only.
final class EventBatch: @unchecked Sendable {
    private static let numbers = Atomic<UInt64>(0)

    /// No other batches have or had it.
    let number = EventBatch.numbers.add(1, ordering: .relaxed).newValue
    let kind: StreamKind
    let messages: [StreamMessage]
    /// The stream and the epoch of broadcasts, for clients that come back; nil for all else.
    let series: (stream: ExactText, epoch: String)?
    /// The cost of keeping them, about: the bytes of their data, and a little for each.
    let bytes: Int

    init(_ kind: StreamKind, _ messages: [StreamMessage], series: (stream: ExactText, epoch: String)? = nil) {
        self.kind = kind
        self.messages = messages
        self.series = series
        bytes = messages.reduce(0) { $0 + $1.data.count + 64 }
    }

    convenience init(_ broadcasts: [KeptBroadcast], of stream: ExactText, _ epoch: String) {
        self.init(
            .broadcast,
            broadcasts.map {
                StreamMessage(event: "message", id: $0.offset, data: Array($0.message.utf8), exceptSID: $0.exceptSID)
            },
            series: (stream, epoch))
    }

    convenience init(_ reply: HistoryReply) {
        self.init(.broadcast, [StreamMessage(event: reply.rawValue, id: 0, data: [])])
    }

    /// The messages as server-sent events: made once, sent to thousands.
    private(set) lazy var eventStream = StreamBytes(ServerSentEvents.text(kind, messages))
}

/// The reason why the server ends a stream.
enum StreamEnd: Sendable, Equatable {
    /// The token that opened it has ended.
    case expired
    /// The user's tokens were revoked.
    case revoked
    /// The server stops, and another one will be there soon.
    case restarting
    /// It has lived long enough: so that clients spread over the servers of a house with several.
    case lifetime
    /// The app asked for it.
    case remote(mayReturn: Bool)
    /// The server can't keep up, or can't read the events.
    case overloaded
}

/// Receives an inbox's messages. Called on the hub's thread, and must not block.
protocol Subscriber: AnyObject, Sendable {
    /// Batches come in order and without a gap; the first one is the present state.
    func deliver(_ batch: EventBatch)
    /// False while so many broadcasts wait for the client that others had better wait too.
    var hasRoom: Bool { get }
    /// No batch follows.
    func end(_ reason: StreamEnd)
}

/// A subscription at the hub.
protocol StreamSubscription: AnyObject, Sendable {
    /// Ends it. A batch that is on its way may still arrive.
    func cancel()
    /// The client has taken everything that was delivered.
    func drained()
}

extension Subscriber {
    var hasRoom: Bool { true }
}

extension StreamSubscription {
    func drained() {}
}

/// One connection with its subscribers, as long as its user may have it.
protocol StreamSession: AnyObject, Sendable {
    /// Nil for a connection that only signed names give anything to.
    var user: StreamUser? { get }
    /// Monotonic nanoseconds at which it has lived long enough.
    var endsAt: UInt64 { get }
    /// On the hub's thread.
    func end(_ reason: StreamEnd)
}
