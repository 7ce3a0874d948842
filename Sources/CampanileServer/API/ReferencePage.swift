import CampanileCore

/// openapi.yaml, with its references followed.
struct ReferenceContract: Sendable {
    private let document: JSONValue
    let text: ReferenceText
    let schema: ReferenceSchema
    /// Where a server answers that nobody configured.
    let address: String

    init(_ document: JSONValue) {
        self.document = document
        var anchors: [String: String] = [:]
        for path in document["paths"]?.members ?? [] {
            for method in path.value.members {
                anchors["\(method.key.uppercased()) \(path.key)"] = method.value["operationId"]?.words
            }
        }
        text = ReferenceText(operations: anchors)
        schema = ReferenceSchema(text: text)
        address = document["servers"]?.elements.first?["url"]?.words ?? ""
    }

    subscript(key: String) -> JSONValue? { document[key] }

    func resolved(_ value: JSONValue) -> JSONValue {
        guard let path = value["$ref"]?.words else { return value }
        let found = path.split(separator: "/").dropFirst().reduce(document) { $0[String($1)] ?? .null }
        return resolved(found)
    }

    func components(_ kind: String) -> [JSONValue.Member] { document["components"]?[kind]?.members ?? [] }

    var operations: [ReferenceOperation] {
        (document["paths"]?.members ?? []).flatMap { path in
            path.value.members.filter { ReferenceOperation.methods.contains($0.key) }.map { method in
                let parameters = (path.value["parameters"]?.elements ?? []) + (method.value["parameters"]?.elements ?? [])
                return ReferenceOperation(
                    method: method.key.uppercased(), path: path.key, operation: method.value,
                    parameters: parameters.map(resolved), contract: self)
            }
        }
    }

    /// The header fields of a response: links to those that are described once, and the others' descriptions.
    func headers(of response: JSONValue) -> String {
        let headers = (response["headers"]?.members ?? []).map { header in
            header.value.reference.map { "<a href=\"#header-\($0)\"><code>\(header.key)</code></a>" }
                ?? "<code>\(header.key)</code> (\(text.inline(header.value["description"]?.words ?? "")))"
        }
        return headers.isEmpty ? "" : "<p class=\"headers\">Headers: \(headers.joined(separator: ", "))</p>\n"
    }

    func operation(_ id: String) -> ReferenceOperation? { operations.first { $0.id == id } }
}

/// openapi.yaml as a page to read, without a script.
struct ReferencePage: Sendable {
    private let contract: ReferenceContract
    private let operations: [ReferenceOperation]
    private let tags: [JSONValue]

    init(_ contract: ReferenceContract) {
        self.contract = contract
        operations = contract.operations
        tags = contract["tags"]?.elements ?? []
    }

    /// Its addresses of assets are the plain ones.
    var html: String {
        let (text, info) = (contract.text, contract["info"] ?? .null)
        let title = "\(info["title"]?.words ?? "") \(info["version"]?.words ?? "")"
        return """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <title>\(htmlEscaped(title)): the API</title>
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <link rel="icon" href="/assets/campanile.svg">
            <link rel="stylesheet" href="/assets/reference.css">
            </head>
            <body>
            <a class="skip" href="#top">To the text</a>
            \(contents)<main id="top">
            <h1>\(htmlEscaped(title))</h1>
            <p class="summary">\(text.inline(info["summary"]?.words ?? ""))</p>
            \(text.paragraphs(info["description"]?.words ?? ""))<p>For programs: <a href="/openapi.yaml">openapi.yaml</a>.</p>
            \(credentials)\(tags.map(section).joined())\(problems)\(headers)\(schemas)</main>
            </body>
            </html>

            """
    }

    private func operations(of tag: JSONValue) -> [ReferenceOperation] {
        operations.filter { $0.operation["tags"]?.elements.first == tag["name"] }
    }

    private var contents: String {
        let groups = tags.map { tag in
            let name = tag["name"]?.words ?? ""
            let links = operations(of: tag).map { "<li>\($0.link)</li>\n" }.joined()
            return "<li><a href=\"#tag-\(name)\">\(name)</a>\n<ul>\n\(links)</ul></li>\n"
        }
        return """
            <nav aria-label="Contents">
            <ul>
            <li><a href="#credentials">credentials</a></li>
            \(groups.joined())<li><a href="#problems">problems</a></li>
            <li><a href="#headers">headers</a></li>
            <li><a href="#schemas">schemas</a></li>
            </ul>
            </nav>

            """
    }

    private var credentials: String {
        let rows = contract.components("securitySchemes").map { scheme in
            let name = htmlEscaped(scheme.value["name"]?.words ?? "")
            let place = scheme.value["in"]?.words.map { "\($0) <code>\(name)</code>" }
            return """
                <dt id="credential-\(scheme.key)"><code>\(scheme.key)</code> \
                <span class="type">\(place ?? "<code>Authorization: Bearer …</code>")</span></dt>
                <dd>\(contract.text.paragraphs(scheme.value["description"]?.words ?? ""))</dd>

                """
        }
        return "<section id=\"credentials\">\n<h2>Credentials</h2>\n<dl>\n\(rows.joined())</dl>\n</section>\n"
    }

    private func section(_ tag: JSONValue) -> String {
        let name = tag["name"]?.words ?? ""
        let about = contract.text.paragraphs(tag["description"]?.words ?? "")
        let parts = operations(of: tag).map(\.html).joined()
        let title = name.prefix(1).uppercased() + name.dropFirst()
        return "<section id=\"tag-\(name)\">\n<h2>\(title)</h2>\n\(about)\(parts)</section>\n"
    }

    private var problems: String {
        let rows = contract.components("responses").filter { $0.value["x-problem-codes"] != nil }.map { response in
            let codes = (response.value["x-problem-codes"]?.elements ?? []).compactMap(\.words).map { "<code>\($0)</code>" }
            let examples = (response.value["content"]?.members.first?.value["examples"]?.members ?? []).map { example in
                "<pre><code>\(htmlEscaped((example.value["value"] ?? .null).readable()))</code></pre>\n"
            }
            return """
                <dt id="problem-\(response.key)">\(response.key) \(codes.joined(separator: " "))</dt>
                <dd>\(contract.text.paragraphs(response.value["description"]?.words ?? ""))\
                \(contract.headers(of: response.value))\(examples.joined())</dd>

                """
        }
        return """
            <section id="problems">
            <h2>Problems</h2>
            <p><code>application/problem+json</code>: <a href="#schema-Problem">Problem</a>, with one of these codes.</p>
            <dl>
            \(rows.joined())</dl>
            </section>

            """
    }

    private var headers: String {
        let responses = operations.flatMap { $0.operation["responses"]?.members ?? [] } + contract.components("responses")
        let used = responses.flatMap { contract.resolved($0.value)["headers"]?.members ?? [] }
        let rows = contract.components("headers").map { header in
            // The name of the field, which several descriptions may share.
            let field = used.first { $0.value.reference == header.key }?.key ?? header.key
            return """
                <dt id="header-\(header.key)"><code>\(field)</code> \
                <span class="type">\(contract.schema.type(header.value["schema"] ?? .null))</span></dt>
                <dd>\(contract.text.paragraphs(header.value["description"]?.words ?? ""))\
                \(contract.schema.details(header.value["schema"] ?? .null))</dd>

                """
        }
        return "<section id=\"headers\">\n<h2>Headers</h2>\n<dl>\n\(rows.joined())</dl>\n</section>\n"
    }

    private var schemas: String {
        let parts = contract.components("schemas").map { schema in
            """
            <section class="schema" id="schema-\(schema.key)">
            <h3><a href="#schema-\(schema.key)">\(schema.key)</a> \
            <span class="type">\(contract.schema.type(schema.value))</span></h3>
            \(contract.schema.details(schema.value))</section>

            """
        }
        return "<section id=\"schemas\">\n<h2>Schemas</h2>\n\(parts.joined())</section>\n"
    }
}
