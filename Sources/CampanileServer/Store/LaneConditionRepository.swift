import CampanileCore

/// The table `lane_conditions`: the stopped lanes, for readers in another process.
protocol LaneConditionReading {
    func all() throws -> [(lane: Lane, condition: LaneCondition)]
}

protocol LaneConditionRepository: LaneConditionReading {
    /// - Parameter condition: nil for a lane that runs again.
    /// - Parameter node: whose finding it is; nil: the one server's of a SQLite file.
    func set(_ condition: LaneCondition?, _ lane: Lane, node: UUIDv7?) throws

    /// Removes all conditions: a start finds out for itself.
    func clear() throws
}

extension LaneConditionRepository {
    func set(_ condition: LaneCondition?, _ lane: Lane) throws { try set(condition, lane, node: nil) }
}
