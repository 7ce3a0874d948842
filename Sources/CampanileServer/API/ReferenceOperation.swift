import CampanileCore

/// One operation of openapi.yaml as a part of the page.
struct ReferenceOperation: Sendable {
    static let methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace"]

    let method: String
    let path: String
    let operation: JSONValue
    /// Those of its path and its own.
    let parameters: [JSONValue]
    let contract: ReferenceContract

    var id: String { operation["operationId"]?.words ?? "" }
    var name: String { "\(method) \(path)" }

    var link: String {
        "<a href=\"#\(id)\"><span class=\"method \(method.lowercased())\">\(method)</span> <code>\(htmlEscaped(path))</code></a>"
    }

    var html: String {
        let (text, schema) = (contract.text, contract.schema)
        var html = """
            <section class="operation" id="\(id)">
            <h3>\(link)</h3>
            <p class="summary">\(text.inline(operation["summary"]?.words ?? ""))</p>
            \(operation["description"]?.words.map(text.paragraphs) ?? "")<p class="credential">Credential: \(credential)</p>
            <pre><code>\(htmlEscaped(curl))</code></pre>

            """
        if !parameters.isEmpty {
            let members = parameters.map { parameter in
                schema.member(
                    parameter["name"]?.words ?? "", parameter["schema"] ?? .null, isRequired: parameter["required"] == true,
                    place: ", in the \(parameter["in"]?.words ?? "")",
                    about: (parameter["description"]?.words.map(text.paragraphs) ?? ""))
            }
            html += "<h4>Parameters</h4>\n<dl>\n\(members.joined())</dl>\n"
        }
        if let body = operation["requestBody"] {
            html += "<h4>Body</h4>\n\(body["required"] == true ? "" : "<p>It may be left out.</p>\n")\(media(body))"
        }
        return html + answers + "</section>\n"
    }

    private var credential: String {
        let choices = (operation["security"]?.elements ?? []).map { choice in
            choice.members.first.map { "<a href=\"#credential-\($0.key)\">\($0.key)</a>" } ?? "none"
        }
        return choices.isEmpty ? "none" : choices.joined(separator: " or ")
    }

    private var answers: String {
        var (rows, problems) = ("", "")
        for (status, written) in (operation["responses"]?.members ?? []).map({ ($0.key, $0.value) }) {
            let response = contract.resolved(written)
            if let name = written.reference, response["x-problem-codes"] != nil {
                let codes = (response["x-problem-codes"]?.elements ?? []).compactMap(\.words).map { "<code>\($0)</code>" }
                problems += "<li><a href=\"#problem-\(name)\">\(status)</a> \(codes.joined(separator: " "))</li>\n"
            } else {
                rows += "<dt><strong>\(status)</strong></dt>\n<dd>\(answer(response))</dd>\n"
            }
        }
        if !problems.isEmpty { rows += "<dt>Problems</dt>\n<dd><ul class=\"problems\">\n\(problems)</ul></dd>\n" }
        return "<h4>Answers</h4>\n<dl class=\"answers\">\n\(rows)</dl>\n"
    }

    private func answer(_ response: JSONValue) -> String {
        let text = contract.text
        var html = response["description"]?.words.map(text.paragraphs) ?? ""
        html += media(response) + contract.headers(of: response)
        let links = (response["links"]?.members ?? []).map { contract.resolved($0.value) }.compactMap { link in
            contract.operation(link["operationId"]?.words ?? "").map { operation in
                "<li>\(operation.link) \(text.inline(link["description"]?.words ?? ""))</li>\n"
            }
        }
        return links.isEmpty ? html : html + "<p>Then:</p>\n<ul>\n\(links.joined())</ul>\n"
    }

    private func media(_ body: JSONValue) -> String {
        (body["content"]?.members ?? []).map { media in
            let schema = media.value["schema"] ?? .null
            return """
                <p><code>\(media.key)</code>: <span class="type">\(contract.schema.type(schema))</span></p>
                \(contract.schema.details(schema))\(examples(media.value).map(figure).joined())
                """
        }.joined()
    }

    private func examples(_ media: JSONValue) -> [JSONValue] {
        if let value = media["example"] { return [.object([.init("value", value)])] }
        return (media["examples"]?.members ?? []).map { contract.resolved($0.value) }
    }

    private func figure(_ example: JSONValue) -> String {
        let caption = example["summary"]?.words.map { "<figcaption>\(contract.text.inline($0))</figcaption>" } ?? ""
        let value = example["value"] ?? .null
        return "<figure>\(caption)<pre><code>\(htmlEscaped(value.words ?? value.readable()))</code></pre></figure>\n"
    }

    /// The shell's variable with the credential, by the first that the operation takes.
    private static let variables = ["userToken": "TOKEN", "producerKey": "KEY", "operateKey": "OPERATE_KEY"]

    /// A line that calls it, with the first example of its body. The credentials are shell variables.
    private var curl: String {
        let body = operation["requestBody"].flatMap { examples($0["content"]?.members.first?.value ?? .null).first?["value"] }
        let isStream = contract.resolved(operation["responses"]?["200"] ?? .null)["content"]?["text/event-stream"] != nil
        var words = ["curl"]
        if isStream { words.append("-N") }
        if operation["responses"]?["101"] != nil {
            words += ["-N", "-H 'Connection: Upgrade'", "-H 'Upgrade: websocket'", "-H 'Sec-WebSocket-Version: 13'"]
            words += ["-H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='", "-H 'Sec-WebSocket-Protocol: actioncable-v1-json'"]
        }
        if method != (body == nil ? "GET" : "POST") { words.append("-X \(method)") }
        words.append(contract.address + filledPath)
        let scheme = operation["security"]?.elements.compactMap { $0.members.first?.key }.first
        if let variable = scheme.flatMap({ Self.variables[$0] }) { words.append("-H \"Authorization: Bearer $\(variable)\"") }
        if let body {
            let json = String(decoding: body.text, as: UTF8.self).replacing("'", with: "'\\''")
            words += ["-H 'Content-Type: application/json'", "-d '\(json)'"]
        }
        return words.joined(separator: " ")
    }

    private var filledPath: String {
        parameters.filter { $0["in"] == "path" }.reduce(path) { path, parameter in
            path.replacing("{\(parameter["name"]?.words ?? "")}", with: parameter["example"]?.words ?? "")
        }
    }
}
