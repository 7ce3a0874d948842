/// Schedules the streams' heartbeats, in buckets of one second, each a list linked through its streams. A write doesn't
/// move a stream. When its bucket's second comes, the wheel visits the stream, and postpones it if it was written to
/// meanwhile. So an idle stream costs one visit in about `interval`, and no memory but its links.
struct TimingWheel {
    static let second: UInt64 = 1_000_000_000

    let interval: UInt64
    /// The descriptor of each bucket's first stream, or -1.
    var buckets: [Int32]
    /// The last second whose bucket was visited.
    var turned: UInt64
    /// Spreads the heartbeats; need not be good.
    private var random: UInt64 = .random(in: 1 ... .max)

    init(interval: UInt64, now: UInt64) {
        self.interval = max(interval, 4)
        buckets = Array(repeating: -1, count: Int(clamping: min(interval / Self.second, 86_400)) + 2)
        turned = now / Self.second
    }

    /// The shortest silence after which a heartbeat is sent.
    var earliest: UInt64 { interval - interval / 4 }

    /// The bucket for a stream last written to at that time.
    mutating func bucket(after write: UInt64) -> Int32 {
        random ^= random << 13
        random ^= random >> 7
        random ^= random << 17
        let due = max((write &+ interval &- random % (interval / 4)) / Self.second, turned + 1)
        return Int32(due % UInt64(buckets.count))
    }
}

extension StreamSet {
    /// Puts a stream into the bucket of its next heartbeat.
    func schedule(_ stream: EventStream) {
        let bucket = wheel.bucket(after: stream.lastWrite)
        let first = wheel.buckets[Int(bucket)]
        stream.bucket = bucket
        stream.before = -1
        stream.after = first
        self[first]?.before = stream.descriptor
        wheel.buckets[Int(bucket)] = stream.descriptor
    }

    func unschedule(_ stream: EventStream) {
        guard stream.bucket >= 0 else { return }
        if stream.before >= 0 {
            self[stream.before]?.after = stream.after
        } else {
            wheel.buckets[Int(stream.bucket)] = stream.after
        }
        self[stream.after]?.before = stream.before
        stream.bucket = -1
    }

    /// Visits the buckets of the seconds that have passed, and sends the due heartbeats.
    func beat() {
        let second = now / TimingWheel.second
        guard second > wheel.turned else { return }
        let count = UInt64(wheel.buckets.count)
        // After a long pause, each bucket once.
        let start = second - wheel.turned > count ? second - count : wheel.turned
        wheel.turned = second
        for passed in (start + 1)...second {
            var next = wheel.buckets[Int(passed % count)]
            wheel.buckets[Int(passed % count)] = -1
            while let stream = self[next] {
                next = stream.after
                stream.bucket = -1
                beatIfSilent(stream)
            }
        }
    }

    private func beatIfSilent(_ stream: EventStream) {
        // A stream with pending bytes isn't silent, and after `finish` nothing may follow.
        let isSilent = stream.state == .open && stream.backlog == nil && now &- stream.lastWrite >= wheel.earliest
        if isSilent, !stream.write(heartbeat) { return }
        // Pending or finishing: visited again as if it had been written to.
        if !isSilent, now &- stream.lastWrite >= wheel.earliest { stream.lastWrite = now }
        schedule(stream)
    }
}
