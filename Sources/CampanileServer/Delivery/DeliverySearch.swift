import CampanileCore
import SystemSupport

/// Looks through an app's deliveries for its operators. One search at a time, on a reading of its own: whoever looks at much
/// holds up nobody else.
actor DeliverySearch {
    struct Page: Sendable {
        var deliveries: [OperatedDelivery] = []
        /// Where to go on; nil at the end.
        var next: DeliveryKey?
    }

    private let database: Store
    private var last: Task<Page, any Error>?

    init(database: Store) { self.database = database }

    /// A page, newest first. It may be short, or even empty, and have a next one: it ends where enough were looked at.
    func page(_ filter: DeliveryFilter) async throws -> Page {
        let search = Task { [database, before = last] in
            _ = await before?.result
            return try await SystemThread.run(name: "search") { try Self.page(filter, database) }
        }
        last = search
        return try await search.value
    }

    private static func page(_ filter: DeliveryFilter, _ database: Store) throws -> Page {
        try database.survey { reading in
            var wanted: [DeliveryKey] = []
            var looked = 0
            var last: DeliveryKey?
            try reading.deliveries.search(filter, limit: Limits.searchedDeliveries) { key, isWanted in
                looked += 1
                last = key
                if isWanted, wanted.count <= Limits.deliveryPageSize { wanted.append(key) }
            }
            var page = Page()
            if wanted.count > Limits.deliveryPageSize {
                wanted.removeLast()
                page.next = wanted.last
            } else if looked == Limits.searchedDeliveries {
                page.next = last
            }
            page.deliveries = try wanted.compactMap { try reading.deliveries.find($0) }
            return page
        }
    }
}
