import CMicroHTTPD
import Glibc
import Synchronization

/// A request's life, on the connection's daemon thread.
extension Connection {
    /// The request line is complete. The target is still as the client sent it; next the library decodes it in place.
    func takeRequestLine(_ target: UnsafeMutablePointer<CChar>) {
        let now = engine.clock()
        stages.enter(.receiving, at: now)
        current.progress = .requestLine
        let contents = request.contents
        contents.pointee.receivedAt = now
        contents.pointee.connectionNumber = number
        contents.pointee.worker = worker
        contents.pointee.peerAddress = peerAddress
        contents.pointee.requestNumber = countBegun()
        let length = strlen(target)
        current.targetLength = length
        current.targetAddress = UInt(bitPattern: target)
        let kept = min(length, engine.limits.uriBytes)
        contents.pointee.storage.append(target, count: kept)
        contents.pointee.targetLength = kept
        if kept < length { current.refusal = .uriTooLong }
        MicroHTTPD075.hideQuery(target)
        MicroHTTPD075.hideCookies(handle)
    }

    /// The head is complete: the library's first call. An answer here ends the connection, so only refusals answer.
    func takeHead(method: UnsafePointer<CChar>, version: UnsafePointer<CChar>) -> MHD_Result {
        let head = HeadReader.read(self, method: method, version: version)
        current.progress = .body
        if let refusal = head.refusal { return refuse(refusal) }
        guard head.contentLength <= UInt64(engine.limits.bodyBytes) else {
            // Who waits to be told to send (RFC 9110, section 10.1.1) sends nothing now.
            return request.header("expect") == nil ? refuseBody() : refuse(.bodyTooLarge)
        }
        current.expectedBody = Int(head.contentLength)
        current.isChunked = head.isChunked
        let headSize = cmhd_head_size(handle)
        current.headEnd = UInt(bitPattern: method) + UInt(headSize)
        current.headerBytes = head.sectionSize
        count(head: headSize)
        return .YES
    }

    /// Takes a part of the body, and nothing of one that was refused.
    func takeBody(_ bytes: UnsafePointer<CChar>, count: Int) -> MHD_Result {
        if current.progress == .answered { return .YES }
        guard request.body.count + count <= engine.limits.bodyBytes else { return refuseBody() }
        request.contents.pointee.body.reserve(current.expectedBody)
        request.contents.pointee.body.append(bytes, count: count)
        return .YES
    }

    /// The request is complete: the library's last call, and its first after a resumption.
    func serve() -> MHD_Result {
        if current.progress == .handling { return settle() }
        guard current.progress == .body else { return .NO }
        if current.isChunked, let refusal = TrailerReader.refusal(self) { return refuse(refusal) }
        current.progress = .handling
        switch Result(catching: { try engine.handler(request) }) {
        case .failure(let error):
            return answer(engine.finish(.failure(error), request))
        case .success(.now(let response)):
            return answer(engine.finish(.success(response), request))
        case .success(.later(let work)):
            stages.enter(.handling, at: engine.clock())
            current.hasWork = true
            let ticket = suspension.withLock { $0.begin() }
            // The task starts here at once and returns to this thread after each wait. It holds its request: after a
            // stop or a hang-up it continues elsewhere, while the connection may have another one.
            Task.immediateDetached(executorPreference: self) { [self, request] in
                let result: Result<Response, any Error>
                do { result = .success(try await work()) } catch { result = .failure(error) }
                let response = engine.finish(result, request)
                suspension.withLock { suspension in
                    if suspension.finish(response, ticket: ticket) { MHD_resume_connection(handle) }
                }
            }
            return settle()
        }
    }

    func answer(_ response: Response) -> MHD_Result {
        if case .takeOver(let take) = response.body { return handOver(response.status, take) }
        // A handler that answered at once took too little time for another reading of the clock.
        let wasQuick = current.progress == .handling && request.body.isEmpty && stages.current.stage == .receiving
        stages.enter(.responding, at: wasQuick ? request.receivedAt : engine.clock())
        current.progress = .answered
        return ResponseWriter.queue(response, on: self.handle, closing: engine.draining.load(ordering: .relaxed))
    }

    /// The request is over: answered, refused by the library or left by the client.
    func completeRequest() {
        let now = engine.clock()
        if !current.isReported { report(at: now) }
        if current.hasWork {
            // Work that outlives its request still has to run, to release what it holds.
            for job in suspension.withLock({ $0.end() }) { globalConcurrentExecutor.enqueue(job) }
        }
        recycleRequest()
        stages.enter(.waiting, at: now)
        countEnded()
    }

    /// Tells the application that the request is over for it.
    func report(at now: UInt64) {
        current.isReported = true
        let status = current.takenStatus > 0 ? Int(current.takenStatus) : Int(cmhd_status(handle))
        engine.completed(request, status, now > request.receivedAt ? now - request.receivedAt : 0)
    }
}
