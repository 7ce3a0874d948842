import CampanileCore

/// One record of a CSV file (RFC 4180): fields separated by commas, in quotes where they hold commas, quotes or line breaks, and a
/// quote within quotes written twice. Lines end with CR LF or with LF alone.
struct CSVRecord {
    /// A field: a part of `bytes`.
    typealias Field = Range<Int>

    private(set) var fields: [Field] = []
    private(set) var mistake: Mistake?
    /// True if a quote that nothing closes swallowed the rest of the file.
    private(set) var isEndless = false
    /// The line breaks in it, its own end included.
    private(set) var lines = 0
    /// The texts of all fields, one after the other and without their quotes.
    private var bytes: [UInt8] = []
    private var hasQuotes = false

    /// True if it is an empty line.
    var isBlank: Bool { fields.count == 1 && fields[0].isEmpty && !hasQuotes }

    func text(_ field: Field) -> ArraySlice<UInt8> { bytes[field] }

    private enum Place { case start, plain, quoted, closed }

    /// Reads one record.
    /// - Parameter isLast: whether the input ends where the buffer does.
    /// - Returns: where the next record begins; nil when this one goes on behind the buffer, or there is none.
    mutating func read(_ input: [UInt8], from start: Int, isLast: Bool) -> Int? {
        fields.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: true)
        (mistake, isEndless, lines, hasQuotes) = (nil, false, 0, false)
        guard start < input.count else { return nil }
        return input.withUnsafeBufferPointer { scan($0, from: start, isLast: isLast) }
    }

    private mutating func scan(_ input: UnsafeBufferPointer<UInt8>, from start: Int, isLast: Bool) -> Int? {
        var place = Place.start
        var fieldStart = 0
        var position = start
        while position < input.count {
            let byte = input[position]
            position += 1
            if place == .quoted {
                if byte == UInt8(ascii: "\"") {
                    place = .closed
                } else {
                    if byte == UInt8(ascii: "\n") { lines += 1 }
                    bytes.append(byte)
                }
                continue
            }
            switch byte {
            case UInt8(ascii: ","):
                fields.append(fieldStart..<bytes.count)
                fieldStart = bytes.count
                place = .start
            case UInt8(ascii: "\n"):
                fields.append(fieldStart..<bytes.count)
                lines += 1
                return position
            case UInt8(ascii: "\r"):
                guard position < input.count || isLast else { return nil }
                // Before a line feed it is a part of the line's end.
                if position < input.count, input[position] != UInt8(ascii: "\n") {
                    note("A carriage return stands without a line feed: lines end with both, or with a line feed.")
                }
            case UInt8(ascii: "\"") where place == .start:
                hasQuotes = true
                place = .quoted
            case UInt8(ascii: "\"") where place == .closed:
                bytes.append(byte)
                place = .quoted
            case UInt8(ascii: "\""):
                note("A quote stands in a field without quotes: put the field in quotes, and write the quote twice.")
            default:
                if place == .closed { note("Text follows the quote that ends a field: within quotes a quote is written twice.") }
                bytes.append(byte)
                if place == .start { place = .plain }
            }
        }
        guard isLast else { return nil }
        if place == .quoted { giveUp("A quote opens here that nothing closes.") }
        fields.append(fieldStart..<bytes.count)
        return position
    }

    private mutating func note(_ sentence: String) { refuse(Mistake(sentence)) }

    /// The first mistake counts.
    mutating func refuse(_ reason: Mistake) {
        if mistake == nil { mistake = reason }
    }

    /// Ends the reading: what follows can't be told from the record's text.
    mutating func giveUp(_ sentence: String) {
        isEndless = true
        mistake = Mistake(sentence + " The lines behind it were not looked at.")
    }
}
