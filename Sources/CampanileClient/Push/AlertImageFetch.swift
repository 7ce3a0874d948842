public import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Fetches the image of an alert, for a notification service extension. `AlertService` uses it.
///
/// Takes https alone, also after redirections, and of images JPEG, PNG and GIF. Sends no cookie, no credentials, no user
/// token and nothing of the app's storage; keeps no cache.
public struct AlertImageFetch: Sendable {
    /// The time for all of it, redirections included. iOS may end the extension's time before: `AlertService` heeds both.
    public static let timeLimit: Duration = .seconds(10)
    /// The most bytes of an image, 5 MB: half of what Apple takes (*UNNotificationAttachment*, Supported File Types),
    /// because the extension has little memory. Reading stops when more come.
    public static let byteLimit = 5_000_000
    /// The most redirections in a row that are followed.
    public static let redirectionLimit = 5

    /// A fetched image.
    struct Image: Hashable, Sendable {
        let type: AlertImageType
        let content: Data
    }

    private let transport: any HTTPTransport
    private let folder: URL
    private let sleep: @Sendable (Duration) async throws -> Void

    public init() {
        // Without cookies and cache anyway.
        self.init(transport: URLSessionTransport { $0.urlCredentialStorage = nil })
    }

    /// - Parameters:
    ///   - transport: must follow no redirection by itself, as `URLSessionTransport` doesn't.
    ///   - folder: the place for the files.
    ///   - sleep: waits. A test doesn't.
    init(
        transport: any HTTPTransport, folder: URL = FileManager.default.temporaryDirectory,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.transport = transport
        self.folder = folder
        self.sleep = sleep
    }

    /// Fetches an image into a file of its own in the temporary folder, named by the image's type.
    /// - Returns: the file, which is the caller's to delete or to give to iOS; nil without an image: whatever failed, the
    ///   time being over or the task being cancelled.
    public func file(at url: URL) async -> URL? {
        guard let image = try? await inTime(url) else { return nil }
        let file = folder.appendingPathComponent(UUID().uuidString).appendingPathExtension(image.type.fileExtension)
        do {
            // Atomically: nothing of it is left if it fails.
            try image.content.write(to: file, options: .atomic)
        } catch {
            return nil
        }
        return file
    }

    private func inTime(_ url: URL) async throws -> Image {
        try await withThrowingTaskGroup(of: Image.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await image(at: url) }
            group.addTask {
                try await sleep(AlertImageFetch.timeLimit)
                throw URLError(.timedOut)
            }
            guard let first = try await group.next() else { throw URLError(.timedOut) }
            return first
        }
    }

    /// - Throws: the transport's error; or `URLError`: `unsupportedURL` for an address that isn't fetched from, at first or after a
    ///   redirection, `httpTooManyRedirects`, `badServerResponse` for a status, `cannotDecodeContentData` for another type than
    ///   `AlertImageType` has, by the answer's head or by the file, `dataLengthExceedsMaximum`.
    func image(at url: URL) async throws -> Image {
        var address = url
        for _ in 0...AlertImageFetch.redirectionLimit {
            guard ImageAddress.checked(address) != nil else { throw URLError(.unsupportedURL) }
            let call = HTTPCall(url: address, headers: ["Accept": AlertImageType.accepted])
            let answer = try await transport.open(call)
            guard let next = answer.redirection(from: address) else { return try await read(answer) }
            address = next
        }
        throw URLError(.httpTooManyRedirects)
    }

    /// Reads the body to its end. An error drops it, and with it the connection.
    private func read(_ answer: HTTPStream) async throws -> Image {
        guard answer.status == 200 else { throw URLError(.badServerResponse) }
        guard AlertImageType(contentType: answer.headers["content-type"]) != nil else { throw URLError(.cannotDecodeContentData) }
        let length = answer.headers["content-length"].flatMap { Int($0) } ?? 0
        guard length <= AlertImageFetch.byteLimit else { throw URLError(.dataLengthExceedsMaximum) }
        var content = Data()
        // A buffer that grows is copied.
        content.reserveCapacity(max(0, length))
        for try await piece in answer.body {
            guard content.count + piece.count <= AlertImageFetch.byteLimit else { throw URLError(.dataLengthExceedsMaximum) }
            content += piece
        }
        // A cancelled task ends the loop as if the body were complete.
        try Task.checkCancellation()
        // By the file, because iOS looks into it too, and servers name their images wrongly.
        guard let type = AlertImageType(content: content) else { throw URLError(.cannotDecodeContentData) }
        return Image(type: type, content: content)
    }
}

extension HTTPStream {
    /// The address that a redirection leads to (RFC 9110 section 15.4); nil for another answer, and for one without a
    /// readable `Location`.
    fileprivate func redirection(from url: URL) -> URL? {
        guard [301, 302, 303, 307, 308].contains(status) else { return nil }
        return headers["location"].flatMap { URL(string: $0, relativeTo: url)?.absoluteURL }
    }
}
