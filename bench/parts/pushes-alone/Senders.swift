import AsyncHTTPClient
import CampanileCore
import Glibc
import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOPosix
import NIOSSL
import Push

/// The product's client, with the settings that it has for Apple, and one connection.
struct OwnClient: Sender {
    let order: Order
    let client: HTTP2Client
    let authority: String

    init(_ order: Order) throws {
        self.order = order
        let endpoint = try HTTP2Endpoint(url: order.url)
        authority = endpoint.name
        var limits = HTTP2Limits()
        limits.connections = 1
        limits.startsWithOneStream = true
        let world = World(
            now: { Timestamp(milliseconds: Int64(PushesAlone.seconds(CLOCK_REALTIME) * 1_000)) },
            monotonic: { Int64(PushesAlone.seconds(CLOCK_BOOTTIME) * 1e9) }, random: { UInt64.random(in: 0 ... .max) })
        client = HTTP2Client(
            endpoint: endpoint, limits: limits, network: try PushNetwork(trust: .authorities(pem: order.authorities)),
            world: world)
    }

    func send(from first: Int, count: Int) async throws {
        try await Course.run(from: first, count: count) { number, done in
            client.send(HTTP2Request(headers: headers(number), body: order.body)) { result in
                switch result {
                case .answer(let answer): done(answer.status == 200 ? nil : NotAccepted(why: "status \(answer.status)"))
                case .failure(let failure): done(NotAccepted(why: failure.reason))
                }
            }
        }
    }

    private func headers(_ number: Int) -> HPACKHeaders {
        var headers = HPACKHeaders()
        headers.reserveCapacity(9)
        headers.add(name: ":method", value: "POST")
        headers.add(name: ":scheme", value: "https")
        headers.add(name: ":authority", value: authority)
        headers.add(name: ":path", value: order.path(number), indexing: .nonIndexable)
        headers.add(name: "authorization", value: "bearer " + order.providerToken, indexing: .nonIndexable)
        headers.add(name: "apns-id", value: order.id(number), indexing: .nonIndexable)
        headers.add(name: "apns-push-type", value: "alert", indexing: .indexable)
        headers.add(name: "apns-topic", value: order.topic, indexing: .indexable)
        headers.add(name: "apns-priority", value: "10", indexing: .indexable)
        return headers
    }
}

/// async-http-client on one event loop, as the product's client has one.
private func otherClient(_ order: Order) throws -> HTTPClient {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(order.authorities))
    return HTTPClient(
        eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup(numberOfThreads: 1)),
        configuration: HTTPClient.Configuration(tlsConfiguration: tls))
}

extension Order {
    fileprivate func fields(_ number: Int) -> HTTPHeaders {
        [
            "authorization": "bearer " + providerToken, "apns-id": id(number), "apns-push-type": "alert", "apns-topic": topic,
            "apns-priority": "10",
        ]
    }
}

/// Its older interface, which calls back on the event loop, where the next push is sent.
struct OtherClient: Sender {
    let order: Order
    let client: HTTPClient

    init(_ order: Order) throws {
        self.order = order
        client = try otherClient(order)
    }

    func send(from first: Int, count: Int) async throws {
        try await Course.run(from: first, count: count) { number, done in
            do {
                let request = try HTTPClient.Request(
                    url: order.url + order.path(number), method: .POST, headers: order.fields(number),
                    body: .byteBuffer(order.body))
                client.execute(request: request, deadline: .now() + .seconds(20)).whenComplete { result in
                    switch result {
                    case .success(let answer): done(answer.status == .ok ? nil : NotAccepted(why: "status \(answer.status)"))
                    case .failure(let error): done(NotAccepted(why: "\(error)"))
                    }
                }
            } catch {
                done(NotAccepted(why: "\(error)"))
            }
        }
    }
}

/// Its newer interface: 500 tasks, each of which sends one push after the other.
struct OtherClientAsync: Sender {
    let order: Order
    let client: HTTPClient

    init(_ order: Order) throws {
        self.order = order
        client = try otherClient(order)
    }

    func send(from first: Int, count: Int) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for start in first..<min(first + count, first + Order.inFlight) {
                group.addTask {
                    for number in stride(from: start, to: first + count, by: Order.inFlight) { try await send(number) }
                }
            }
            try await group.waitForAll()
        }
    }

    private func send(_ number: Int) async throws {
        var request = HTTPClientRequest(url: order.url + order.path(number))
        request.method = .POST
        request.headers = order.fields(number)
        request.body = .bytes(order.body)
        let answer = try await client.execute(request, timeout: .seconds(20))
        _ = try await answer.body.collect(upTo: 16_384)
        guard answer.status == .ok else { throw NotAccepted(why: "status \(answer.status)") }
    }
}
