/// The suite's result as a chapter of the documentation.
enum HostileBytesTable {
    static func text(_ outcomes: [HostileBytesTests.Outcome]) -> String {
        let refused = outcomes.filter { !$0.reachedApplication }
        let hostile = outcomes.filter(\.mustBeRefused)
        let gaps = hostile.filter(\.reachedApplication)
        let served = outcomes.filter { $0.reachedApplication && !$0.isKnownGap }
        return """
            ## Hostile bytes

            The suite in `Tests/HTTPEngineTests/HostileBytes` sends \(outcomes.count) inputs over raw sockets, each with one more request behind it.
            A refused input passes only if neither it nor the request behind it reached the application. \
            Of \(hostile.count) malformed or oversized inputs \(hostile.count - gaps.count) are refused and \(gaps.count) are let through. \
            The other \(outcomes.count - hostile.count) are allowed: they are served, as a control, or refused because Campanile is stricter \
            than it must be (white space after the values of the two framing fields).

            What Campanile refuses is answered with a problem document, what libmicrohttpd's parser refuses before Campanile sees it \
            with the library's own plain page or by closing. Section numbers are of RFC 9112 unless another RFC is named.

            ### Let through: neither the library nor Campanile sees it

            Put a proxy in front (Caddy, nginx, HAProxy): it parses the request itself and writes a new one, so none of these arrives.

            | input | section | why |
            |---|---|---|
            \(gaps.map(gapRow).joined(separator: "\n"))

            ### Refused by Campanile

            \(table(refused.filter(\.byEngine)))

            ### Refused by libmicrohttpd

            \(table(refused.filter { !$0.byEngine }))

            ### Served, because it is allowed

            \(table(served))

            """
    }

    private static func gapRow(_ outcome: HostileBytesTests.Outcome) -> String {
        guard case .knownGap(let reason) = outcome.hostile.expectation else { return "" }
        return "| \(outcome.hostile.name) | \(outcome.hostile.section) | \(reason) |"
    }

    private static func table(_ outcomes: [HostileBytesTests.Outcome]) -> String {
        let rows = outcomes.map { "| \($0.hostile.name) | \($0.hostile.section) | \($0.words) |" }
        return (["| input | section | answer |", "|---|---|---|"] + rows).joined(separator: "\n")
    }
}
