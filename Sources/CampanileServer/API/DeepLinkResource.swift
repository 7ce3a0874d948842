import CampanileCore
import HTTPEngine

/// `GET /deep_links`: the table of an app's screens, the same for every team and every client.
struct DeepLinkResource: Sendable {
    private let documents: PerApp<PublicDocument>

    init(_ configuration: Configuration) {
        documents = PerApp(configuration) { PublicDocument(configuration.notificationRules(of: $0).deepLinks.json) }
    }

    func get(_ request: Request) throws -> Answer {
        .now(documents[try request.askedApp()].response(to: request))
    }
}

/// A document that is the same for everybody until the next start.
struct PublicDocument: Sendable {
    private let body: Response.Body
    private let tag: String
    private let contentType: StaticString

    init(_ json: JSONValue) {
        let text = json.text
        body = .array(text)
        contentType = "application/json"
        tag = "\"\(text.withUnsafeBytes(contentHash))\""
    }

    /// An embedded page.
    init(page name: String) {
        let page = ProgramBytes(file: name)
        body = .program(page)
        contentType = "text/html; charset=utf-8"
        tag = "\"\(contentHash(page.bytes))\""
    }

    func response(to request: Request) -> Response {
        var response = Response(status: request.knows(tag) ? 304 : 200, contentType: contentType, body: body)
        response.add("ETag", .text(tag))
        response.add("Cache-Control", "public, max-age=300")
        response.add("Access-Control-Allow-Origin", "*")
        return response
    }
}

extension Request {
    /// The app of `?app=`; `default` when none is asked for.
    /// - Throws: `ClientError` when it is no name of an app.
    func askedApp() throws -> String {
        guard rawQuery != nil else { return AppName.standard }
        var errors: [FieldError] = []
        let app = text(of: "app", &errors) ?? AppName.standard
        if errors.isEmpty, !AppName.isValid(app) { errors.append(FieldError("app", .invalid, "app is not the name of an app.")) }
        if !errors.isEmpty { throw ClientError.invalid(errors) }
        return app
    }

    /// If-None-Match with weak comparison (RFC 9110 section 13.1.2): a list of tags, or `*`.
    func knows(_ tag: String) -> Bool {
        guard let field = header("if-none-match") else { return false }
        return field.split(separator: ",").contains { entry in
            let entry = entry.trimmed
            return entry == "*" || entry == tag || entry == "W/" + tag
        }
    }
}
