/// The state of one request's work. One lock decides the race between work that continues or finishes, a connection
/// that suspends, and a server that stops.
struct Suspension {
    enum Phase {
        /// Nothing is being waited for.
        case idle
        /// The daemon's thread works for this connection.
        case running
        /// The connection is suspended; the caller that leaves this phase resumes it, once.
        case suspended
        /// The connection was resumed, and the daemon's thread is on its way.
        case resumed
        /// The work has finished.
        case answered(Response)
        /// The server stops before the work has finished.
        case aborted
    }

    /// An instruction to the daemon's thread.
    enum Decision {
        case answer(Response)
        /// Parts of the work, to be run before anything else.
        case run([UnownedJob])
        /// Ask the library for another call at once; in that one the connection may suspend.
        case comeBack
        case suspended
        case refuse
    }

    /// The place where a part of the work is to run.
    enum Place {
        /// On the daemon's thread, which checks for parts before it suspends.
        case here
        /// On the daemon's thread, which must be resumed first.
        case resume
        /// Anywhere: the request is over.
        case elsewhere
    }

    private var phase = Phase.idle
    private var jobs: [UnownedJob] = []
    /// Distinguishes this request's work from work that outlived an earlier one.
    private var ticket: UInt64 = 0

    mutating func begin() -> UInt64 {
        ticket &+= 1
        phase = .running
        return ticket
    }

    /// Takes a part of the work that can continue.
    mutating func add(_ job: UnownedJob) -> Place {
        switch phase {
        case .running, .resumed:
            jobs.append(job)
            return .here
        case .suspended:
            jobs.append(job)
            phase = .resumed
            return .resume
        case .idle, .answered, .aborted:
            return .elsewhere
        }
    }

    /// Takes the work's answer.
    /// - Returns: whether the connection must be resumed.
    mutating func finish(_ response: Response, ticket: UInt64) -> Bool {
        guard ticket == self.ticket else { return false }
        switch phase {
        case .running, .resumed:
            phase = .answered(response)
            return false
        case .suspended:
            phase = .answered(response)
            return true
        case .idle, .answered, .aborted:
            return false
        }
    }

    /// Decides the next step when the daemon's thread has run work, or is called again after a resumption.
    /// - Parameters:
    ///   - stopping: whether the server stops; then nothing may be suspended.
    ///   - maySuspend: whether the library is done with reading the request: see `MicroHTTPD075.maySuspendAtOnce`.
    ///   - suspend: suspends the connection.
    mutating func settle(stopping: Bool, maySuspend: Bool, suspend: () -> Void) -> Decision {
        switch phase {
        case .answered(let response):
            phase = .idle
            return .answer(response)
        case .running where !jobs.isEmpty, .resumed where !jobs.isEmpty:
            phase = .running
            defer { jobs = [] }
            return .run(jobs)
        case .running where !stopping, .resumed where !stopping:
            guard maySuspend else { return .comeBack }
            phase = .suspended
            suspend()
            return .suspended
        case .suspended:
            return .suspended
        case .running, .resumed, .aborted, .idle:
            phase = .idle
            return .refuse
        }
    }

    /// Ends the wait because the server stops.
    /// - Returns: whether the connection must be resumed.
    mutating func abort() -> Bool {
        guard case .suspended = phase else { return false }
        phase = .aborted
        return true
    }

    /// Ends the request, with or without an answer.
    /// - Returns: the remaining parts of its work, to be run elsewhere.
    mutating func end() -> [UnownedJob] {
        ticket &+= 1
        phase = .idle
        defer { jobs = [] }
        return jobs
    }
}
