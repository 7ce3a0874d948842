extension BidirectionalCollection {
    /// Without the blank elements at both ends.
    @inlinable
    package func trimmed(_ isBlank: (Element) -> Bool) -> SubSequence {
        guard let first = firstIndex(where: { !isBlank($0) }), let last = lastIndex(where: { !isBlank($0) })
        else { return self[endIndex...] }
        return self[first...last]
    }
}

extension StringProtocol {
    /// Without spaces and tabs at both ends.
    @inlinable
    package var trimmed: String { String(trimmed { $0 == " " || $0 == "\t" }) }
}
