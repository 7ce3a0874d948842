import CampanileCore

/// Which pushes were accepted, by their ids: finds those that were accepted twice. Bounded: it remembers the newest
/// 500,000 to 1,000,000.
struct PushLedger {
    private var young: Set<ExactText> = []
    private var old: Set<ExactText> = []
    /// Accepted, and the sender was left without an answer on purpose: one more copy of these is nobody's mistake.
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

    /// Another copy of this one is to be expected.
    mutating func leaveUnanswered(_ id: String) {
        if unanswered.count < SimulatorLimits.pushIDs { unanswered.insert(ExactText(id)) }
    }
}
