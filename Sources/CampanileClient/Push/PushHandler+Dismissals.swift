extension PushHandler {
    /// The longest wait of the system for a swipe to be sent. A swipe that takes longer is sent in the foreground.
    static let swipePatience: Duration = .seconds(10)

    /// Says if an alert's entry was read or deleted before it came. `willPresent` then shows nothing, and the extension makes
    /// it passive and silent.
    public func isDismissed(_ payload: PushPayload) -> Bool { dismissals.covers(payload) }

    /// Handles a swipe: marks the notification as read if its category says so (`dismiss: read`), and then takes the server's
    /// number. Otherwise does nothing, because a swipe isn't reading. A mark that doesn't reach the server, or has no user
    /// token, is kept for `cameToForeground`, over launches. iOS reports a swipe only where the app has registered the category
    /// with `customDismissAction`; `PushDelegate` then calls this.
    public func swiped(_ payload: PushPayload) async {
        guard payload.isReadBySwipe, let id = payload.id, !badge.isSignedOut else { return }
        dismissals.change { $0.swipe(id) }
        if await readSwiped() { await refresh() }
    }

    /// Marks what was swiped away as read. A call meanwhile waits for the first one, which takes its swipe too.
    /// - Returns: whether something was marked here, and nothing is owed any more.
    @discardableResult
    func readSwiped() async -> Bool {
        if let reading {
            await reading.value
            return false
        }
        guard !dismissals.record.swiped.isEmpty else { return false }
        var isDone = true
        let task = Task {
            var marked: Set<String> = []
            // Each once, even if it can't be stored that one is settled.
            while isDone, let id = dismissals.record.swiped.first(where: { !marked.contains($0) }) {
                isDone = await mark(id)
                marked.insert(id)
            }
            reading = nil
        }
        reading = task
        await task.value
        return isDone
    }

    /// - Returns: whether the server knows of the swipe, or would refuse it again.
    private func mark(_ id: String) async -> Bool {
        let session = badge.session
        do {
            try await api.markRead(id)
        } catch {
            guard let failure = ClientFailure(error) else { return false }
            guard failure.isFinal else {
                report(failure)
                return false
            }
        }
        dismissals.change(in: session) { $0.settle(id) }
        return true
    }

    /// Asks the server about all that is shown, removes what is handled, and takes the number of the same answer.
    /// - Parameter hasNumber: whether the number was asked for already.
    func reconcile(hasNumber: Bool) async {
        let session = badge.session
        let ids = await dismissals.shownIDs()
        guard !ids.isEmpty else {
            if !hasNumber { await refresh() }
            return
        }
        let failure = await attempt { [api, badge, dismissals] in
            try await badge.refresh(api) { user in
                let answer = try await api.reconcile(ids, as: user)
                let handled = Set(answer.handled)
                dismissals.change(in: session) { $0.dismiss(ids.filter(handled.contains)) }
                await dismissals.remove(where: handled.contains)
                return answer.badge
            }
        }
        guard let failure else { return await icon.update() }
        // Asks for the number alone: the server may be older than the call.
        if !hasNumber, !failure.mayPass { await refresh() }
    }
}

extension ClientFailure {
    /// True if the server would answer the same again.
    fileprivate var isFinal: Bool { !mayPass && ![.signedOut, .insecure, .unknown].contains(kind) }
}
