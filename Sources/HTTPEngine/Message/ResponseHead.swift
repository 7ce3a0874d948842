/// The head of an answer that the library doesn't write.
package enum ResponseHead {
    /// The status line, the fields and the empty line.
    package static func bytes(status: Int, reason: String, _ headers: [Response.Header]) -> [UInt8] {
        var text = "HTTP/1.1 \(status) \(reason)\r\n"
        for header in headers {
            switch header.value {
            case .constant(let value): text += "\(header.name): \(value)\r\n"
            case .text(let value): text += "\(header.name): \(value)\r\n"
            case .strongTag(let number): text += "\(header.name): \"\(number)\"\r\n"
            }
        }
        return Array((text + "\r\n").utf8)
    }
}
