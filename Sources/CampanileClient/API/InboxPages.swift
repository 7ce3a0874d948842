/// The pages of the list, each asked for when the loop comes to it.
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
        /// Whose list it is: a cursor of theirs leads through nobody else's.
        private let user = CallUser()
        private var cursor: String?
        private var isAtEnd = false

        init(pages: InboxPages) { self.pages = pages }

        /// A page that failed is asked for again by the next call.
        public mutating func next() async throws -> InboxPage? {
            guard !isAtEnd else { return nil }
            let page = try await pages.api.page(pages.filter, pages.category, pages.pageSize, cursor, as: user)
            cursor = page.nextCursor
            isAtEnd = page.nextCursor == nil
            return page
        }
    }
}
