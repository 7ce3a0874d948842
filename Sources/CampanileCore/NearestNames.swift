/// The candidates that `name` was probably meant to be, the nearest first; none that is too far.
///
/// Capitals, dashes and underscores don't count, so that `nativeUserAgents` finds `native_user_agents`.
package func nearestNames(to name: String, among candidates: [String]) -> [String] {
    let plain = plainName(name)
    let allowed = plain.count < 6 ? 1 : plain.count < 12 ? 2 : 3
    let ranked = candidates.compactMap { candidate -> (candidate: String, distance: Int)? in
        let other = plainName(candidate)
        // As many must be inserted at least. Without this a long name would cost its length times that of each candidate.
        guard abs(other.count - plain.count) <= allowed else { return nil }
        return (candidate, editDistance(plain, other))
    }
    return ranked
        .filter { $0.distance <= allowed && $0.distance < plain.count }
        .sorted { ($0.distance, $0.candidate) < ($1.distance, $1.candidate) }
        .map(\.candidate)
}

private func plainName(_ name: String) -> [Character] {
    name.lowercased().filter { $0 != "_" && $0 != "-" }.map(\.self)
}

/// How many characters must be inserted, removed or replaced, or neighbours swapped, to make one text of the other
/// (optimal string alignment).
private func editDistance(_ left: [Character], _ right: [Character]) -> Int {
    var beforeLast: [Int] = []
    var last = Array(0...right.count)
    for (row, leftCharacter) in left.enumerated() {
        var current = [row + 1]
        for (column, rightCharacter) in right.enumerated() {
            let replaced = last[column] + (leftCharacter == rightCharacter ? 0 : 1)
            var least = min(replaced, last[column + 1] + 1, current[column] + 1)
            if row > 0, column > 0, leftCharacter == right[column - 1], left[row - 1] == rightCharacter {
                least = min(least, beforeLast[column - 1] + 1)
            }
            current.append(least)
        }
        (beforeLast, last) = (last, current)
    }
    return last[right.count]
}
