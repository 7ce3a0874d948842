import Foundation

/// The types of image that an alert of iOS can show (Apple: *UNNotificationAttachment*, Supported File Types).
enum AlertImageType: String, CaseIterable {
    case jpeg = "image/jpeg"
    case png = "image/png"
    case gif = "image/gif"

    /// The request's `Accept`.
    static let accepted = allCases.map(\.rawValue).joined(separator: ", ")

    /// - Parameter contentType: an answer's `Content-Type`: in any case, parameters aside (RFC 9110 section 8.3.1).
    init?(contentType: String?) {
        guard let name = contentType?.split(separator: ";", omittingEmptySubsequences: false).first else { return nil }
        self.init(rawValue: name.trimmingCharacters(in: .whitespaces).lowercased())
    }

    /// - Parameter content: a file, whose first bytes tell its type.
    init?(content: Data) {
        guard let type = AlertImageType.allCases.first(where: { $0.beginnings.contains { content.starts(with: $0) } }) else {
            return nil
        }
        self = type
    }

    private var beginnings: [[UInt8]] {
        switch self {
        case .jpeg: [[0xFF, 0xD8, 0xFF]]
        case .png: [[0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]]
        case .gif: [Array("GIF87a".utf8), Array("GIF89a".utf8)]
        }
    }

    /// The ending of the file's name, by which iOS knows the type.
    var fileExtension: String {
        switch self {
        case .jpeg: "jpg"
        case .png: "png"
        case .gif: "gif"
        }
    }
}
