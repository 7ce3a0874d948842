package import Glibc

/// A lock with one condition, measured by the monotonic clock.
///
/// Sendable because the two words of the C library never move and may be used by any thread.
package final class ConditionLock: @unchecked Sendable {
    @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    package init() {
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Inlinable: every write takes the lock, and a generic function that isn't specialised asks the runtime for metadata.
    @inlinable
    package func withLock<R>(_ body: () throws -> R) rethrows -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }

    /// Waits for a wake-up, which may come without a reason. The lock is held before and after.
    package func wait() {
        pthread_cond_wait(condition, mutex)
    }

    /// Waits for a wake-up until `deadline`, in nanoseconds of `MonotonicClock`. The lock is held before and after.
    package func wait(until deadline: UInt64) {
        var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        pthread_cond_timedwait(condition, mutex, &time)
    }

    package func wakeAll() {
        pthread_cond_broadcast(condition)
    }
}
