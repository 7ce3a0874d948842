import CampanileCore
import HTTPEngine
import Testing

@testable import CampanileServer

@Suite struct JSONEscapeTests {
    private static let texts = (0...0x2FF).compactMap { Unicode.Scalar($0) }.map { "a\($0)b" } + ["", "\u{2028}\u{1F600}"]

    @Test("answers and values are written alike, and read back as they were")
    func alike() throws {
        for text in Self.texts {
            var buffer = ByteBuffer()
            buffer.appendJSONString(text)
            let written = buffer.finish().withBytes { Array($0) }
            #expect(written == JSONValue.string(text).text)
            #expect(try JSONValue(parsing: written) == .string(text))
        }
    }

    @Test("what Rails would write reads back as it was")
    func rails() throws {
        for text in Self.texts {
            var bytes: [UInt8] = []
            RailsJSON.appendString(text.utf8, to: &bytes)
            #expect(try JSONValue(parsing: bytes) == .string(text))
        }
    }

    @Test("the width of a byte is what it takes when it is written")
    func width() {
        for text in Self.texts {
            #expect(text.utf8.reduce(2) { $0 + JSONEscape.width($1) } == JSONValue.string(text).text.count)
        }
    }
}
