/// The pages of the list, each fetched when the loop reaches it.
///
///     for try await page in api.notifications() { show(page.notifications) }
public struct InboxPages: AsyncSequence, Sendable {
    public typealias Element = InboxPage

    let api: CampanileAPI
    let filter: InboxFilter
    let category: String?
    let pageSize: Int

    public func makeAsyncIterator() -> Iterator { Iterator(pages: self) }

    public struct Iterator: AsyncIteratorProtocol {
        let pages: InboxPages
        /// The list's user: their cursor is no use in another's list.
        private let user = CallUser()
        private var cursor: String?
        private var isAtEnd = false

        init(pages: InboxPages) { self.pages = pages }

        /// The next call fetches a failed page again.
        public mutating func next() async throws -> InboxPage? {
            guard !isAtEnd else { return nil }
            let page = try await pages.api.page(pages.filter, pages.category, pages.pageSize, cursor, as: user)
            cursor = page.nextCursor
            isAtEnd = page.nextCursor == nil
            return page
        }
    }
}
