import CampanileCore
import SQLEngine

/// The table `idempotency_keys`.
struct IdempotencyRepository<Access: StoreAccess> {
    let access: Access

    /// A transaction on PostgreSQL remembers also that there is no answer, and fails if there is one when it stores its own.
    /// - Parameter since: answers older than this are forgotten.
    func find(key: String, apiKey: APIKeyID, since: Timestamp) throws -> KeptCall? {
        if let unit = access.unit {
            let found = try unit.key(KeyOfProducer(producer: apiKey, text: ExactText(key)))
            guard case .taken(let kept, let at) = found else { return nil }
            return at > since ? kept : nil
        }
        return try access.connection.first(
            """
            SELECT fingerprint, location, answer, made, badges FROM idempotency_keys
            WHERE api_key_id = $1 AND key = $2 AND created_at > $3
            """, apiKey, key, since
        ) { KeptCall($0, from: 0, isOfFile: access.isFile) }
    }
}

extension IdempotencyRepository where Access == StoreTransaction {
    /// On PostgreSQL, after a look for the key, an answer that another node stored meanwhile is an error: then the write runs again and
    /// finds it. Without one, the newer answer takes the place of the older.
    func store(_ answer: IdempotentAnswer, to key: IdempotencyKey) throws {
        let kept = KeptCall(fingerprint: key.fingerprint, answer: answer)
        let name = KeyOfProducer(producer: key.producer, text: ExactText(key.text))
        if try access.unit?.keep(kept, name, at: time(of: key)) == true { return }
        try access.writing.queue(
            """
            INSERT INTO idempotency_keys (api_key_id, key, fingerprint, location, answer, created_at)
            VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (api_key_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, location = excluded.location,
                answer = excluded.answer, created_at = excluded.created_at, made = NULL, badges = NULL
            """, key.producer, key.text, key.fingerprint, answer.location, answer.body, time(of: key))
    }

    /// The time of a key's row. All rows go at the same age, so one that is kept for longer is of a later time.
    private func time(of key: IdempotencyKey) -> Timestamp {
        Timestamp(milliseconds: access.now.milliseconds + key.keptMilliseconds - Limits.idempotencyKeyMilliseconds)
    }

    /// Notes how far the key's call is: the ids that it has made for the first of its users. The next parts come in later transactions.
    ///
    /// Where several nodes have the key, what is noted is what the transaction found, with the part that it adds: if another node has
    /// gone on meanwhile, the transaction fails, and runs again. The same holds for `store`.
    func note(_ made: [KeptCall.Made], of key: IdempotencyKey) throws {
        if let unit = access.unit {
            let name = KeyOfProducer(producer: key.producer, text: ExactText(key.text))
            _ = try unit.key(name)
            _ = try unit.keep(KeptCall(fingerprint: key.fingerprint, answer: nil, made: made), name, at: time(of: key))
            return
        }
        try access.writing.run(
            """
            INSERT OR REPLACE INTO idempotency_keys (api_key_id, key, fingerprint, answer, created_at, made, badges)
            VALUES ($1, $2, $3, x'', $4, $5, $6)
            """, key.producer, key.text, key.fingerprint, time(of: key), made.flatMap(\.id.bytes), made.flatMap(\.badgeBytes))
    }

    /// Forgets the oldest, and those of the same millisecond as the last of them.
    ///
    /// By time alone: a list of keys would be held against every key of their producer.
    /// - Parameter bytes: of answers; the one that exceeds them goes too.
    /// - Returns: whether there may be others.
    func purge(before: Timestamp, limit: Int, bytes: Int64) throws -> Bool {
        var (count, size): (Int, Int64) = (0, 0)
        var last: Timestamp?
        try access.connection.forEach(
            """
            SELECT created_at, coalesce(length(answer), 0) + coalesce(length(made), 0) + coalesce(length(badges), 0)
            FROM idempotency_keys
            WHERE created_at <= $1 ORDER BY created_at LIMIT $2
            """, before, limit
        ) { row in
            guard size < bytes else { return }
            (count, size, last) = (count + 1, size + row.number(1), row.time(0))
        }
        guard let last else { return false }
        try access.writing.queue("DELETE FROM idempotency_keys WHERE created_at <= $1", last)
        access.unit?.memory.keys = [:]
        return count == limit || size >= bytes
    }
}

extension KeptCall {
    /// Reads the columns fingerprint, location, answer, made and badges from `first` on.
    /// - Parameter isOfFile: each row of a file has an answer, if an empty one. On PostgreSQL an older program's node leaves out both.
    init(_ row: borrowing some SQLRow & ~Copyable, from first: Int32, isOfFile: Bool) {
        let hasEnded = row.isNull(first + 3) && (isOfFile || !row.isNull(first + 2))
        let answer = hasEnded ? IdempotentAnswer(location: row.textOrNil(first + 1), body: row.blob(first + 2)) : nil
        let ids =
            row.isNull(first + 3) ? [] : [UUIDv7](all: row.bytes(first + 3)) ?? row.substitute(first + 3, "holds no ids", [])
        let badges = row.isNull(first + 4) ? [] : row.blob(first + 4)
        let made = ids.enumerated().map { place, id in Made(id: id, badge: Made.badge(badges, at: place)) }
        self.init(fingerprint: row.blob(first), answer: answer, made: made)
    }
}

/// A key's row: the answer, or how far the call is.
struct KeptCall: Sendable {
    let fingerprint: [UInt8]
    /// The call's answer; nil while the call hasn't ended.
    let answer: IdempotentAnswer?
    /// The notifications that a call that hasn't ended has made, for the first of its users. Empty: a node of an older program has it under way.
    var made: [Made] = []

    /// One user's notification.
    struct Made: Equatable, Sendable {
        let id: UUIDv7
        /// As the call's part left it; nil: a program of before made it.
        let badge: Badge?
    }
}

extension KeptCall.Made {
    private static let badgeLength = 24

    /// The count, the unread count and the version, the most significant byte of each first; zeros for no badge.
    var badgeBytes: [UInt8] {
        [badge?.count, badge?.unreadCount, badge?.version].flatMap { number in
            withUnsafeBytes(of: (number ?? 0).bigEndian) { [UInt8]($0) }
        }
    }

    /// A badge of the column `badges`, which may be shorter than that of the ids.
    static func badge(_ bytes: [UInt8], at place: Int) -> Badge? {
        let from = place * badgeLength
        guard from + badgeLength <= bytes.count else { return nil }
        let numbers = stride(from: from, to: from + badgeLength, by: 8).map { start in
            bytes[start..<start + 8].reduce(0 as Int64) { $0 << 8 | Int64($1) }
        }
        return numbers[2] == 0 ? nil : Badge(count: numbers[0], unreadCount: numbers[1], version: numbers[2], updatedAt: nil)
    }
}

/// The first answer to a key: what every repetition gets.
struct IdempotentAnswer: Sendable {
    let location: String?
    let body: [UInt8]
}
