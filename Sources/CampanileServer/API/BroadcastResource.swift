import CampanileCore
import HTTPEngine

/// `/broadcasts` and `/_broadcast`: what an app sends to its own streams.
struct BroadcastResource: Sendable {
    let broadcasts: Broadcasts
    let pattern: StreamNamePattern
    let log: CableLog

    // MARK: POST /broadcasts

    func create(_ request: Request, _ sender: Broadcaster) throws -> Answer {
        let input = try BroadcastInput(of: request, pattern, Broadcast.plain)
        return .later {
            try await broadcasts.add(input.broadcasts, app: sender.app)
            return .json(202, .object([.init("accepted", .integer(Int64(input.broadcasts.count)))]))
        }
    }

    // MARK: GET /broadcasts/position

    func position(_ request: Request, _ sender: Broadcaster) throws -> Answer {
        .later {
            let position = try await broadcasts.position(of: sender.app)
            return .json(200, .object([.init("epoch", .string(position.epoch)), .init("offset", .integer(position.offset))]))
        }
    }

    // MARK: POST /_broadcast

    /// AnyCable's HTTP broadcaster drops a message at any status but 201, and waits 10 s for that.
    func takeAnyCables(_ request: Request, _ sender: Broadcaster) throws -> Answer {
        let input = try BroadcastInput(of: request, pattern, Broadcast.anyCable)
        if input.hasVainCommands { log.vainCommand() }
        if input.hasReserved { log.reservedStream() }
        guard !input.broadcasts.isEmpty else { return .later { Response(status: 201) } }
        return .later {
            try await broadcasts.addPatiently(input.broadcasts, app: sender.app)
            return Response(status: 201)
        }
    }
}
