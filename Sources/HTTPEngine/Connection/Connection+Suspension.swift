import CMicroHTTPD
import Synchronization

/// Waiting for work, on the connection's daemon thread.
extension Connection {
    /// Runs the work that is ready, answers if the work has finished, and else suspends the connection.
    func settle() -> MHD_Result {
        while true {
            let decision = suspension.withLock { suspension in
                let isStopping = engine.stopping.load(ordering: .sequentiallyConsistent)
                return suspension.settle(stopping: isStopping, maySuspend: current.maySuspend) { MHD_suspend_connection(handle) }
            }
            switch decision {
            case .answer(let response): return answer(response)
            case .run(let jobs): for job in jobs { job.runSynchronously(on: asUnownedTaskExecutor()) }
            case .comeBack:
                current.maySuspend = true
                return .YES
            case .suspended: return .YES
            // The work goes on, and may take effect. Only what may be repeated all the same is told to.
            case .refuse: return request.method.isIdempotent ? refuse(.stopping) : hangUp()
            }
        }
    }
}

/// Runs a request's work on the daemon's thread of its connection, even after the work has waited. So no other thread
/// picks it up only to hand the answer back.
extension Connection: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let place = suspension.withLock { suspension in
            let place = suspension.add(job)
            // Under the lock: the request can't end meanwhile, so the handle is still the library's.
            if case .resume = place { MHD_resume_connection(handle) }
            return place
        }
        if case .elsewhere = place { globalConcurrentExecutor.enqueue(job) }
    }
}
