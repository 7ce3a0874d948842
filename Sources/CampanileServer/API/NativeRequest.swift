import Glibc
import HTTPEngine

/// The rule that tells which requests come from the app itself and not from a browser: the User-Agent says `Hotwire Native` or
/// `Turbo Native` (turbo-rails, `hotwire_native_app?`), or one of the configured words.
struct NativeRequests: Sendable {
    /// Texts that mark a User-Agent wherever they stand in it.
    let configured: [[UInt8]]
    private let marks: [[UInt8]]

    init(configured: [String]) {
        self.configured = configured.map { Array($0.utf8) }
        marks = ["Hotwire Native", "Turbo Native"].map { Array($0.utf8) } + self.configured
    }

    func isNative(_ request: Request) -> Bool {
        request.withHeader("user-agent") { $0.map(isNative) ?? false }
    }

    func isNative(_ userAgent: UnsafeRawBufferPointer) -> Bool {
        marks.contains { mark in mark.withUnsafeBytes { userAgent.contains($0) } }
    }

    /// A page that is only prepared shows nothing to anybody: Turbo and browsers mark such requests.
    static func isPrefetch(_ request: Request) -> Bool {
        isPrefetch(request, "sec-purpose") || isPrefetch(request, "x-sec-purpose")
    }

    private static func isPrefetch(_ request: Request, _ name: StaticString) -> Bool {
        request.withHeader(name) { value in
            let mark: StaticString = "prefetch"
            return value?.contains(UnsafeRawBufferPointer(start: mark.utf8Start, count: mark.utf8CodeUnitCount)) ?? false
        }
    }
}

extension Request {
    /// The token with which a device names itself; nil when it doesn't, or when it can't be a token.
    var deviceToken: String? {
        guard let token = header("x-device-token"), !token.isEmpty,
            token.utf8.count <= Limits.androidTokenBytes.upperBound
        else { return nil }
        return token
    }
}

extension UnsafeRawBufferPointer {
    /// Returns whether the bytes stand in these somewhere, in one piece.
    fileprivate func contains(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let first = bytes.first, let start = baseAddress, let wanted = bytes.baseAddress else { return true }
        var position = 0
        while position + bytes.count <= count {
            guard let found = memchr(start + position, Int32(first), count - bytes.count - position + 1) else { return false }
            position = UnsafeRawPointer(found) - start
            if memcmp(start + position, wanted, bytes.count) == 0 { return true }
            position += 1
        }
        return false
    }
}
