import NIOCore
import NIOHTTP2

/// Carries out a verdict: the proper answer, or the commanded fault.
extension ServiceConnection {
    func carryOut(_ verdict: SimulatorCore.Verdict, on id: HTTP2StreamID) {
        guard verdict.delayMilliseconds > 0 else { return carryOutNow(verdict, on: id) }
        after(milliseconds: verdict.delayMilliseconds) { connection in
            if connection.streams[id] != nil { connection.carryOutNow(verdict, on: id) }
        }
    }

    private func carryOutNow(_ verdict: SimulatorCore.Verdict, on id: HTTP2StreamID) {
        switch verdict.fault {
        case .goaway(let last, let reason)?:
            goAway(last, reason: reason, present: id)
            if verdict.fault?.leavesAnswer == true { answer(verdict.answer, on: id) } else { refuse(id) }
        case .refusedStream?:
            refuse(id)
        case .settings(let limit, let requests)?:
            lower(to: limit, forRequests: requests)
            answer(verdict.answer, on: id)
        case .silence?:
            // It counts as open until the client gives it up.
            break
        case .halfOpen?:
            flushIfNeeded()
            giveUpStreams()
            wire.freeze()
        case .trickle(let gap)?:
            trickle(verdict.answer, on: id, gap: gap)
        case .close?:
            leave()
        case .resetStream(let code, _)?:
            if let id = streams.removeValue(forKey: id)?.acceptedID { core.leftUnanswered(id) }
            reset(id, HTTP2ErrorCode(networkCode: Int(code)))
            closeIfDone()
        case .certificate(let change)?:
            answer(verdict.answer, on: id)
            flushIfNeeded()
            changeCertificate(change)
        case .status?, .brokenJSON?, .oversizedBody?, .latency?, .outage?, nil:
            answer(verdict.answer, on: id)
        }
    }

    private func refuse(_ id: HTTP2StreamID) {
        if streams.removeValue(forKey: id) != nil { reset(id, .refusedStream) }
        closeIfDone()
    }

    /// Runs work on this connection's event loop, unless it has ended by then.
    private func after(milliseconds: Int, _ work: @escaping (ServiceConnection) -> Void) {
        guard let context else { return }
        context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(milliseconds))) {
            if self.context != nil { work(self) }
        }
    }

    // MARK: - GOAWAY

    /// The time for which clients may continue after a GOAWAY that promises answers to everything sent.
    private static let drainMilliseconds = 50

    private func goAway(_ last: FaultAction.LastStream, reason: String, present: HTTP2StreamID) {
        guard !isLeaving else { return }
        let text = Array("{\"reason\":\"\(reason)\"}".utf8)
        switch last {
        case .all:
            // Two steps (RFC 9113 section 6.8): first "open nothing new", then the real last stream.
            flushIfNeeded()
            wire.inject(RawFrame.goAwayForAll(debugData: text))
            after(milliseconds: ServiceConnection.drainMilliseconds) { connection in
                connection.finish(after: connection.newestOpened, text)
                connection.closeIfDone()
            }
        case .present:
            finish(after: max(present, newestProcessed), text)
        case .older(let count):
            // Must not call a processed request unprocessed.
            let oldest = HTTP2StreamID(max(0, Int(present) - 2 * max(1, count)))
            finish(after: max(oldest, newestProcessed), text)
        }
    }

    private func finish(after last: HTTP2StreamID, _ text: [UInt8]) {
        isLeaving = true
        let frame = HTTP2Frame.FramePayload.goAway(
            lastStreamID: last, errorCode: .noError, opaqueData: ByteBuffer(bytes: text))
        for id in streams.keys where id > last { streams[id] = nil }
        write(frame, .rootStream)
    }

    // MARK: - Trickle

    private func trickle(_ answer: SimulatedAnswer, on id: HTTP2StreamID, gap: Int) {
        writeHead(answer, on: id, isEnd: false)
        trickle(answer.body[...], on: id, gap: gap)
    }

    private func trickle(_ rest: ArraySlice<UInt8>, on id: HTTP2StreamID, gap: Int) {
        after(milliseconds: gap) { connection in
            guard connection.streams[id] != nil else { return }
            guard rest.count > 1 else {
                connection.streams[id] = nil
                connection.writeBody(rest, on: id, isEnd: true)
                return connection.closeIfDone()
            }
            connection.writeBody(rest.prefix(1), on: id, isEnd: false)
            connection.trickle(rest.dropFirst(), on: id, gap: gap)
        }
    }
}
