import CampanileCore
import SQLEngine

/// The part of `DeliveryRepository` that PostgreSQL does in its own way: claims and answers are gathered.
extension PostgresStoreUnit {
    func claim(_ key: DeliveryKey, _ reason: DeliveryReason?) throws {
        try change(key)
        gathered.claim(.init(key: key, reason: reason))
    }

    func settle(_ key: DeliveryKey, _ state: DeliveryState, answer: String?) throws {
        try answer?.requireStorable()
        try change(key)
        gathered.answer(.init(key: key, state: state, dueAt: nil, settledAt: now, uncounted: 0, answer: answer))
    }

    func retry(_ key: DeliveryKey, dueAt: Timestamp, isCounted: Bool, answer: String?) throws {
        try answer?.requireStorable()
        try change(key)
        gathered.answer(
            .init(key: key, state: .owed, dueAt: dueAt, settledAt: nil, uncounted: isCounted ? 0 : 1, answer: answer))
    }

    /// Before a change of a delivery is gathered, one that is gathered already goes.
    private func change(_ key: DeliveryKey) throws {
        noteChange()
        if gathered.hasChange(of: key) { try flush() }
    }

    func settleGone(device: DeviceID, token: String, limit: Int) throws -> Int {
        _ = try self.device(device)
        let settled = try writing.first(
            """
            WITH changed AS (
                UPDATE deliveries SET state = 'gone', token = $2, due_at = NULL, settled_at = $3
                WHERE device_id = $1 AND notification_id IN (
                    SELECT notification_id FROM deliveries WHERE device_id = $1 AND due_at IS NOT NULL
                    ORDER BY due_at, notification_id LIMIT $4)
                RETURNING notification_id, device_id), noted AS (
                INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
                SELECT 'gone', notification_id, device_id FROM changed ON CONFLICT DO NOTHING)
            SELECT count(*) FROM changed
            """, device, token, now, limit
        ) { $0.number(0) }
        return Int(settled ?? 0)
    }

    func release(devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws {
        let shards = try PostgresArray(shards: shards)
        // All of them, in their order, before the first changes.
        try writing.queue(
            """
            SELECT 1 FROM device_tokens WHERE id BETWEEN $1 AND $2 AND lease > 0 AND lease < $3 AND shard = ANY ($4)
            ORDER BY id FOR NO KEY UPDATE
            """, devices.lowerBound, devices.upperBound, lease, shards)
        try writing.queue(
            """
            WITH sent AS (
                SELECT sending_id, id FROM device_tokens
                WHERE id BETWEEN $1 AND $2 AND lease > 0 AND lease < $3 AND sending_id IS NOT NULL AND shard = ANY ($6)),
            changed AS (
                UPDATE deliveries d SET state = CASE WHEN $5 THEN 'owed' ELSE 'failed' END,
                    due_at = CASE WHEN $5 THEN least($4, (
                        SELECT min(o.due_at) FROM deliveries o WHERE o.device_id = sent.id AND o.due_at IS NOT NULL)) END,
                    settled_at = CASE WHEN $5 THEN NULL ELSE $4 END
                FROM sent WHERE d.settled_at IS NULL AND d.notification_id = sent.sending_id AND d.device_id = sent.id
                RETURNING d.state, d.notification_id, d.device_id)
            INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
            SELECT state, notification_id, device_id FROM changed WHERE state = 'failed' ON CONFLICT DO NOTHING
            """, devices.lowerBound, devices.upperBound, lease, now, resends, shards)
    }
}
