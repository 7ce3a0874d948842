import Foundation

/// A value for one thread at a time. (`Mutex` needs iOS 18.)
///
/// Sendable although unchecked: only code that holds the lock reaches the value.
final class Locked<Value: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    init(_ value: Value) { self.value = value }

    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
