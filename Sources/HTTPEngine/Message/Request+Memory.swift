extension Request {
    /// A request that came over no connection: for calling handlers and routers in memory.
    ///
    /// It goes through the same checks as one from the network.
    /// - Parameters:
    ///   - target: the raw request target.
    ///   - headers: names in any case.
    /// - Throws: the refusal that the engine would have answered.
    package convenience init(
        _ method: Method, _ target: String, headers: [(String, String)] = [], body: [UInt8] = []
    ) throws(Refusal) {
        self.init(fieldCapacity: headers.count, connections: ConnectionTable())
        contents.pointee.method = method
        var target = target
        target.withUTF8 { bytes in
            if let base = bytes.baseAddress { contents.pointee.storage.append(base, count: bytes.count) }
        }
        contents.pointee.targetLength = storage.count
        switch RequestTarget.parse(rawTarget, method: method) {
        case .success(let parsed): contents.pointee.target = parsed
        case .failure(let refusal): throw refusal
        }
        for (name, value) in headers { try enter(name, value) }
        body.withUnsafeBytes { bytes in
            if let base = bytes.baseAddress { contents.pointee.body.append(base, count: bytes.count) }
        }
    }

    private func enter(_ name: String, _ value: String) throws(Refusal) {
        let nameOffset = append(name)
        let valueOffset = append(value)
        let nameBytes = UnsafeMutableRawBufferPointer(rebasing: contents.pointee.storage.mutableBytes[nameOffset..<valueOffset])
        guard FieldSyntax.lowercaseToken(nameBytes) else {
            throw Refusal.malformed("A header name is not a token.")
        }
        guard FieldSyntax.isFieldValue(storage.slice(valueOffset..<storage.count)) else {
            throw Refusal.malformed("A header value holds a control character.")
        }
        _ = addField(
            Field(
                name: Int32(nameOffset), nameLength: Int32(valueOffset - nameOffset),
                value: Int32(valueOffset), valueLength: Int32(storage.count - valueOffset)))
    }

    private func append(_ text: String) -> Int {
        let offset = storage.count
        var text = text
        text.withUTF8 { bytes in
            if let base = bytes.baseAddress { contents.pointee.storage.append(base, count: bytes.count) }
        }
        return offset
    }
}
