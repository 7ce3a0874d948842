import Foundation

/// A value that one thread at a time may touch. (`Mutex` needs iOS 18.)
///
/// Sendable although unchecked: the value is reached through the lock and in no other way.
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
