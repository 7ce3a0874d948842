import CampanileCore

/// A message of an app's own to everybody who listens to one of its streams.
struct Broadcast: Sendable, Equatable {
    let stream: String
    /// The sender's name for it. It goes once while it is kept; nil: each goes.
    let id: String?
    /// The JSON text that pages get as `message` (RFC 8259).
    let message: String
    /// The connection that doesn't get it, by the name that its welcome gave it; nil: all get it.
    var exceptSID: String?

    /// The stream of the commands to end a user's connections: no client can name it.
    static let commands = ""

    /// Returns it under another name.
    func named(_ id: String) -> Broadcast { Broadcast(stream: stream, id: id, message: message, exceptSID: exceptSID) }

    /// Its share of what an app may keep, in bytes.
    var bytes: Int { stream.utf8.count + (id?.utf8.count ?? 0) + message.utf8.count }
}

/// A broadcast in its app's series.
struct KeptBroadcast: Sendable, Equatable {
    /// Its place in the series.
    let offset: Int64
    let stream: String
    let message: String
    var exceptSID: String?
}

/// A command to end a user's connections, among an app's broadcasts.
struct CableDisconnect: Sendable, Equatable {
    let userID: String
    /// False: its client is told not to come back.
    let mayReturn: Bool

    init(userID: String, mayReturn: Bool) { (self.userID, self.mayReturn) = (userID, mayReturn) }

    /// Nil if a broadcast holds none.
    init?(_ broadcast: KeptBroadcast) {
        guard broadcast.stream == Broadcast.commands, let json = try? JSONValue(parsing: Array(broadcast.message.utf8)),
            case .string(let userID)? = json["user_id"], case .bool(let mayReturn)? = json["reconnect"]
        else { return nil }
        self.init(userID: userID, mayReturn: mayReturn)
    }

    var broadcast: Broadcast {
        let json = JSONValue.object([.init("user_id", .string(userID)), .init("reconnect", .bool(mayReturn))])
        return Broadcast(stream: Broadcast.commands, id: nil, message: String(decoding: json.text, as: UTF8.self))
    }
}

/// A place in an app's series of broadcasts.
struct BroadcastPosition: Sendable, Equatable {
    /// The name of the series: the offsets of another one say nothing in this one.
    let epoch: String
    /// The offset of the last broadcast before it.
    let offset: Int64
}

/// The time and the number of broadcasts that are kept for clients that come back (`broadcasts` in the configuration). Each app has as much.
package struct BroadcastKeeping: Sendable, Equatable {
    package var milliseconds: Int64 = 300_000
    package var perStream = 100
    package var bytes: Int64 = 64 * 1_024 * 1_024

    package init() {}
}

/// An app's series of broadcasts, as it is noted.
struct BroadcastSeries: Sendable, Equatable {
    let epoch: String
    var lastOffset: Int64
    /// Everything up to this offset was dropped, whatever its stream.
    var droppedThrough: Int64
    /// The last broadcast dropped of the streams that `broadcast_streams` has no row of any more.
    var forgotten: Dropped
    /// The bytes that are kept.
    var bytes: Int64

    var position: BroadcastPosition { BroadcastPosition(epoch: epoch, offset: lastOffset) }
}

/// A broadcast that is kept no more.
struct Dropped: Sendable, Equatable {
    let offset: Int64
    let at: Timestamp
}

/// Where a client says that it stands in a stream.
enum BroadcastPlace: Sendable, Equatable {
    case after(BroadcastPosition)
    /// A time: everything from it on is news to the client.
    case since(Timestamp)
}

/// Where a stream's listener goes on.
enum BroadcastStart: Sendable, Equatable {
    case after(Int64)
    /// Some of what it missed is kept no more, or its place is of another series.
    case lost
}

/// The broadcasts of an app after an offset, oldest first.
struct BroadcastNews: Sendable, Equatable {
    /// The app's series, as it was when they were read.
    var series: BroadcastSeries?
    var broadcasts: [KeptBroadcast]
    /// False if some of what came after the offset was dropped.
    var isWhole: Bool
}

/// A part of a stream's broadcasts, in order.
struct BroadcastPart: Sendable, Equatable {
    var broadcasts: [KeptBroadcast] = []
    /// Everything in the stream up to this offset is in it, or was before it.
    var through: Int64
    /// True if what came before it is kept no more.
    var hasGap = false
    /// False if more follows.
    var isWhole = true
}
