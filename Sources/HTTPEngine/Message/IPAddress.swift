import CMicroHTTPD
import Glibc

/// An IPv4 or IPv6 address, without a zone. An IPv4 address equals its form mapped into IPv6 (`::ffff:192.0.2.1`, RFC
/// 4291 section 2.5.5.2), the form that a socket listening on `::` sees.
package struct IPAddress: Hashable, Sendable {
    /// The 16 bytes as two numbers; IPv4 mapped.
    fileprivate let high: UInt64
    fileprivate let low: UInt64

    private static let mappedPrefix: UInt64 = 0xFFFF

    fileprivate init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    private init(v4 number: UInt32) {
        self.init(high: 0, low: IPAddress.mappedPrefix << 32 | UInt64(number))
    }

    private init(v6 address: in6_addr) {
        (high, low) = withUnsafeBytes(of: address) { bytes in
            (
                UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            )
        }
    }

    package var isIPv4: Bool { high == 0 && low >> 32 == IPAddress.mappedPrefix }

    /// The address of a socket's other end; nil if it isn't a network address.
    init?(_ address: UnsafePointer<sockaddr>) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            self = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                IPAddress(v4: UInt32(bigEndian: $0.pointee.sin_addr.s_addr))
            }
        case AF_INET6:
            self = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { IPAddress(v6: $0.pointee.sin6_addr) }
        default: return nil
        }
    }

    /// Four decimal numbers, or IPv6 in any of its forms, without brackets, port and zone.
    package init?(_ text: some Collection<UInt8>) {
        // The longest address: 8 groups of 4, or 6 of them and an IPv4 address.
        guard text.count < INET6_ADDRSTRLEN else { return nil }
        let found: IPAddress? = withUnsafeTemporaryAllocation(of: CChar.self, capacity: text.count + 1) { buffer in
            for (index, byte) in text.enumerated() {
                // A NUL would end the text for the C library.
                guard byte != 0 else { return nil }
                buffer[index] = CChar(bitPattern: byte)
            }
            buffer[text.count] = 0
            var v4 = in_addr()
            if inet_pton(AF_INET, buffer.baseAddress, &v4) == 1 { return IPAddress(v4: UInt32(bigEndian: v4.s_addr)) }
            var v6 = in6_addr()
            return inet_pton(AF_INET6, buffer.baseAddress, &v6) == 1 ? IPAddress(v6: v6) : nil
        }
        guard let found else { return nil }
        self = found
    }
}

extension IPAddress: CustomStringConvertible {
    package var description: String {
        var text: [UInt8] = []
        append(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends the address as people write it (RFC 5952), IPv4 as four numbers.
    package func append(to text: inout [UInt8]) {
        guard isIPv4 else { return appendIPv6(to: &text) }
        // Every log line has an address, and the C library takes ten times as long.
        for shift in stride(from: UInt64(24), through: 0, by: -8) {
            let number = UInt8(truncatingIfNeeded: low >> shift)
            if number >= 100 { text.append(0x30 + number / 100) }
            if number >= 10 { text.append(0x30 + number / 10 % 10) }
            text.append(0x30 + number % 10)
            if shift > 0 { text.append(UInt8(ascii: ".")) }
        }
    }

    private func appendIPv6(to text: inout [UInt8]) {
        var bytes = (high.bigEndian, low.bigEndian)
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { buffer in
            guard let start = inet_ntop(AF_INET6, &bytes, buffer.baseAddress, socklen_t(INET6_ADDRSTRLEN)) else { return }
            for index in 0..<strlen(start) { text.append(UInt8(bitPattern: start[index])) }
        }
    }
}

/// All addresses that begin with the same bits (CIDR, RFC 4632). An IPv6 network, even `::/0`, holds no IPv4 address.
package struct IPNetwork: Hashable, Sendable {
    /// The first of its addresses.
    package let address: IPAddress
    /// In 128 bits, even for IPv4.
    private let prefixLength: Int

    private init(holding address: IPAddress, prefixLength: Int) {
        let high: UInt64 = prefixLength >= 64 ? .max : ~(.max >> UInt64(prefixLength))
        let low: UInt64 = prefixLength <= 64 ? 0 : prefixLength == 128 ? .max : ~(.max >> UInt64(prefixLength - 64))
        self.address = IPAddress(high: address.high & high, low: address.low & low)
        self.prefixLength = prefixLength
    }

    /// Reads a network, and the address by which the text names it. That may have bits beyond the prefix, as in `10.1.2.3/8`: then it isn't
    /// the network's own address, and the caller decides whether that is a mistake.
    /// - Parameter text: `10.0.0.0/8`, `2001:db8::/32`, or one address.
    /// - Returns: nil if the text is neither.
    package static func parse(_ text: String) -> (network: IPNetwork, address: IPAddress)? {
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count <= 2, let address = IPAddress(parts[0]) else { return nil }
        // With colons the prefix length counts of 128.
        let isShort = address.isIPv4 && !parts[0].contains(UInt8(ascii: ":"))
        let most = isShort ? 32 : 128
        var length = most
        if parts.count == 2 {
            let digits = String(decoding: parts[1], as: UTF8.self)
            guard let number = Int(digits), (0...most).contains(number), String(number) == digits else { return nil }
            length = number
        }
        return (IPNetwork(holding: address, prefixLength: isShort ? length + 96 : length), address)
    }

    package func contains(_ other: IPAddress) -> Bool {
        other.isIPv4 == address.isIPv4 && IPNetwork(holding: other, prefixLength: prefixLength).address == address
    }
}

extension IPNetwork: CustomStringConvertible {
    package var description: String { "\(address)/\(address.isIPv4 ? prefixLength - 96 : prefixLength)" }
}
