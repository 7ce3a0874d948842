import CampanileCore

/// The schema of FCM's message (Firebase, REST reference of `projects.messages`): its fields, and the values of each.
/// Unknown fields are refused, as by Google's JSON reader.
indirect enum FCMSchema: Sendable {
    case string
    case bool
    case integer
    case number
    /// Seconds with an `s`, such as `3600s` or `3.5s`.
    case duration
    case timestamp
    /// `#rrggbb`.
    case color
    case oneOf(Set<String>)
    case list(FCMSchema)
    /// A map of text to text.
    case strings
    /// FCM's data: a map of text to text, without the reserved keys.
    case data
    /// Any JSON object.
    case free
    case object([String: FCMSchema])

    static let request = FCMSchema.object(["validate_only": .bool, "message": message])

    private static let message = FCMSchema.object([
        "name": .string, "token": .string, "fid": .string, "topic": .string, "condition": .string,
        "data": .data,
        "notification": .object(["title": .string, "body": .string, "image": .string]),
        "android": android,
        "apns": .object([
            "headers": .strings, "payload": .free, "live_activity_token": .string,
            "fcm_options": .object(["analytics_label": .string, "image": .string]),
        ]),
        "webpush": .object([
            "headers": .strings, "data": .strings, "notification": .free,
            "fcm_options": .object(["link": .string, "analytics_label": .string]),
        ]),
        "fcm_options": .object(["analytics_label": .string]),
    ])

    private static let android = FCMSchema.object([
        "collapse_key": .string, "priority": .oneOf(["normal", "high", "NORMAL", "HIGH"]), "ttl": .duration,
        "restricted_package_name": .string, "data": .data, "notification": androidNotification,
        "fcm_options": .object(["analytics_label": .string]), "direct_boot_ok": .bool,
        "bandwidth_constrained_ok": .bool, "restricted_satellite_ok": .bool,
    ])

    private static let androidNotification = FCMSchema.object([
        "title": .string, "body": .string, "icon": .string, "color": .color, "sound": .string, "tag": .string,
        "click_action": .string, "body_loc_key": .string, "body_loc_args": .list(.string), "title_loc_key": .string,
        "title_loc_args": .list(.string), "channel_id": .string, "ticker": .string, "sticky": .bool,
        "event_time": .timestamp, "local_only": .bool,
        "notification_priority": .oneOf([
            "PRIORITY_UNSPECIFIED", "PRIORITY_MIN", "PRIORITY_LOW", "PRIORITY_DEFAULT", "PRIORITY_HIGH", "PRIORITY_MAX",
        ]),
        "default_sound": .bool, "default_vibrate_timings": .bool, "default_light_settings": .bool,
        "vibrate_timings": .list(.duration),
        "visibility": .oneOf(["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"]),
        "notification_count": .integer,
        "light_settings": .object([
            "color": .object(["red": .number, "green": .number, "blue": .number, "alpha": .number]),
            "light_on_duration": .duration, "light_off_duration": .duration,
        ]),
        "image": .string, "proxy": .oneOf(["PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"]),
    ])
}

extension FCMSchema {
    /// A value's violations of the schema, with the path of each field.
    func violations(_ value: JSONValue, at path: String) -> [FCMViolation] {
        func wrong(_ description: String) -> [FCMViolation] { [.init(field: path, description: description)] }
        switch (self, value) {
        case (.string, .string), (.bool, .bool), (.integer, .integer), (.number, .integer), (.number, .number),
            (.free, .object):
            return []
        case (.duration, .string(let text)):
            return FCMSchema.seconds(text) == nil ? wrong("Illegal duration format; duration must end with 's'") : []
        case (.timestamp, .string(let text)):
            return Timestamp(text) == nil ? wrong("Invalid time format") : []
        case (.color, .string(let text)):
            return text.wholeMatch(of: /#[0-9a-fA-F]{6}/) == nil ? wrong("Invalid color: not #rrggbb") : []
        case (.oneOf(let words), .string(let word)):
            return words.contains(word) ? [] : wrong("Invalid value")
        case (.list(let schema), .array(let values)):
            return values.enumerated().flatMap { schema.violations($1, at: "\(path)[\($0)]") }
        case (.strings, .object(let members)), (.data, .object(let members)):
            return members.flatMap { member in stringMember(member, at: path) }
        case (.object(let fields), .object(let members)):
            return members.flatMap { member -> [FCMViolation] in
                let place = path.isEmpty ? member.key : "\(path).\(member.key)"
                guard let schema = fields[member.key] else {
                    return [.init(field: place, description: "Unknown name \"\(member.key)\": Cannot find field.")]
                }
                return schema.violations(member.value, at: place)
            }
        default: return wrong("Invalid value: \(expected)")
        }
    }

    /// The value in the form for `violations`. Google's reader also accepts names in camel case, whole numbers as
    /// texts, and null for missing fields (Protocol Buffers, "ProtoJSON Format").
    func canonical(_ value: JSONValue) -> JSONValue {
        switch (self, value) {
        case (.integer, .string(let text)): return Int64(text).map { .integer($0) } ?? value
        case (.list(let schema), .array(let values)): return .array(values.map(schema.canonical))
        case (.object(let fields), .object(let members)):
            let given = members.filter { $0.value != .null }
            return .object(
                given.map { member in
                    let name = FCMSchema.snakeCase(member.key)
                    // A field with both names stays, and is refused.
                    guard let schema = fields[name], name == member.key || !given.contains(where: { $0.key == name })
                    else { return member }
                    return JSONValue.Member(name, schema.canonical(member.value))
                })
        default: return value
        }
    }

    private static func snakeCase(_ name: String) -> String {
        name.reduce(into: "") { $0 += $1.isUppercase ? "_" + $1.lowercased() : String($1) }
    }

    private func stringMember(_ member: JSONValue.Member, at path: String) -> [FCMViolation] {
        guard case .string = member.value else {
            return [.init(field: "\(path).\(member.key)", description: "Invalid value: a string is expected")]
        }
        guard case .data = self, FCMSchema.isReserved(member.key) else { return [] }
        return [.init(field: "\(path).\(member.key)", description: "Invalid data payload key: \(member.key)")]
    }

    private static func isReserved(_ key: String) -> Bool {
        key == "from" || key == "message_type" || key.hasPrefix("google") || key.hasPrefix("gcm")
    }

    private var expected: String {
        switch self {
        case .string, .duration, .timestamp, .color, .oneOf: "a string is expected"
        case .bool: "a boolean is expected"
        case .integer: "an integer is expected"
        case .number: "a number is expected"
        case .list: "a list is expected"
        case .strings, .data, .free, .object: "an object is expected"
        }
    }

    /// The seconds of a duration's text, up to nine fractional digits; nil when the text isn't a duration.
    static func seconds(_ text: String) -> Double? {
        guard text.wholeMatch(of: /[0-9]{1,9}(\.[0-9]{1,9})?s/) != nil else { return nil }
        return Double(text.dropLast())
    }
}
