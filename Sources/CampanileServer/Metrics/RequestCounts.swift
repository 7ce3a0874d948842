import HTTPEngine
import SystemSupport
import Synchronization

/// Counts of the requests that were answered, with their statuses and times, by route and method. Each thread of the HTTP engine
/// counts in memory of its own, so counting takes no lock and no other thread's cache line; whoever asks gets the sums.
final class RequestCounts: Sendable {
    /// The requests of one route and method.
    struct Series: Sendable {
        /// The route's pattern; "(no route)" for paths that are none's.
        let route: String
        let method: String
        /// By status, those above 0.
        let statuses: [(status: String, count: UInt64)]
        let nanoseconds: HistogramReading
    }

    /// The most routes that can be told apart.
    private static let routes = 64
    /// By `Method.code`. One of the client's own invention could be anything.
    private static let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "_OTHER"]
    /// The statuses that the program and the HTTP library answer with. 0 stands for a client that left before there was an
    /// answer.
    static let statuses = [
        0, 101, 200, 201, 204, 302, 304, 400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 426, 429, 431, 500, 501, 503, 505,
    ]
    /// From a badge out of memory to a client that reads slowly.
    static let bounds = HistogramBounds([
        100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000, 250_000_000,
        500_000_000, 1_000_000_000, 5_000_000_000,
    ])
    private static let histogramCell = statuses.count + 1
    private static let seriesCells = histogramCell + bounds.cellCount

    private let workers: [Counters]
    /// The cell of each status below 600, as an offset in its series; the one behind the last is for all others.
    private let statusCells: [UInt8]
    private let seriesCells = RequestCounts.seriesCells
    private let histogramCell = RequestCounts.histogramCell
    private let bounds = RequestCounts.bounds
    private let patterns = Mutex<[StaticString]>([])

    /// - Parameter workers: the threads of the HTTP engine.
    init(workers: Int) {
        // Nothing is counted for a route that is never called, and takes no memory: see `Counters`.
        self.workers = (0..<workers).map { _ in
            Counters(count: (Self.routes + 1) * Self.methods.count * Self.seriesCells)
        }
        var cells = [UInt8](repeating: UInt8(Self.statuses.count), count: 600)
        for (cell, status) in Self.statuses.enumerated() { cells[status] = UInt8(cell) }
        statusCells = cells
    }

    /// Takes the router's patterns, before the first request.
    func name(_ patterns: [StaticString]) {
        precondition(patterns.count <= Self.routes, "There are too many routes to count.")
        self.patterns.withLock { $0 = patterns }
    }

    /// Counts a request that is over. On the thread that served it.
    func count(_ request: Request, _ status: Int, _ nanoseconds: UInt64) {
        let route = request.routePatternIndex.map { $0 + 1 } ?? 0
        let series = (route * 8 + request.method.code) * seriesCells
        // There is one for each; a thread more would rather share than end the program.
        let counters = workers[min(request.worker, workers.count - 1)]
        let cell = status >= 0 && status < statusCells.count ? Int(statusCells[status]) : histogramCell - 1
        counters.add(1, at: series + cell)
        bounds.record(nanoseconds, in: counters, at: series + histogramCell)
    }

    /// The series that anything was counted in, in the order of their routes.
    var series: [Series] {
        let names = ["(no route)"] + patterns.withLock { $0 }.map { "\($0)" }
        return names.enumerated().flatMap { route, name in
            Self.methods.enumerated().compactMap { method, methodName in
                series(name, methodName, at: (route * Self.methods.count + method) * Self.seriesCells)
            }
        }
    }

    private func series(_ route: String, _ method: String, at first: Int) -> Series? {
        let names = Self.statuses.map(String.init) + ["other"]
        let counts = names.enumerated().map { cell, name in
            (status: name, count: workers.reduce(UInt64(0)) { $0 &+ $1[first + cell] })
        }
        guard counts.contains(where: { $0.count > 0 }), let one = workers.first else { return nil }
        var nanoseconds = bounds.read(one, at: first + Self.histogramCell)
        for other in workers.dropFirst() { nanoseconds.add(bounds.read(other, at: first + Self.histogramCell)) }
        return Series(route: route, method: method, statuses: counts.filter { $0.count > 0 }, nanoseconds: nanoseconds)
    }
}
