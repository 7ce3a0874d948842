import CampanileCore
import HTTPEngine

/// The web pages that may call: those of the server's own origin, and those of the origins in the configuration (WHATWG Fetch,
/// section 3.2).
struct AllowedOrigins: Sendable {
    let rule: OriginRule
    let proxies: TrustedProxies

    init(_ origins: [String], proxies: TrustedProxies) {
        rule = OriginRule(allowed: origins)
        self.proxies = proxies
    }

    /// The header fields that let a page of another origin read the answer; none for pages that may not.
    func headers(for request: Request) -> [Response.Header] {
        guard !rule.isEmpty else { return [] }
        // Also without an origin: a cache must not give that answer to a page.
        let vary = Response.Header("Vary", "Origin")
        guard let origin = request.header("origin"), rule.names(origin) else { return [vary] }
        return [
            vary, .init("Access-Control-Allow-Origin", .text(origin)),
            .init("Access-Control-Allow-Credentials", "true"),
            .init("Access-Control-Expose-Headers", "ETag, Link, Location, Retry-After, X-Request-Id, Idempotency-Replayed"),
        ]
    }

    /// The answer to a browser's question whether a page may send a request; nil if the request is no such question.
    func preflight(_ request: Request, allow: String) -> Response? {
        guard request.method == .options, request.header("access-control-request-method") != nil,
            let origin = request.header("origin"), rule.names(origin)
        else { return nil }
        var response = Response(status: 204, headers: headers(for: request))
        response.add("Access-Control-Allow-Methods", .text(allow))
        response.add(
            "Access-Control-Allow-Headers",
            """
            Authorization, Content-Type, If-None-Match, Idempotency-Key, Last-Event-ID, X-Device-Token, X-Request-Id, \
            X-Sec-Purpose
            """)
        response.add("Access-Control-Max-Age", "600")
        return response
    }

    /// Returns whether another site's page has the browser load this as if it were a picture: that sends no Origin.
    private static func isEmbedded(_ request: Request) -> Bool {
        guard request.header("origin") == nil, let site = request.header("sec-fetch-site") else { return false }
        return site != "same-origin" && site != "none"
    }

    /// - Throws: `ClientError` 403 for a page of a foreign origin that brings nothing but the browser's cookie.
    func check(_ request: Request, _ user: StreamUser) throws {
        guard user.source == .cookie else { return }
        let isAllowed = rule.allows(scheme: proxies.scheme(of: request), request.headers)
        guard !isAllowed || AllowedOrigins.isEmbedded(request) else { return }
        throw ClientError(.forbidden, detail: "Pages of this origin may not use the cookie; see allowed_origins.")
    }
}
