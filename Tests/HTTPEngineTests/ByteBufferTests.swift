import HTTPEngine
import Testing

@Suite("Byte buffer")
struct ByteBufferTests {
    private func text(_ bytes: ResponseBytes) -> String {
        bytes.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    @Test("Everything appended comes out in order, however often the buffer grows")
    func growth() {
        var buffer = ByteBuffer(capacity: 1)
        var expected = ""
        for number in 0..<2_000 {
            buffer.append("<")
            buffer.append(number)
            buffer.append(UInt8(ascii: ","))
            buffer.append("é\(number)")
            buffer.append(Array(">".utf8))
            expected += "<\(number),é\(number)>"
        }
        #expect(buffer.count == expected.utf8.count)
        #expect(text(buffer.finish()) == expected)
    }

    @Test("Integers are written in decimal", arguments: [Int64.min, -10, -1, 0, 9, 10, 99, 100, 1_234_567_890, Int64.max])
    func integers(value: Int64) {
        var buffer = ByteBuffer()
        buffer.append(value)
        #expect(text(buffer.finish()) == String(value))
    }

    @Test("The largest unsigned integer is written whole")
    func large() {
        var buffer = ByteBuffer()
        buffer.append(UInt64.max)
        #expect(text(buffer.finish()) == "\(UInt64.max)")
    }

    @Test("A writer fills the tail itself")
    func tail() {
        var buffer = ByteBuffer(capacity: 1)
        buffer.append("a")
        buffer.append(upTo: 100) { target in
            target[0] = UInt8(ascii: "b")
            return 1
        }
        buffer.append("c")
        #expect(text(buffer.finish()) == "abc")
    }

    @Test("An empty buffer is an empty body")
    func empty() {
        #expect(ByteBuffer().finish().count == 0)
    }
}
