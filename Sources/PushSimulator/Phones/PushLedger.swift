import CampanileCore

/// The ids of accepted pushes: finds those accepted twice. Bounded: it remembers the newest 500,000 to 1,000,000.
struct PushLedger {
    private var young: Set<ExactText> = []
    private var old: Set<ExactText> = []
    /// Accepted, and left without an answer on purpose: one more copy of these is no mistake of the sender's.
    private var unanswered: Set<ExactText> = []
    private(set) var duplicates = 0
    /// Duplicates of pushes whose answer was sent.
    private(set) var unexplained = 0
    private(set) var duplicateIDs: [String] = []

    var unansweredCount: Int { unanswered.count }

    mutating func accept(_ text: String, isAnswered: Bool) {
        let id = ExactText(text)
        if young.contains(id) || old.contains(id) {
            duplicates += 1
            if !unanswered.contains(id) { unexplained += 1 }
            if duplicateIDs.count < SimulatorLimits.duplicates { duplicateIDs.append(text) }
        } else {
            if young.count >= SimulatorLimits.pushIDs {
                old = young
                young.removeAll(keepingCapacity: true)
            }
            young.insert(id)
        }
        if !isAnswered { leaveUnanswered(text) }
    }

    /// Notes that another copy of this one may come.
    mutating func leaveUnanswered(_ id: String) {
        if unanswered.count < SimulatorLimits.pushIDs { unanswered.insert(ExactText(id)) }
    }
}
