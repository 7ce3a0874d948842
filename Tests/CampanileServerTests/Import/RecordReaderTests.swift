import CampanileCore
import Testing

@testable import CampanileServer

/// The forms of files that programs write, and what is said of those that aren't of the form.
@Suite("Records of an imported file") struct RecordReaderTests {
    @Test(
        "CSV is read as RFC 4180 defines it",
        arguments: [
            ("a,b\n1,2\n", ["a=\"1\" b=\"2\""]),
            ("a,b\r\n1,2\r\n3,4", ["a=\"1\" b=\"2\"", "a=\"3\" b=\"4\""]),
            ("\u{FEFF}a,b\n1,2\n", ["a=\"1\" b=\"2\""]),
            ("\"a\",\"b\"\n\"1\",\"2\"", ["a=\"1\" b=\"2\""]),
            ("a,b\n\"x,y\",\"say \"\"hi\"\"\"\n", [#"a="x,y" b="say \"hi\"""#]),
            ("a,b\n\"two\nlines\",\"two\r\nlines\"\n", [#"a="two\nlines" b="two\r\nlines""#]),
            ("a,b\n,\n\"\",2\n", ["", "b=\"2\""]),
            ("a,b\n\n1,2\n\r\n3,4\n\n", ["a=\"1\" b=\"2\"", "a=\"3\" b=\"4\""]),
            ("a\n\"\"\nx\n", ["", "a=\"x\""]),
            ("a,b\n 1 ,2 \n", ["a=\" 1 \" b=\"2 \""]),
            ("a,b\n", []),
        ] as [(String, [String])])
    func csv(_ text: String, _ expected: [String]) throws {
        #expect(try SourceFile(text).records().map(\.summary) == expected)
    }

    @Test("a line of CSV that isn't of the form is told with its number, and the others are read")
    func csvMistakes() throws {
        let text = """
            a,b
            1,2,3
            1
            "two
            lines",x
            5" pipe,x
            "x"y,z
            fine,line

            """
        let records = try SourceFile(text).records()
        #expect(records.map(\.line) == [2, 3, 4, 6, 7, 8])
        #expect(records.map(\.number) == [0, 1, 2, 3, 4, 5])
        #expect(
            records.map(\.summary) == [
                "The line has 3 fields, and the header 2.", "The line has 1 field, and the header 2.",
                #"a="two\nlines" b="x""#,
                "A quote stands in a field without quotes: put the field in quotes, and write the quote twice.",
                "Text follows the quote that ends a field: within quotes a quote is written twice.", #"a="fine" b="line""#,
            ])
        let bare = try SourceFile("a,b\n1,2\rx\n3,4\n").records().map(\.summary)
        #expect(bare.first?.hasPrefix("A carriage return stands without a line feed") == true && bare.last == #"a="3" b="4""#)
        let bytes = Array("a,b\nx,".utf8) + [0xFF, 0x0A] + Array("y,z\n".utf8)
        #expect(try SourceFile(bytes).records().map(\.summary) == ["b is not UTF-8.", #"a="y" b="z""#])
    }

    @Test("a quote that nothing closes ends the reading, and is told where it opens")
    func endless() throws {
        let records = try SourceFile("a,b\n1,2\n\"x,2\n3,4\n").records()
        #expect(records.map(\.line) == [2, 3])
        #expect(records.last?.summary == "A quote opens here that nothing closes. The lines behind it were not looked at.")
        let long = "a,b\n1,2\n\"" + String(repeating: "x,y\n", count: 300_000)
        let last = try SourceFile(long).records().last
        #expect(last?.line == 3 && last?.summary.hasPrefix("The record is longer than 262144 bytes.") == true)
        let whole = "a,b\n1,\"" + String(repeating: "x,y\n", count: 80_000) + "\"\n1,2\n"
        #expect(
            try SourceFile(whole).records().map(\.summary) == ["The record is longer than 262144 bytes.", #"a="1" b="2""#])
    }

    @Test(
        "a header that doesn't fit is told whole",
        arguments: [
            ("", "is empty"), ("a,x,a\n1,2,3\n", "The column “a” is there twice."), ("a,x\n", "“x” is not a column"),
            ("a\n1\n", "The column b is missing."), ("a;b\n1;2\n", "The columns must be separated by commas."),
            ("a\tb\n", "The columns must be separated by commas."),
        ])
    func header(_ text: String, _ sentence: String) throws {
        let file = try SourceFile(text)
        let error = #expect(throws: OperatorError.self) { try file.records(required: ["b"]) }
        #expect(error?.description.contains(sentence) == true, "\(String(describing: error))")
    }

    @Test("NDJSON is a JSON object a line; each line that isn't is told with its number")
    func ndjson() throws {
        let text = """
            \u{FEFF}{"a":"1","b":{"c":1}}\r

            {"a": "2"}
            [1]
            {"a":
            {"x":1}
            {"a":1,"a":2}
            {"b":true}
            """
        let records = try SourceFile(text, named: "file.ndjson").records()
        #expect(records.map(\.line) == [1, 3, 4, 5, 6, 7, 8])
        #expect(
            records.map(\.summary) == [
                #"a="1" b={"c":1}"#, #"a="2""#, "The line must be a JSON object.",
                "The line is not valid JSON: the text ends too early at byte 5.",
                "“x” is not a column: the columns are a, b, c.",
                "The line is not valid JSON: an object has a key twice at byte 7.", "b=true",
            ])
        let long = "{\"a\":\"" + String(repeating: "x", count: 300_000) + "\"}\n{\"a\":\"y\"}\n"
        #expect(
            try SourceFile(long, named: "file.jsonl").records().map(\.summary)
                == ["The record is longer than 262144 bytes.", #"a="y""#])
    }

    @Test(
        "the name says which of the two it is, or else the first character",
        arguments: [
            ("x.csv", "{\"a\"}", ImportFormat.csv), ("x.NDJSON", "a,b", .ndjson), ("x.jsonl", "", .ndjson), ("x", "a,b", .csv),
            ("x.txt", " \n{\"a\":1}", .ndjson), ("-", "\u{FEFF}{}", .ndjson), ("csv", "{}", .ndjson), ("-", "", .csv),
        ])
    func format(_ name: String, _ begin: String, _ expected: ImportFormat) throws {
        #expect(try ImportFormat(name, begin: Array(begin.utf8)) == expected)
    }

    @Test("UTF-16 and a JSON array are refused with the way out")
    func refused() {
        #expect(throws: OperatorError("The file is UTF-16: write it as UTF-8.")) {
            try ImportFormat("x.csv", begin: [0xFF, 0xFE, 0x61, 0x00])
        }
        #expect(throws: OperatorError.self) { try ImportFormat("x.json", begin: Array("[{}]".utf8)) }
    }

    @Test("what a writer of CSV writes is read as it was, wherever a piece of the file ends", arguments: 1...5)
    func roundTrip(_ seed: UInt64) throws {
        var chance = SplitMix(state: seed)
        let alphabet = ["x", ",", "\"", "\n", "\r\n", "é", "🙂", " ", "'", ";"]
        // Some larger than what is read at once.
        let rows = (0..<400).map { row in
            (0..<3).map { _ in
                (0..<(row % 100 == 7 ? 20_000 : Int.random(in: 1...12, using: &chance)))
                    .map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &chance)] }.joined()
            }
        }
        let end = seed.isMultiple(of: 2) ? "\n" : "\r\n"
        let lines = rows.map { row in
            row.map { field in
                let needsQuotes = field.contains { ",\"".contains($0) || $0.isNewline } || Bool.random(using: &chance)
                return needsQuotes ? "\"\(field.replacing("\"", with: "\"\""))\"" : field
            }.joined(separator: ",")
        }
        let records = try SourceFile("a,b,c" + end + lines.joined(separator: end)).records()
        #expect(records.count == rows.count)
        for (record, row) in zip(records, rows) {
            let values = try record.content.get().map { member -> String in
                guard case .string(let text) = member.value else { return "" }
                return text
            }
            #expect(values == row)
        }
        var line = 2
        for (record, row) in zip(records, rows) {
            #expect(record.line == line)
            line += 1 + row.joined().utf8.count { $0 == 0x0A }
        }
    }
}
