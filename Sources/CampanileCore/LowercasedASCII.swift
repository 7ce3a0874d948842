extension StringProtocol {
    /// With small letters for A to Z, and everything else as it is: what HTTP means by equal but for case. Unicode's small
    /// letter of the Kelvin sign would be a k.
    package var lowercasedASCII: String {
        String(decoding: utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }
}
