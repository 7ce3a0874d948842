import CampanileCore
import SQLEngine

/// The table `tenant_badges`: the numbers that producers gave under the policy `given`. A transaction looks and notes under the inbox' lock.
struct TenantBadgeRepository<Access: StoreAccess> {
    let access: Access

    /// The number of each tenant of an inbox, by the tenants' names.
    func all(of inbox: InboxID) throws -> [(tenant: String, count: Int64)] {
        try access.connection.all(
            "SELECT tenant, count FROM tenant_badges WHERE inbox_id = $1 ORDER BY tenant", inbox
        ) { ($0.text(0), $0.number(1)) }
    }

    /// The numbers that an inbox was given before, beside a tenant's number.
    func before(_ tenant: String, of inbox: InboxID) throws -> GivenBadge.Before {
        try access.connection.first(
            """
            SELECT count(*), CAST(coalesce(sum(count), 0) AS bigint), max(count) FILTER (WHERE tenant = $2),
                max(sequence) FILTER (WHERE tenant = $2)
            FROM tenant_badges WHERE inbox_id = $1
            """, inbox, tenant
        ) { row in
            // A sequence is the producer's own, and may be any number.
            let own = row.isNull(3) ? nil : (count: row.number(2), sequence: row.int(3))
            return GivenBadge.Before(tenants: Int(row.number(0)), sum: row.number(1), own: own)
        } ?? GivenBadge.Before(tenants: 0, sum: 0, own: nil)
    }
}

extension TenantBadgeRepository where Access == StoreTransaction {
    /// Notes a tenant's number, unless it was given a newer one.
    /// - Returns: the sum of all tenants' numbers; nil when nothing was noted.
    /// - Throws: `ClientError` 422 for one tenant too many.
    func give(_ given: GivenBadge, to inbox: InboxID) throws -> Int64? {
        guard let sum = try given.sum(after: before(given.tenant, of: inbox)) else { return nil }
        try access.writing.queue(
            """
            INSERT INTO tenant_badges (inbox_id, tenant, count, sequence) VALUES ($1, $2, $3, $4)
            ON CONFLICT (inbox_id, tenant) DO UPDATE SET count = excluded.count, sequence = excluded.sequence
            """, inbox, given.tenant, given.count, given.sequence)
        return sum
    }
}
