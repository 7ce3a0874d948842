import CampanileCore

/// The result of a restore, and what its operator has to look after.
package struct RestoreReport: Sendable {
    /// The keys and revocations that a newer file of the same database has, and the restored one hasn't.
    struct Since: Sendable {
        let keysMade: [APIKeyRecord]
        let keysRevoked: [APIKeyRecord]
        let usersRevoked: [Revocation]
    }

    /// When the badge of an inbox last changed; nil: never.
    let newestChange: Timestamp?
    /// Valid and revoked ones.
    let keys: [APIKeyRecord]
    let revocations: [Revocation]
    /// How many pushes were owed and don't go any more; nil: they go.
    var settled: Int?
    var secret = LocalSecret.Copy.none
    var since: Since?

    /// Of the backup, before the restore changes it.
    init(of reading: StoreReading) throws {
        newestChange = try reading.inboxes.newest().change
        keys = try reading.apiKeys.list()
        revocations = try reading.revocations.after(Timestamp(milliseconds: 0))
    }

    /// One line for each thing to know.
    package var lines: [String] {
        let end = newestChange.map { "The newest change of a badge in it is of \($0)." } ?? "It holds no notifications."
        return [end, pushes] + secretLines + (since.map(lines) ?? unknownLines)
    }

    private var pushes: String {
        guard let settled else { return "What was owed when the backup was made is sent at the next start." }
        switch settled {
        case 0: return "No push was owed when the backup was made."
        case 1: return "1 push that was owed when the backup was made isn't sent."
        default: return "\(settled) pushes that were owed when the backup was made aren't sent."
        }
    }

    private var secretLines: [String] {
        switch secret {
        case .none: ["There is no secret beside the backup: the server needs the jwt.secret or jwt.jwks_file that it had."]
        case .made: ["The secret beside the backup was restored, too."]
        case .taken: ["There is a secret beside the database already. It stays, and the one beside the backup isn't used."]
        }
    }

    private var unknownLines: [String] {
        let valid = keys.filter { $0.revokedAt == nil }
        return [
            "Keys made later are gone, and keys revoked later are valid again; revoke them again. Valid in it:"
        ] + list(valid.map(RestoreReport.line)) + [
            "Users revoked later aren't revoked any more; revoke them again. Revoked in it:"
        ] + list(revocations.map(RestoreReport.line))
    }

    private func lines(_ since: Since) -> [String] {
        ["Keys made since, which are gone:"] + list(since.keysMade.map(RestoreReport.line))
            + ["Keys revoked since, which are valid again; revoke them again:"]
            + list(since.keysRevoked.map(RestoreReport.line))
            + ["Users revoked since, which they aren't any more; revoke them again:"]
            + list(since.usersRevoked.map(RestoreReport.line))
    }

    private func list(_ lines: [String]) -> [String] { lines.isEmpty ? ["  none"] : lines.map { "  \($0)" } }

    private static func line(_ key: APIKeyRecord) -> String { "\(key.name)\t\(key.app)\tmade \(key.createdAt)" }

    private static func line(_ revocation: Revocation) -> String {
        "\(revocation.userID)\t\(revocation.app)\ttokens before \(revocation.notBefore)"
    }
}

extension RestoreReport.Since {
    /// - Parameter connection: of the newer file.
    init(_ restored: RestoreReport, of reading: StoreReading) throws {
        func isSame(_ left: APIKeyRecord, _ right: APIKeyRecord) -> Bool {
            left.name == right.name && left.createdAt == right.createdAt
        }
        let keys = try reading.apiKeys.list()
        keysMade = keys.filter { key in !restored.keys.contains { isSame($0, key) } }
        keysRevoked = keys.filter { key in
            key.revokedAt != nil && restored.keys.contains { isSame($0, key) && $0.revokedAt == nil }
        }
        usersRevoked = try reading.revocations.after(Timestamp(milliseconds: 0)).filter {
            !restored.revocations.contains($0)
        }
    }
}
