/// Where the body ends: what two parsers could read in two ways is what request smuggling is made of.
extension HostileCase {
    private static func post(_ fields: String, _ body: String = "") -> String {
        "POST /a HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n\(body)"
    }

    private static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

    static let framing: [HostileCase] = [
        .init("a body with a Content-Length", "6.2", post("Content-Length: 5", "hello"), .served),
        .init("leading zeros in Content-Length", "6.2", post("Content-Length: 005", "hello"), .served),
        .init("a body on GET", "6", "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", .served),
        .init(
            "Content-Length, then Transfer-Encoding", "6.3",
            post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n\(smuggled)")),
        .init(
            "Transfer-Encoding, then Content-Length", "6.3",
            post("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n\(smuggled)")),
        .init("two different Content-Lengths", "6.3", post("Content-Length: 5\r\nContent-Length: 6", "hello!")),
        .init("the same Content-Length twice", "6.3", post("Content-Length: 5\r\nContent-Length: 5", "hello")),
        .init("a list of equal Content-Lengths", "6.3", post("Content-Length: 5, 5", "hello"), .refused([400])),
        .init("Content-Length with a plus sign", "6.3", post("Content-Length: +5", "hello")),
        .init("Content-Length with a minus sign", "6.3", post("Content-Length: -5", "hello")),
        .init("Content-Length in hexadecimal", "6.3", post("Content-Length: 0x5", "hello")),
        .init("Content-Length with a fraction", "6.3", post("Content-Length: 5.0", "hello")),
        .init("Content-Length with an underscore", "6.3", post("Content-Length: 1_0", "hello hell")),
        .init("an empty Content-Length", "6.3", post("Content-Length:", "hello")),
        .init("Content-Length of a word", "6.3", post("Content-Length: five", "hello")),
        .init("Content-Length of 20 digits", "6.3", post("Content-Length: 00000000000000000005", "hello")),
        .init("Content-Length over 64 bits", "6.3", post("Content-Length: 18446744073709551621", "hello"), .refused([400, 413])),
        .init("white space after Content-Length", "5.1", post("Content-Length: 5 ", "hello"), .either([400])),
        .init("a body shorter than its Content-Length", "6.3", post("Content-Length: 500", "hello")),
        .init("Transfer-Encoding in other letters", "6.1", post("transfer-encoding: Chunked", "0\r\n\r\n"), .served),
        .init("Transfer-Encoding: gzip", "6.1", post("Transfer-Encoding: gzip", smuggled), .refused([400, 501])),
        .init(
            "Transfer-Encoding: gzip, chunked", "6.1", post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
            .refused([400, 501])),
        .init(
            "Transfer-Encoding: chunked, chunked", "6.1", post("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"),
            .refused([400, 501])),
        .init(
            "Transfer-Encoding: chunked, identity", "6.3", post("Transfer-Encoding: chunked, identity", "0\r\n\r\n"),
            .refused([400, 501])),
        .init("Transfer-Encoding: identity", "6.1", post("Transfer-Encoding: identity", smuggled), .refused([400, 501])),
        .init("Transfer-Encoding: xchunked", "6.1", post("Transfer-Encoding: xchunked", smuggled), .refused([400, 501])),
        .init("chunked with a parameter", "6.1", post("Transfer-Encoding: chunked;q=1", smuggled), .refused([400, 501])),
        .init("chunked in quotes", "6.1", post("Transfer-Encoding: \"chunked\"", smuggled), .refused([400, 501])),
        .init(
            "a control character before chunked", "6.1", post("Transfer-Encoding: \u{B}chunked", smuggled), .refused([400, 501])),
        .init("white space after chunked", "5.1", post("Transfer-Encoding: chunked ", "0\r\n\r\n"), .either([400])),
        .init("an empty Transfer-Encoding", "6.1", post("Transfer-Encoding:", smuggled), .refused([400, 501])),
        .init(
            "two lines of chunked", "6.1", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
            .refused([400, 501])),
        .init(
            "chunked, then a line of identity", "6.1",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "0\r\n\r\n"), .refused([400, 501])),
        .init(
            "chunked in HTTP/1.0", "6.1",
            "POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n"),
    ]

    private static func chunked(_ body: String) -> String { post("Transfer-Encoding: chunked", body) }

    static let chunks: [HostileCase] = [
        .init("a chunked body", "7.1", chunked("5\r\nhello\r\n0\r\n\r\n"), .served),
        .init("a chunk extension", "7.1.1", chunked("5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n"), .served),
        .init("leading zeros in a chunk size", "7.1", chunked("0005\r\nhello\r\n000\r\n\r\n"), .served),
        .init("a trailer", "7.1.2", chunked("5\r\nhello\r\n0\r\nX: y\r\n\r\n"), .served),
        .init(
            "framing fields as trailers", "RFC 9110, 6.5.1",
            chunked("5\r\nhello\r\n0\r\nContent-Length: 40\r\nTransfer-Encoding: gzip\r\n\r\n"), .served),
        .init("a chunk size that is no number", "7.1", chunked("xyz\r\nhello\r\n0\r\n\r\n")),
        .init("an empty chunk size", "7.1", chunked("\r\nhello\r\n0\r\n\r\n")),
        .init("a chunk size with 0x", "7.1", chunked("0x5\r\nhello\r\n0\r\n\r\n")),
        .init("a negative chunk size", "7.1", chunked("-5\r\nhello\r\n0\r\n\r\n")),
        .init("a chunk size with a plus sign", "7.1", chunked("+5\r\nhello\r\n0\r\n\r\n")),
        .init("a space before a chunk size", "7.1", chunked(" 5\r\nhello\r\n0\r\n\r\n")),
        .init("a space after a chunk size", "7.1", chunked("5 \r\nhello\r\n0\r\n\r\n")),
        .init("a tab after a chunk size", "7.1", chunked("5\t\r\nhello\r\n0\r\n\r\n")),
        .init("an underscore in a chunk size", "7.1", chunked("0_5\r\nhello\r\n0\r\n\r\n")),
        .init("a chunk size over 64 bits", "7.1", chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"), .refused([400, 413])),
        .init(
            "the largest chunk size of 64 bits", "7.1", chunked("ffffffffffffffff\r\nhello\r\n0\r\n\r\n"), .refused([400, 413])),
        .init("chunk data longer than its size", "7.1", chunked("5\r\nhelloworld\r\n0\r\n\r\n")),
        .init("chunk data without CRLF after it", "7.1", chunked("5\r\nhello0\r\n\r\n")),
        .init("a CR without LF after chunk data", "7.1", chunked("5\r\nhello\r0\r\n\r\n")),
        .init("a CR without LF after a chunk size", "7.1", chunked("5\rhello\r\n0\r\n\r\n")),
        .init("no last chunk", "7.1", chunked("5\r\nhello\r\n")),
        .init("a trailer without a colon", "7.1.2", chunked("5\r\nhello\r\n0\r\nX\r\n\r\n")),
        .init(
            "a bare LF after a chunk size", "7.1", chunked("5\nhello\r\n0\r\n\r\n"),
            .knownGap("the library gives only the data of chunks")),
        .init(
            "a bare LF after chunk data", "7.1", chunked("5\r\nhello\n0\r\n\r\n"),
            .knownGap("the library gives only the data of chunks")),
        .init(
            "a bare LF after the last chunk", "7.1", chunked("5\r\nhello\r\n0\n\r\n"),
            .knownGap("the library gives only the data of chunks")),
        .init(
            "a bare LF in a chunk extension", "7.1.1", chunked("5;a\nhello\r\n0\r\n\r\n"),
            .knownGap("the library gives only the data of chunks")),
        .init(
            "a bare CR in a chunk extension", "7.1.1", chunked("5;a\rb\r\nhello\r\n0\r\n\r\n"),
            .knownGap("the library skips chunk extensions unread")),
        .init(
            "a NUL in a chunk extension", "7.1.1", chunked("5;a\0b\r\nhello\r\n0\r\n\r\n"),
            .knownGap("the library skips chunk extensions unread")),
        .init("a bare LF between trailers", "7.1.2", chunked("5\r\nhello\r\n0\r\nX: y\nZ: z\r\n\r\n")),
        .init("a NUL in a trailer", "7.1.2", chunked("5\r\nhello\r\n0\r\nX: y\0\r\nZ: z\r\n\r\n")),
        .init("a folded trailer", "7.1.2", chunked("5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n")),
        .init("a space in the name of a trailer", "7.1.2", chunked("5\r\nhello\r\n0\r\nX Y: z\r\n\r\n")),
        .init("a space before the colon of a trailer", "7.1.2", chunked("5\r\nhello\r\n0\r\nX : z\r\n\r\n")),
        .init(
            "a bare LF after the last trailer", "7.1.2", chunked("5\r\nhello\r\n0\r\nX: y\n\r\n"),
            .knownGap("where the trailer section ended isn't told")),
    ]

    private static func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

    static let limits: [HostileCase] = [
        .init("a target of 4,096 bytes", "3", "GET /\(repeated("a", 4_095)) HTTP/1.1\r\nHost: a\r\n\r\n", .served),
        .init("a target of 4,097 bytes", "3", "GET /\(repeated("a", 4_096)) HTTP/1.1\r\nHost: a\r\n\r\n", .refused([414])),
        .init("a target of 24,000 bytes", "3", "GET /\(repeated("a", 24_000)) HTTP/1.1\r\nHost: a\r\n\r\n", .refused([414])),
        .init("a target of 100,000 bytes", "3", "GET /\(repeated("a", 100_000)) HTTP/1.1\r\nHost: a\r\n\r\n", .refused([414])),
        .init(
            "a method of 100,000 bytes", "3", "\(repeated("A", 100_000)) / HTTP/1.1\r\nHost: a\r\n\r\n",
            .refused([400, 414, 431, 501])),
        .init(
            "a header section over 16 KiB", "5", "GET /a HTTP/1.1\r\nHost: a\r\nX: \(repeated("x", 16_384))\r\n\r\n",
            .refused([431])),
        .init(
            "a header section of 24,000 bytes", "5", "GET /a HTTP/1.1\r\nHost: a\r\nX: \(repeated("x", 24_000))\r\n\r\n",
            .refused([431])),
        .init(
            "a header section of 100,000 bytes", "5", "GET /a HTTP/1.1\r\nHost: a\r\nX: \(repeated("x", 100_000))\r\n\r\n",
            .refused([431])),
        .init("65 header fields", "5", "GET /a HTTP/1.1\r\nHost: a\r\n\(repeated("X: y\r\n", 64))\r\n", .refused([431])),
        .init("10,000 header fields", "5", "GET /a HTTP/1.1\r\nHost: a\r\n\(repeated("X: y\r\n", 10_000))\r\n", .refused([431])),
        .init(
            "a Cookie header of 15,000 bytes", "5", "GET /a HTTP/1.1\r\nHost: a\r\nCookie: \(repeated("a=b; ", 3_000))\r\n\r\n",
            .served),
        .init("a query of 4,000 separators", "3", "GET /a?\(repeated("&", 4_000)) HTTP/1.1\r\nHost: a\r\n\r\n", .served),
        .init("a Content-Length over the limit", "RFC 9110, 15.5.14", post("Content-Length: 262145"), .refused([413])),
        .init(
            "a chunked body over the limit", "RFC 9110, 15.5.14",
            chunked(repeated("8000\r\n\(repeated("x", 32_768))\r\n", 9) + "0\r\n\r\n"), .refused([413])),
        .init(
            "a chunked body without end", "RFC 9110, 15.5.14", chunked(repeated("8000\r\n\(repeated("x", 32_768))\r\n", 40)),
            .refused([413])),
        .init("100,000 empty lines", "2.2", repeated("\r\n", 100_000), .refused([400, 414])),
    ]
}
