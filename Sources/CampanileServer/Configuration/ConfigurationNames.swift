/// The candidate that `name` was probably meant to be, if one is near enough.
///
/// Capitals, dashes and underscores don't count, so that `nativeUserAgents` finds `native_user_agents`.
func nearestName(to name: String, among candidates: [String]) -> String? {
    let plain = plainName(name)
    let allowed = plain.count < 6 ? 1 : plain.count < 12 ? 2 : 3
    let ranked = candidates.map { (candidate: $0, distance: editDistance(plain, plainName($0))) }
    return ranked
        .filter { $0.distance <= allowed && $0.distance < plain.count }
        .min { ($0.distance, $0.candidate) < ($1.distance, $1.candidate) }?
        .candidate
}

/// The environment variable of a setting: its path in capitals, with underscores for whatever is neither letter nor
/// digit.
func environmentName(_ path: [String]) -> String {
    let name = (["campanile"] + path).joined(separator: "_").uppercased()
    return String(name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
}

/// Whether a variable tells of a service: Kubernetes puts such into every pod for each Service of its namespace, and Docker
/// into a container that is linked. A Service that is called `campanile`, or whose name begins so, gives them names that begin
/// like our settings', and one, `CAMPANILE_PORT=tcp://10.0.0.1:3001`, that of a setting.
func isServiceLink(_ name: String, _ value: String) -> Bool {
    if name.hasSuffix("_PORT"), value.wholeMatch(of: #/(tcp|udp|sctp)://[^\s/]+:[0-9]+/#) != nil { return true }
    let service = #/[A-Z0-9_]+_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)/#
    let port = #/[A-Z0-9_]+_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?/#
    return name.wholeMatch(of: service) != nil || name.wholeMatch(of: port) != nil
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
