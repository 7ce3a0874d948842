import HTTPEngine
import SystemSupport
import Testing

@testable import CampanileServer

@Suite struct RequestCountsTests {
    private let router = Router([
        Route(.get, "/badge", operationID: "get", handler: 0), Route(.delete, "/badge", operationID: "clear", handler: 1),
        Route(.get, "/notifications/{id}", operationID: "show", handler: 2),
    ])

    /// Counts requests, and tells what was counted: the series, each with its statuses and how many fell into each bucket.
    private func counted(_ requests: [(Method, String, Int, UInt64)]) throws -> [String] {
        let counts = RequestCounts(workers: 2)
        counts.name(router.patterns)
        for (method, target, status, nanoseconds) in requests {
            let request = try Request(method, target)
            _ = router.find(request)
            counts.count(request, status, nanoseconds)
        }
        return counts.series.map { one in
            let statuses = one.statuses.map { "\($0.status): \($0.count)" }.joined(separator: ", ")
            return "\(one.route) \(one.method) \(statuses); \(one.nanoseconds.count) in \(one.nanoseconds.sum)"
        }.sorted()
    }

    @Test("a request counts under its route's pattern, its method and its status, with its time")
    func series() throws {
        let counted = try counted([
            (.get, "/badge", 200, 50), (.get, "/badge?x=1", 200, 60), (.get, "/badge", 304, 70), (.delete, "/badge", 200, 80),
            (.get, "/notifications/1", 404, 5), (.get, "/notifications/2", 404, 6), (.head, "/badge", 200, 1),
        ])
        #expect(
            counted == [
                "/badge DELETE 200: 1; 1 in 80", "/badge GET 200: 2, 304: 1; 3 in 180", "/badge HEAD 200: 1; 1 in 1",
                "/notifications/{id} GET 404: 2; 2 in 11",
            ])
    }

    @Test("paths, methods and statuses that a client or the library makes up get no series of their own")
    func bounded() throws {
        let counted = try counted([
            (.get, "/secret/alice", 404, 1), (.get, "/", 404, 1), (.other("BREW"), "/badge", 405, 1),
            (.other("STEAL"), "/badge", 405, 1), (.other("BREW"), "/nowhere", 404, 1), (.put, "/badge", 599, 1),
            (.put, "/badge", 999, 1), (.put, "/badge", 418, 1), (.get, "/badge", 0, 1), (.put, "/badge", -1, 1),
        ])
        #expect(
            counted == [
                "(no route) GET 404: 2; 2 in 2", "(no route) _OTHER 404: 1; 1 in 1", "/badge GET 0: 1; 1 in 1",
                "/badge PUT other: 4; 4 in 4", "/badge _OTHER 405: 2; 2 in 2",
            ])
    }

    @Test("every status that the catalogue of problems has is told apart")
    func statuses() {
        for code in ClientError.Code.allCases { #expect(RequestCounts.statuses.contains(Int(code.status)), "\(code)") }
        #expect(Set(RequestCounts.statuses).count == RequestCounts.statuses.count)
    }
}
