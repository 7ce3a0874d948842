import CMicroHTTPD
import Glibc
import Synchronization
package import SystemSupport

/// The options with which a server listens.
package struct HTTPServerOptions: Sendable {
    /// The address to listen on.
    package var host: String
    /// The port; 0 lets the system choose one.
    package var port: UInt16
    /// A listening socket to use instead of one on `host` and `port`. The server closes it.
    package var inherited: Int32?
    /// Event loops, each a thread with its own connections.
    package var threads: Int
    package var limits: Limits
    /// Open connections at once; further ones wait in the kernel's queue. Nil: as many as the process's descriptors
    /// allow, at most 16,384, because each costs `limits.connectionMemory`.
    package var connectionLimit: Int?
    /// Connections that wait in the kernel to be accepted.
    package var backlog: Int32
    /// Monotonic nanoseconds.
    package var clock: @Sendable () -> UInt64

    package init(
        host: String = "127.0.0.1", port: UInt16 = 0, inherited: Int32? = nil,
        threads: Int = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))), limits: Limits = Limits(), connectionLimit: Int? = nil,
        backlog: Int32 = 1_024, clock: @escaping @Sendable () -> UInt64 = MonotonicClock.now
    ) {
        self.host = host
        self.port = port
        self.inherited = inherited
        self.threads = threads
        self.limits = limits
        self.connectionLimit = connectionLimit
        self.backlog = backlog
        self.clock = clock
    }
}

/// An HTTP/1.1 server over libmicrohttpd.
package final class HTTPServer: Sendable {
    /// The resources that exist between start and stop.
    private struct Running: @unchecked Sendable {
        // Sendable: the daemon's pointer is only handed to functions of the library that any thread may call.
        let daemon: OpaquePointer
        let host: String
        let port: UInt16
        let acceptor: SystemThread
        let sweeper: SystemThread
        var accepts = true
    }

    private enum Lifecycle { case new, running(Running), stopped }

    private let options: HTTPServerOptions
    private let engine: Engine
    private let acceptSignal = StopSignal()
    private let sweepSignal = StopSignal()
    private let lifecycle = Mutex(Lifecycle.new)

    /// - Parameters:
    ///   - handler: answers requests. Called on the daemon's threads; its work holds up all connections of that thread.
    ///   - finish: makes the response from the handler's result or error, or from the engine's refusal.
    ///   - completed: called exactly once for each request with a complete request line, when it is over, with the
    ///     status (0 without an answer) and the nanoseconds since the request line was complete. For the access log.
    package init(
        options: HTTPServerOptions = HTTPServerOptions(),
        handler: @escaping Handler,
        finish: @escaping Finish,
        completed: @escaping @Sendable (_ request: Request, _ status: Int, _ durationNanoseconds: UInt64) -> Void = { _, _, _ in }
    ) {
        self.options = options
        engine = Engine(
            limits: options.limits, clock: options.clock, handler: handler, finish: finish, completed: completed)
    }

    deinit {
        stop()
    }

    /// The port it listens on; 0 before the start.
    package var port: UInt16 {
        lifecycle.withLock {
            if case .running(let running) = $0 { running.port } else { 0 }
        }
    }

    /// The host it listens on: an inherited socket's address, else the one in the options.
    package var host: String {
        lifecycle.withLock {
            if case .running(let running) = $0 { running.host } else { options.host }
        }
    }

    package var statistics: Statistics { engine.table.statistics }

    /// The version of libmicrohttpd, if the engine's workarounds and its checks of a request's bytes weren't tested
    /// with it.
    package static var untestedLibrary: String? {
        MicroHTTPD075.isTested(MicroHTTPD075.loaded) ? nil : MicroHTTPD075.loaded
    }

    /// Ends connections that overstayed, and those whose client has hung up unnoticed. The server does it once a second
    /// by itself; tests call it.
    /// - Returns: how many had overstayed.
    @discardableResult
    package func sweep() -> Int { engine.sweep() }
}

// MARK: - Start

extension HTTPServer {
    /// Listens and serves.
    /// - Returns: the port.
    /// - Throws: `SystemError`, a sentence that says why it doesn't listen.
    @discardableResult
    package func start() throws(SystemError) -> UInt16 {
        try lifecycle.withLock { lifecycle throws(SystemError) in
            guard case .new = lifecycle else { throw SystemError("The server was started before.") }
            let running = try SystemThread.withSignalsBlocked { () throws(SystemError) in try launch() }
            lifecycle = .running(running)
            return running.port
        }
    }

    private func launch() throws(SystemError) -> Running {
        let listener =
            if let inherited = options.inherited {
                try Listener(inherited: inherited)
            } else {
                try Listener(host: options.host, port: options.port, backlog: options.backlog)
            }
        let limit = options.connectionLimit ?? Self.affordableConnections(descriptors: Self.raiseDescriptorLimit())
        guard let daemon = startDaemon(connectionLimit: limit) else {
            listener.abandon()
            throw SystemError("libmicrohttpd could not be started.")
        }
        let box = DaemonBox(daemon: daemon)
        let acceptor = SystemThread.required(name: "http-accept") { [engine, acceptSignal] in
            listener.run(until: acceptSignal, hasRoom: { engine.table.acceptedCount < limit }) { socket, address, length in
                engine.table.countAccepted()
                // On failure the library has closed the socket.
                if MHD_add_connection(box.daemon, socket, address, length) != .YES { engine.table.countReleased() }
            }
        }
        let sweeper = SystemThread.required(name: "http-sweep") { [engine, sweepSignal] in
            while !sweepSignal.wait(milliseconds: 1_000) { engine.sweep() }
        }
        return Running(daemon: daemon, host: listener.host, port: listener.port, acceptor: acceptor, sweeper: sweeper)
    }

    /// The daemon's pointer on its way into a thread. Sendable as in `Running`.
    private struct DaemonBox: @unchecked Sendable { let daemon: OpaquePointer }

    private func startDaemon(connectionLimit: Int) -> OpaquePointer? {
        var start = cmhd_options()
        start.flags = MicroHTTPD075.flags
        start.threads = UInt32(max(1, options.threads))
        start.connection_limit = MicroHTTPD075.connectionLimit(connectionLimit, threads: start.threads)
        start.connection_memory = options.limits.connectionMemory
        start.inactivity_seconds = MicroHTTPD075.inactivitySeconds
        start.cls = Unmanaged.passUnretained(engine).toOpaque()
        start.handler = Callbacks.handler
        start.completed = Callbacks.completed
        start.connection = Callbacks.connection
        start.request_line = Callbacks.requestLine
        return cmhd_start(&start)
    }

    /// Raises the limit of open descriptors to what the system permits.
    /// - Returns: that limit.
    package static func raiseDescriptorLimit() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1_024 }
        var raised = limit
        raised.rlim_cur = limit.rlim_max
        if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { limit = raised }
        return Int(min(limit.rlim_cur, 4_000_000))
    }

    /// A quarter of the descriptors, at most 16,384: a request's connection ends after seconds of silence, while a
    /// taken-over connection keeps its descriptor for hours.
    package static func affordableConnections(descriptors: Int) -> Int {
        min(16_384, max(64, descriptors / 4))
    }
}

// MARK: - Stop

extension HTTPServer {
    /// Stops accepting, answers requests in flight with `Connection: close`, and waits for them. Then ends idle
    /// connections; a client that has just sent a request, or just connected, gets its answer first.
    ///
    /// Blocks: call it from your own thread, or use `shutDown(within:)`.
    /// - Parameter nanoseconds: how long to wait at most.
    /// - Returns: whether all requests have their answers.
    @discardableResult
    package func drain(within nanoseconds: UInt64) -> Bool {
        stopAccepting()
        var quietSince: UInt64?
        wait(within: nanoseconds) { waited in
            let isNew = waited < options.limits.firstRequestGrace && engine.table.unusedCount > 0
            guard !isNew, engine.table.busyCount == 0 else {
                quietSince = nil
                return false
            }
            // Repeatedly: a request that still came has kept its connection.
            engine.table.finishIdle()
            let since = quietSince ?? waited
            quietSince = since
            return engine.table.acceptedCount == 0 || waited - since >= 1_000_000_000
        }
        return quietSince != nil
    }

    /// Ends the server, after it has answered suspended requests with 503, or not at all if they may take effect and may not be
    /// repeated (POST, PATCH). Blocks until all threads have ended. Idempotent.
    package func stop() {
        stopAccepting()
        let running: Running? = lifecycle.withLock { lifecycle in
            defer { lifecycle = .stopped }
            if case .running(let running) = lifecycle { return running }
            return nil
        }
        guard let running else { return }
        engine.stopping.store(true, ordering: .sequentiallyConsistent)
        engine.resumeSuspended()
        // Long enough for the 503s to leave, because the library drops unsent answers when it stops. Twice in a row: a
        // connection just accepted shows only when its request line was read.
        var quiet = 0
        wait(within: 1_000_000_000) { _ in
            quiet = engine.table.busyCount == 0 ? quiet + 1 : 0
            return quiet == 2
        }
        sweepSignal.give()
        running.sweeper.join()
        endConnections(within: 1_000_000_000)
        MHD_stop_daemon(running.daemon)
    }

    /// Ends every remaining connection before the daemon stops: see `MicroHTTPD075.shutDownBeforeStop`.
    private func endConnections(within nanoseconds: UInt64) {
        wait(within: nanoseconds) { _ in
            // Repeatedly: a connection just accepted is in the table a moment later.
            engine.table.shutDownAll()
            return engine.table.acceptedCount == 0
        }
    }

    /// Drains, then stops, on a separate thread, so that a task can wait for it.
    /// - Returns: whether everything in flight was answered in time.
    @discardableResult
    package func shutDown(within nanoseconds: UInt64) async -> Bool {
        await withCheckedContinuation { continuation in
            let thread = SystemThread.required(name: "http-stop") {
                let quiet = self.drain(within: nanoseconds)
                self.stop()
                continuation.resume(returning: quiet)
            }
            thread.detach()
        }
    }

    /// Closes the listening socket after accepting the connections in its queue. Open connections continue to their
    /// next answer, which has `Connection: close`. From then on the system refuses new clients. But an inherited socket
    /// keeps its queue: the clients in it, and new ones, wait for the next process. Idempotent.
    package func stopAccepting() {
        let acceptor: SystemThread? = lifecycle.withLock { lifecycle in
            guard case .running(var running) = lifecycle, running.accepts else { return nil }
            running.accepts = false
            lifecycle = .running(running)
            return running.acceptor
        }
        engine.draining.store(true, ordering: .sequentiallyConsistent)
        acceptSignal.give()
        acceptor?.join()
    }

    /// Checks every 5 ms whether a condition holds, and at least once.
    /// - Parameter holds: gets the nanoseconds waited so far.
    private func wait(within nanoseconds: UInt64, until holds: (UInt64) -> Bool) {
        let pause: UInt64 = 5_000_000
        var waited: UInt64 = 0
        while !holds(waited), waited < nanoseconds {
            _ = poll(nil, 0, Int32(pause / 1_000_000))
            waited += pause
        }
    }
}
