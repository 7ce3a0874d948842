import Foundation
import TestSupport
import Testing

@testable import CampanileClient

@Suite("The image of an alert", .endsIfItHangs)
struct AlertImageTests {
    /// The code with which the fetch refuses the image; nil if it comes.
    private static func refusal(_ scene: Scene) async -> URLError.Code? {
        do {
            _ = try await scene.fetch.image(at: address)
            return nil
        } catch {
            return (error as? URLError)?.code ?? .unknown
        }
    }

    static let png = Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0x00])
    private static let address = URL.example("https://images.example.com/1")

    /// A fetch of what the transport answers, with a folder of its own for the files.
    private final class Scene: Sendable {
        let transport: ScriptedTransport
        let fetch: AlertImageFetch
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("campanile-\(UUID().uuidString)")

        /// - Parameter sleep: returns when the fetch's time is over; by default never.
        init(
            _ script: @escaping ScriptedTransport.StreamScript,
            sleep: @escaping @Sendable (Duration) async throws -> Void = { _ in try await Task.sleep(for: .seconds(86_400)) }
        ) throws {
            let transport = ScriptedTransport(streams: script)
            self.transport = transport
            fetch = AlertImageFetch(transport: transport, folder: folder, sleep: sleep)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        var files: [String] { (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [] }
    }

    /// - Parameter ends: false for a server that says nothing more and keeps the connection.
    private static func answer(
        _ pieces: [Data] = [AlertImageTests.png], status: Int = 200, type: String? = "image/png", headers: [String: String] = [:],
        ends: Bool = true, breaks: (any Error)? = nil
    ) -> HTTPStream {
        let (body, continuation) = AsyncThrowingStream.makeStream(of: Data.self, throwing: (any Error).self)
        for piece in pieces { continuation.yield(piece) }
        if ends { continuation.finish(throwing: breaks) }
        var headers = headers
        headers["content-type"] = type
        // Kept, because a stream ends when nobody can continue it.
        if !ends { unended.withLock { $0.append(continuation) } }
        return HTTPStream(status: status, headers: headers, body: body)
    }

    private static let unended = Locked<[AsyncThrowingStream<Data, any Error>.Continuation]>([])

    private static func redirection(_ location: String?, status: Int = 302) -> HTTPStream {
        answer([], status: status, type: "text/html", headers: location.map { ["location": $0] } ?? [:])
    }

    // MARK: What is decided

    @Test("JPEG, PNG and GIF are allowed, by a head in any case and with parameters, and nothing else")
    func contentTypes() {
        let allowed: [String: AlertImageType] = [
            "image/jpeg": .jpeg, "image/png": .png, "image/gif": .gif, "IMAGE/PNG": .png, " image/gif ; charset=binary": .gif,
        ]
        for (name, type) in allowed { #expect(AlertImageType(contentType: name) == type, "\(name)") }
        for name in ["", ";", "image/webp", "image/svg+xml", "image/jpg", "image/*", "text/html", "image/png,image/gif", nil] {
            #expect(AlertImageType(contentType: name) == nil, "\(String(describing: name))")
        }
        #expect(AlertImageType.accepted == "image/jpeg, image/png, image/gif")
        #expect(AlertImageType.allCases.map(\.fileExtension) == ["jpg", "png", "gif"])
    }

    @Test("a file's first bytes tell its type")
    func beginnings() {
        #expect(AlertImageType(content: Self.png) == .png)
        #expect(AlertImageType(content: Data([0xFF, 0xD8, 0xFF, 0xE0])) == .jpeg)
        #expect(AlertImageType(content: Data("GIF87a".utf8)) == .gif && AlertImageType(content: Data("GIF89a.".utf8)) == .gif)
        for other in [Data(), Self.png.prefix(7), Data("GIF88a".utf8), Data("<html>".utf8), Data("RIFF....WEBP".utf8)] {
            #expect(AlertImageType(content: other) == nil)
        }
    }

    @Test(
        "an address is https, has a host, and carries no name or password",
        arguments: [
            ("https://images.example.com/1.png?a=b", true), ("HTTPS://images.example.com:8443", true),
            ("http://images.example.com/1.png", false), ("https:///1.png", false), ("//images.example.com/1.png", false),
            ("https://user@images.example.com/", false), ("https://user:word@images.example.com/", false),
            ("data:image/png;base64,iVBORw0KGgo=", false), ("file:///etc/passwd", false), ("1.png", false),
        ])
    func addresses(_ text: String, _ isFetched: Bool) {
        #expect((ImageAddress.checked(URL(string: text)) != nil) == isFetched)
    }

    @Test("the bounds are those that docs/client.md states")
    func bounds() {
        #expect(AlertImageFetch.timeLimit == .seconds(10) && AlertImageFetch.byteLimit == 5_000_000)
        #expect(AlertImageFetch.redirectionLimit == 5)
    }

    // MARK: The fetch

    @Test("an image comes into a file of its own, whose ending is its type; the request tells nothing of the user")
    func file() async throws {
        let scene = try Scene { _, _ in Self.answer([Self.png.prefix(3), Self.png.dropFirst(3)], type: "image/png; q=1") }
        let file = try #require(await scene.fetch.file(at: Self.address))
        #expect(file.pathExtension == "png" && scene.files == [file.lastPathComponent])
        #expect(try Data(contentsOf: file) == Self.png)
        let call = try #require(scene.transport.calls.first)
        #expect(call.method == "GET" && call.url == Self.address && call.body == nil)
        #expect(call.headers == ["Accept": "image/jpeg, image/png, image/gif"])
        let other = try #require(await scene.fetch.file(at: Self.address))
        #expect(other != file)
    }

    @Test("a PNG that a server names a JPEG is a .png")
    func wrongName() async throws {
        let scene = try Scene { _, _ in Self.answer(type: "image/jpeg") }
        #expect(await scene.fetch.file(at: Self.address)?.pathExtension == "png")
        #expect(scene.files.count == 1)
    }

    @Test("a redirection is followed by https alone, also to another host and by a relative address")
    func redirections() async throws {
        let scene = try Scene { _, number in
            switch number {
            case 1: Self.redirection("/moved?to=2", status: 301)
            case 2: Self.redirection("//other.example.com/3", status: 308)
            default: Self.answer()
            }
        }
        #expect(try await scene.fetch.image(at: Self.address).type == .png)
        #expect(
            scene.transport.calls.map(\.url.absoluteString) == [
                "https://images.example.com/1", "https://images.example.com/moved?to=2", "https://other.example.com/3",
            ])
    }

    @Test(
        "a redirection away from https, with a password, or to nowhere ends the fetch",
        arguments: [
            ("http://images.example.com/1", .unsupportedURL), ("file:///etc/passwd", .unsupportedURL),
            ("https://a:b@example.com/", .unsupportedURL), (nil, .badServerResponse),
        ] as [(String?, URLError.Code)])
    func unsafeRedirection(_ location: String?, _ refusal: URLError.Code) async throws {
        let scene = try Scene { _, _ in Self.redirection(location) }
        #expect(await Self.refusal(scene) == refusal)
        #expect(scene.transport.calls.count == 1)
    }

    @Test("five redirections are followed, and a sixth isn't")
    func redirectionLimit() async throws {
        let five = try Scene { _, number in number <= 5 ? Self.redirection("/\(number)") : Self.answer() }
        #expect(try await five.fetch.image(at: Self.address).content == Self.png)
        let endless = try Scene { _, number in Self.redirection("/\(number)") }
        #expect(await Self.refusal(endless) == .httpTooManyRedirects)
        #expect(endless.transport.calls.count == 6)
    }

    @Test("an address that isn't https is never asked")
    func plainAddress() async throws {
        let scene = try Scene { _, _ in Self.answer() }
        #expect(await scene.fetch.file(at: .example("http://images.example.com/1.png")) == nil)
        #expect(scene.transport.calls.isEmpty && scene.files.isEmpty)
    }

    @Test("5 MB are taken; with a byte more reading stops, though the server goes on", arguments: [0, 1])
    func size(_ more: Int) async throws {
        let half = Data(repeating: 0, count: 2_500_000)
        let pieces = [Self.png, half.dropFirst(Self.png.count), half, Data(repeating: 0, count: more)]
        let scene = try Scene { _, _ in Self.answer(pieces, ends: more == 0) }
        if more == 0 {
            #expect(try await scene.fetch.image(at: Self.address).content.count == 5_000_000)
        } else {
            #expect(await Self.refusal(scene) == .dataLengthExceedsMaximum)
            #expect(await scene.fetch.file(at: Self.address) == nil)
            #expect(scene.files.isEmpty)
        }
    }

    @Test("an answer that says it is larger isn't read; one that lies about its length is held to what comes")
    func announcedSize() async throws {
        let large = try Scene { _, _ in Self.answer([], headers: ["content-length": "5000001"], ends: false) }
        #expect(await Self.refusal(large) == .dataLengthExceedsMaximum)
        for length in ["5000000", "-1", "many", "99999999999999999999"] {
            let scene = try Scene { _, _ in Self.answer(headers: ["content-length": length]) }
            #expect(try await scene.fetch.image(at: Self.address).content == Self.png, "\(length)")
        }
    }

    @Test("another status, another type and no image in the answer bring none")
    func refusals() async throws {
        let answers: [(URLError.Code, @Sendable () -> HTTPStream)] = [
            (.badServerResponse, { Self.answer(status: 404) }), (.badServerResponse, { Self.answer(status: 206) }),
            (.badServerResponse, { Self.answer(status: 304) }), (.cannotDecodeContentData, { Self.answer(type: "image/webp") }),
            (.cannotDecodeContentData, { Self.answer(type: nil) }),
            (.cannotDecodeContentData, { Self.answer([Data("<html>".utf8)]) }), (.cannotDecodeContentData, { Self.answer([]) }),
        ]
        for (refusal, answer) in answers {
            let scene = try Scene { _, _ in answer() }
            #expect(await Self.refusal(scene) == refusal)
            #expect(await scene.fetch.file(at: Self.address) == nil)
            #expect(scene.files.isEmpty)
        }
    }

    @Test("a lost network, and an image that breaks off, leave no file")
    func failures() async throws {
        let offline = try Scene { _, _ in throw URLError(.notConnectedToInternet) }
        #expect(await offline.fetch.file(at: Self.address) == nil)
        let cut = try Scene { _, _ in Self.answer(breaks: URLError(.networkConnectionLost)) }
        #expect(await cut.fetch.file(at: Self.address) == nil)
        #expect(offline.files.isEmpty && cut.files.isEmpty)
    }

    @Test("a folder that can't be written brings none")
    func noFolder() async throws {
        let transport = ScriptedTransport(streams: { _, _ in Self.answer() })
        let nowhere = URL(fileURLWithPath: "/dev/null/images")
        #expect(await AlertImageFetch(transport: transport, folder: nowhere).file(at: Self.address) == nil)
    }

    @Test("an image that isn't complete after ten seconds is given up")
    func timeLimit() async throws {
        let waits = Locked<[Duration]>([])
        let scene = try Scene({ _, _ in Self.answer(ends: false) }, sleep: { wait in waits.withLock { $0.append(wait) } })
        #expect(await scene.fetch.file(at: Self.address) == nil)
        #expect(waits.withLock { $0 } == [.seconds(10)] && scene.files.isEmpty)
    }

    @Test("a cancelled fetch ends, and half an image is none")
    func cancellation() async throws {
        let scene = try Scene { _, _ in Self.answer(ends: false) }
        let fetching = Task { await scene.fetch.file(at: Self.address) }
        await scene.transport.untilCalled()
        fetching.cancel()
        #expect(await fetching.value == nil)
        #expect(scene.files.isEmpty)
    }
}

@Suite("An alert that waits for its image", .endsIfItHangs)
struct WaitingAlertTests {
    /// The files with which an alert was shown.
    private let shown = Watched<[URL?]>([])

    private func alert() -> WaitingAlert { WaitingAlert { [shown] file in shown.change { $0.append(file) } } }

    @Test("it is shown once, with the image when that is there, and not again when the time is over", arguments: [true, false])
    func image(_ isThere: Bool) async {
        let file = isThere ? URL(fileURLWithPath: "/nowhere/1.png") : nil
        let alert = alert()
        alert.wait { file }
        await shown.until { !$0.isEmpty }
        alert.endWait()
        #expect(shown.value == [file])
    }

    @Test("when the time is over it is shown at once without the image, which is given up; one that comes after all is deleted")
    func timeOver() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("campanile-\(UUID().uuidString).png")
        let (isAsked, isCancelled) = (Watched(false), Watched(false))
        let alert = alert()
        alert.wait {
            isAsked.change { $0 = true }
            // Ends with the task, and then brings an image all the same.
            try? await Task.sleep(for: .seconds(86_400))
            try? AlertImageTests.png.write(to: file)
            isCancelled.change { $0 = Task.isCancelled }
            return file
        }
        await isAsked.until { $0 }
        alert.endWait()
        #expect(shown.value == [nil])
        await isCancelled.until { $0 }
        try await lookUntil { !FileManager.default.fileExists(atPath: file.path) }
        alert.endWait()
        #expect(shown.value == [nil])
    }

    @Test("the time may be over before the image is asked for")
    func overAtOnce() async {
        let alert = alert()
        alert.endWait()
        let isAsked = Watched(false)
        alert.wait {
            isAsked.change { $0 = true }
            return nil
        }
        await isAsked.until { $0 }
        #expect(shown.value == [nil])
    }
}
