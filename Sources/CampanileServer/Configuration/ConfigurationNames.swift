/// The environment variable of a setting: its path in capitals, with underscores for characters other than letters and
/// digits.
func environmentName(_ path: [String]) -> String {
    let name = (["campanile"] + path).joined(separator: "_").uppercased()
    return String(name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
}

/// Returns whether a variable describes a service: Kubernetes puts such variables into every pod for each Service of its
/// namespace, and Docker into a linked container. For a Service whose name begins with `campanile` they have our settings'
/// prefix, and `CAMPANILE_PORT=tcp://10.0.0.1:3001` even has a setting's name.
func isServiceLink(_ name: String, _ value: String) -> Bool {
    if name.hasSuffix("_PORT"), value.wholeMatch(of: #/(tcp|udp|sctp)://[^\s/]+:[0-9]+/#) != nil { return true }
    let service = #/[A-Z0-9_]+_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)/#
    let port = #/[A-Z0-9_]+_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?/#
    return name.wholeMatch(of: service) != nil || name.wholeMatch(of: port) != nil
}
