import CampanileCore

/// JSON Schema as openapi.yaml uses it, in words.
struct ReferenceSchema: Sendable {
    let text: ReferenceText

    /// What is shown; a test holds openapi.yaml to it.
    static let keywords: Set<String> = [
        "$ref", "additionalProperties", "allOf", "const", "default", "description", "enum", "format", "items", "maxItems",
        "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minimum", "not", "oneOf", "pattern", "properties",
        "propertyNames", "required", "type", "x-max-bytes", "x-pattern",
    ]

    /// The type in a word or a link: `array of Notification`, `string or null`.
    func type(_ schema: JSONValue) -> String {
        if let name = schema.reference { return "<a href=\"#schema-\(name)\">\(name)</a>" }
        if let value = schema["const"] { return code(value) }
        if let choices = schema["oneOf"] { return choices.elements.map(type).joined(separator: " or ") }
        if let all = schema["allOf"] { return all.elements.map(type).joined(separator: " and ") }
        let names = (schema["type"]?.words.map { [$0] } ?? schema["type"]?.elements.compactMap(\.words)) ?? []
        return names.map { name in
            switch name {
            case "array": "array of \(schema["items"].map(type) ?? "anything")"
            case "object" where schema["additionalProperties"]?.members.isEmpty == false:
                "object of \(schema["additionalProperties"].map(type) ?? "anything")"
            default: name
            }
        }.joined(separator: " or ")
    }

    /// Everything that the type doesn't say: description, rules, members.
    /// - Parameter isPart: whether it is one of a schema's choices or elements: then the rules name its type.
    func details(_ schema: JSONValue, isPart: Bool = false) -> String {
        guard schema.reference == nil else { return "" }
        var html = schema["description"]?.words.map(text.paragraphs) ?? ""
        let limits = rules(schema)
        if !limits.isEmpty {
            html += "<p class=\"rules\">\(isPart ? "\(type(schema)): " : "")\(limits.joined(separator: "; "))</p>\n"
        }
        let required = Set((schema["required"]?.elements ?? []).compactMap(\.words))
        if let members = schema["properties"]?.members, !members.isEmpty {
            html += "<dl>\n\(members.map { member($0.key, $0.value, isRequired: required.contains($0.key)) }.joined())</dl>\n"
        }
        let inner = ["items", "additionalProperties"].compactMap { schema[$0] }
        let choices = ["oneOf", "allOf"].flatMap { schema[$0]?.elements ?? [] }
        for part in inner + choices where part.reference == nil { html += details(part, isPart: true) }
        return html
    }

    func member(_ name: String, _ schema: JSONValue, isRequired: Bool, place: String = "", about: String = "") -> String {
        """
        <dt><code>\(htmlEscaped(name))</code> <span class="type">\(type(schema))\(place)</span>\
        \(isRequired ? " <em>required</em>" : "")</dt>
        <dd>\(about)\(details(schema))</dd>

        """
    }

    /// Limits and choices, each as HTML.
    private func rules(_ schema: JSONValue) -> [String] {
        var rules: [String] = []
        if let choices = schema["enum"]?.elements { rules.append("one of " + choices.map(code).joined(separator: ", ")) }
        rules += [
            range(schema, "minLength", schema["x-max-bytes"] == nil ? "maxLength" : "", " characters"),
            range(schema, "", "x-max-bytes", " bytes"), range(schema, "minimum", "maximum", ""),
            range(schema, "minItems", "maxItems", " elements"), range(schema, "", "maxProperties", " keys"),
        ].compactMap(\.self)
        if let pattern = schema["pattern"] ?? schema["x-pattern"] { rules.append("pattern \(code(pattern))") }
        if let format = schema["format"] { rules.append("format \(code(format))") }
        if let value = schema["default"] { rules.append("default \(code(value))") }
        if let refused = schema["not"] { rules.append("not: " + self.rules(refused).joined(separator: ", ")) }
        if let names = schema["propertyNames"] { rules.append("keys: " + self.rules(names).joined(separator: ", ")) }
        switch schema["additionalProperties"] {
        case .bool(true): rules.append("further members are allowed")
        case .bool(false): rules.append("no other members")
        default: break
        }
        return rules
    }

    private func range(_ schema: JSONValue, _ leastKey: String, _ mostKey: String, _ unit: String) -> String? {
        switch (schema[leastKey].map(code), schema[mostKey].map(code)) {
        case (let least?, let most?): "\(least) to \(most)\(unit)"
        case (let least?, nil): "at least \(least)\(schema[leastKey] == 1 ? String(unit.dropLast()) : unit)"
        case (nil, let most?): "at most \(most)\(unit)"
        case (nil, nil): nil
        }
    }

    private func code(_ value: JSONValue) -> String {
        "<code>\(htmlEscaped(value.words ?? String(decoding: value.text, as: UTF8.self)))</code>"
    }
}
