import CMicroHTTPD

/// The functions that the library calls. Each finds its connection and calls it. They run on the library's threads, so
/// nothing here may belong to an actor.
///
/// Ownership: a connection is retained once when the library reports it started and released when the library reports
/// it closed. The request's context pointer is the same connection, unretained. `MHD_OPTION_URI_LOG_CALLBACK` makes the
/// library count the request as known to the application (`client_aware`), and from then on it reports the request
/// completed exactly once, however it ends: after the answer, after a malformed head, or at the stop.
enum Callbacks {
    /// The connection behind a context pointer.
    @inline(__always)
    private static func held(_ context: UnsafeMutableRawPointer?) -> Unmanaged<Connection>? {
        context.map { Unmanaged<Connection>.fromOpaque($0) }
    }

    /// Called when a connection starts or ends.
    static let connection: MHD_NotifyConnectionCallback = { engine, handle, context, code in
        guard let engine, let handle, let context else { return }
        switch code {
        case .CONNECTION_NOTIFY_STARTED:
            let engine = Unmanaged<Engine>.fromOpaque(engine).takeUnretainedValue()
            let connection = engine.table.add { number, worker in
                Connection(
                    handle: handle, socket: cmhd_socket(handle), number: number, worker: worker, startedAt: engine.clock(),
                    engine: engine)
            }
            context.pointee = Unmanaged.passRetained(connection).toOpaque()
        case .CONNECTION_NOTIFY_CLOSED:
            guard let connection = Callbacks.held(context.pointee)?.takeRetainedValue() else { return }
            context.pointee = nil
            connection.engine.table.remove(connection)
        @unknown default:
            return
        }
    }

    /// Called when the request line is complete. The result becomes the request's context.
    static let requestLine:
        @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>?, OpaquePointer?)
            -> UnsafeMutableRawPointer? = { _, target, handle in
                guard let target, let handle, let context = cmhd_socket_context(handle) else { return nil }
                Callbacks.held(context)?._withUnsafeGuaranteedRef { connection in
                    connection.takeRequestLine(UnsafeMutablePointer(mutating: target))
                }
                return context
            }

    /// Called with the head, then with every part of the body, then when the request is complete.
    static let handler: MHD_AccessHandlerCallback = { _, _, _, method, version, upload, uploadSize, context in
        guard let method, let version, let uploadSize, let connection = Callbacks.held(context?.pointee) else { return .NO }
        return connection._withUnsafeGuaranteedRef { connection in
            if connection.current.progress == .requestLine {
                return connection.takeHead(method: method, version: version)
            }
            guard uploadSize.pointee > 0 else { return connection.serve() }
            defer { uploadSize.pointee = 0 }
            guard let upload else { return .NO }
            return connection.takeBody(upload, count: uploadSize.pointee)
        }
    }

    /// Called when the request is over.
    static let completed: MHD_RequestCompletedCallback = { _, _, context, _ in
        guard let context, let connection = Callbacks.held(context.pointee) else { return }
        context.pointee = nil
        connection._withUnsafeGuaranteedRef { $0.completeRequest() }
    }
}
