/// The part of a push that stands beside its words, its link and its data: those fields of `POST /notifications`, by the names
/// that they have there. A notification is kept with the given ones, and its category's declaration fills in others.
package struct PayloadFields: Sendable, Equatable {
    package private(set) var members: [JSONValue.Member]

    package init(_ members: [JSONValue.Member] = []) { self.members = members }

    /// - Parameter kept: the JSON object that a notification is kept with; nil: it has no such field.
    package init(kept: String?) {
        guard let kept, case .object(let members)? = try? JSONValue(parsing: Array(kept.utf8)) else {
            self.init()
            return
        }
        self.init(members)
    }

    /// The JSON object to keep; nil when there is no field.
    package var text: String? {
        members.isEmpty ? nil : String(decoding: JSONValue.object(members).text, as: UTF8.self)
    }

    package var isEmpty: Bool { members.isEmpty }

    /// The value of a field, such as `loc` or `android.color`.
    package subscript(path: String) -> JSONValue? {
        members.isEmpty ? nil : JSONValue.object(members).value(at: path)
    }

    package func string(_ path: String) -> String? {
        guard case .string(let text)? = self[path] else { return nil }
        return text
    }

    /// Returns these fields, and those of the defaults that are left out here.
    package func filled(from defaults: PayloadFields) -> PayloadFields {
        guard !defaults.isEmpty,
            case .object(let members) = JSONValue.object(defaults.members).merging(self.members)
        else { return self }
        return PayloadFields(members)
    }

    /// These fields, passive and without what makes a phone sound, vibrate or flash.
    package var silenced: PayloadFields {
        let loud: [(object: String, keys: Set<String>)] = [
            ("apns.aps", ["sound", "interruption-level"]), ("fcm", ["priority"]),
            (
                "fcm.notification",
                [
                    "sound", "default_sound", "vibrate_timings", "default_vibrate_timings", "light_settings",
                    "default_light_settings",
                    "notification_priority",
                ]
            ),
        ]
        let quiet = loud.reduce(JSONValue.object(members)) {
            $0.removing($1.keys, at: $1.object.split(separator: ".").map(String.init))
        }
        let passive: [JSONValue.Member] = [.init("interruption_level", "passive"), .init("priority", "normal")]
        guard case .object(let members) = quiet.merging(passive) else { return self }
        return PayloadFields(members)
    }

    /// The fields that are there, under other names.
    package func renamed(_ names: [(field: String, key: String)]) -> [JSONValue.Member] {
        names.compactMap { name in self[name.field].map { JSONValue.Member(name.key, $0) } }
    }

    package func members(of path: String) -> [JSONValue.Member] {
        guard case .object(let members)? = self[path] else { return [] }
        return members
    }
}

extension PayloadFields {
    /// The values of the fields that an inbox shows, as they stand in the JSON object that a notification is kept with. A list has them
    /// from there without reading the rest.
    /// - Parameter kept: the bytes of `text`: without spaces.
    package static func shown(
        in kept: UnsafeRawBufferPointer
    ) -> (subtitle: Slice<UnsafeRawBufferPointer>?, imageURL: Slice<UnsafeRawBufferPointer>?) {
        var (subtitle, imageURL): (Slice<UnsafeRawBufferPointer>?, Slice<UnsafeRawBufferPointer>?)
        var position = 1
        while position < kept.count, kept[position] == UInt8(ascii: "\"") {
            let key = position..<end(ofValueAt: position, in: kept)
            position = end(ofValueAt: min(key.upperBound + 1, kept.count), in: kept)
            guard position > key.upperBound + 1 else { break }
            let value = kept[(key.upperBound + 1)..<position]
            switch key.count {
            case 10 where kept[key].elementsEqual("\"subtitle\"".utf8): subtitle = value
            case 11 where kept[key].elementsEqual("\"image_url\"".utf8): imageURL = value
            default: break
            }
            position += 1
        }
        return (subtitle, imageURL)
    }

    /// The JSON object without the fields that only a push needs.
    /// - Parameter kept: as `text`.
    package static func shownText(of kept: String) -> String {
        var kept = kept
        return kept.withUTF8 { bytes in
            let (subtitle, imageURL) = shown(in: UnsafeRawBufferPointer(bytes))
            let members = [("subtitle", subtitle), ("image_url", imageURL)].compactMap { name, value in
                value.map { "\"\(name)\":" + String(decoding: $0, as: UTF8.self) }
            }
            return "{" + members.joined(separator: ",") + "}"
        }
    }

    /// The place behind a value of an object, in JSON without spaces.
    private static func end(ofValueAt start: Int, in text: UnsafeRawBufferPointer) -> Int {
        var (depth, position, isInString) = (0, start, false)
        while position < text.count {
            let byte = text[position]
            if isInString {
                if byte == UInt8(ascii: "\\") { position += 1 } else { isInString = byte != UInt8(ascii: "\"") }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInString = true
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: ","), UInt8(ascii: ":"): if depth == 0 { return position }
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    if depth == 0 { return position }
                    depth -= 1
                default: break
                }
            }
            position += 1
        }
        return text.count
    }
}

extension JSONValue {
    /// The value at the end of a path of keys with dots between them.
    package func value(at path: String) -> JSONValue? {
        path.split(separator: ".").reduce(self as JSONValue?) { $0?[String($1)] }
    }

    /// The value without some keys of the object at the end of a path.
    fileprivate func removing(_ keys: Set<String>, at path: [String]) -> JSONValue {
        guard case .object(let members) = self else { return self }
        guard let first = path.first else { return .object(members.filter { !keys.contains($0.key) }) }
        return .object(
            members.map { member in
                guard member.key == first else { return member }
                return Member(member.key, member.value.removing(keys, at: Array(path.dropFirst())))
            })
    }

    /// The object with another one's members laid over it: those of objects in both are merged, others take their place.
    package func merging(_ overlay: [Member]) -> JSONValue {
        guard case .object(var members) = self else { return .object(overlay) }
        for member in overlay {
            guard let place = members.firstIndex(where: { $0.key == member.key }) else {
                members.append(member)
                continue
            }
            if case .object = members[place].value, case .object(let inner) = member.value {
                members[place] = Member(member.key, members[place].value.merging(inner))
            } else {
                members[place] = member
            }
        }
        return .object(members)
    }
}
