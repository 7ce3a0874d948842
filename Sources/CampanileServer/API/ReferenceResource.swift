import CEmbedded
import CampanileCore
import HTTPEngine
import Synchronization

/// `GET /docs`: the reference of the API, made of openapi.yaml when it is first asked for.
final class ReferenceResource: Sendable {
    /// It takes tens of milliseconds, too long for a thread that others' requests wait for.
    private let page = Mutex<Task<PublicDocument, any Error>?>(nil)

    func get(_ request: Request) throws -> Answer {
        .later { [self] in
            var response = try await made().value.response(to: request)
            response.add("X-Content-Type-Options", "nosniff")
            response.add("Referrer-Policy", "no-referrer")
            response.add(
                "Content-Security-Policy",
                """
                default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
                frame-ancestors 'none'
                """)
            return response
        }
    }

    private func made() -> Task<PublicDocument, any Error> {
        page.withLock { page in
            if let page { return page }
            let making = Task {
                PublicDocument(try ReferenceResource.html(), contentType: "text/html; charset=utf-8")
            }
            page = making
            return making
        }
    }

    /// The page, whose addresses of assets are those of the present versions.
    static func html() throws -> [UInt8] {
        let contract = ReferenceContract(try JSONValue(yaml: String(cString: embedded("openapi.yaml").text)))
        return Array(Assets(console: false).page(ReferencePage(contract).html).utf8)
    }
}
