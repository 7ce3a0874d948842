/// The candidates that `name` was probably meant to be, the nearest first; none that is too far.
///
/// Capitals, dashes and underscores don't count, so that `nativeUserAgents` finds `native_user_agents`.
package func nearestNames(to name: String, among candidates: [String]) -> [String] {
    let likeness = NameLikeness(to: name)
    return
        candidates
        .compactMap { candidate in likeness.distance(of: candidate).map { (candidate: candidate, distance: $0) } }
        .sorted { ($0.distance, $0.candidate) < ($1.distance, $1.candidate) }
        .map(\.candidate)
}

/// A measure of how nearly names are like a given one, which may be long, and is taken apart only once.
package struct NameLikeness {
    private let name: String
    private let plain: [Unicode.Scalar]
    /// The edit distance from which on a name is another.
    private let allowed: Int

    package init(to name: String) {
        self.name = name
        plain = plainName(name)
        allowed = plain.count < 6 ? 1 : plain.count < 12 ? 2 : 3
    }

    /// Nil for a name that is too far.
    package func distance(of candidate: String) -> Int? {
        // Needs at least as many insertions, and no scalar is shorter than a byte: the length alone rules out most
        // names.
        guard candidate.utf8.count + allowed >= plain.count else { return nil }
        if candidate == name { return 0 }
        let other = plainName(candidate)
        guard abs(other.count - plain.count) <= allowed else { return nil }
        return editDistance(plain, other, atMost: min(allowed, plain.count - 1))
    }
}

private func plainName(_ name: String) -> [Unicode.Scalar] {
    name.lowercased().unicodeScalars.filter { $0 != "_" && $0 != "-" }.map(\.self)
}

/// Counts the scalars that must be inserted, removed or replaced, or the neighbours swapped, to make one text of the other
/// (optimal string alignment); nil for more than `limit`. Both begin at index 0.
package func editDistance<Letters: RandomAccessCollection>(_ left: Letters, _ right: Letters, atMost limit: Int) -> Int?
where Letters.Element == Unicode.Scalar, Letters.Index == Int {
    guard abs(left.count - right.count) <= limit else { return nil }
    let tooFar = limit + 1
    var beforeLast = Array(repeating: tooFar, count: right.count + 1)
    var last = (0...right.count).map { min($0, tooFar) }
    var current = beforeLast
    for (row, leftScalar) in left.enumerated() {
        // Further from the diagonal than the limit every cell is more than it.
        let (first, end) = (max(0, row - limit), min(right.count, row + limit + 1))
        current[first] = first == 0 ? min(row + 1, tooFar) : tooFar
        var rowLeast = current[first]
        for column in first..<end {
            let rightScalar = right[column]
            let replaced = last[column] + (leftScalar == rightScalar ? 0 : 1)
            var least = min(replaced, last[column + 1] + 1, current[column] + 1)
            if row > 0, column > 0, leftScalar == right[column - 1], left[row - 1] == rightScalar {
                least = min(least, beforeLast[column - 1] + 1)
            }
            current[column + 1] = least
            rowLeast = min(rowLeast, least)
        }
        if end < right.count { current[end + 1] = tooFar }
        // No later row has less than the least of this one.
        guard rowLeast <= limit else { return nil }
        (beforeLast, last, current) = (last, current, beforeLast)
    }
    return last[right.count] <= limit ? last[right.count] : nil
}

/// A sentence about two names that look the same because Unicode calls them equivalent, but differ in their bytes; nil
/// for all others.
package func lookalikeSentence(given: String, declared: String) -> String? {
    guard given == declared, ExactText(given) != ExactText(declared) else { return nil }
    return "\(quotedInSentence(given)) only looks like \(quotedInSentence(declared)): \(PercentEncoding.encode(given)) "
        + "was given, and \(PercentEncoding.encode(declared)) is declared."
}

/// The first of some names, and how many there are besides.
package func fewNames(_ names: [String]) -> String {
    let shown = names.prefix(8).joined(separator: ", ")
    return names.count > 8 ? "\(shown) and \(names.count - 8) more" : shown
}
