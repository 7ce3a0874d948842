/// Every limit of the program, with its unit; docs/limits.md and docs/capacity.md print them. (The limits of the HTTP head and
/// body are in HTTPEngine's `Limits`, the writer's queue in SQLEngine's `DatabaseOptions`, and a deep link's bytes in
/// CampanileCore's `DeepLink`, because apps hold to them too.)
package enum Limits {
    // What a producer sends
    static let userIDBytes = 255
    static let recipients = 1_000
    static let givenCount: ClosedRange<Int64> = 0...99_999
    static let tenantBytes = 64
    static let tenantsPerUser = 100
    static let readsPerCall = 100
    static let titleBytes = 256
    static let bodyBytes = 2_048
    static let categoryBytes = 64
    static let dataKeys = 32
    static let dataKeyBytes = 64
    static let dataBytes = 2_048
    static let soundBytes = 64
    static let collapseKeyBytes = 64
    static let threadIDBytes = 64
    /// Seconds of a push's `ttl`: FCM takes no more (Firebase, "FCM HTTP v1 API", Android's `ttl`).
    static let lifetimeSeconds: Int64 = 2_419_200
    static let idempotencyKeyBytes = 255
    static let appNameBytes = 64
    static let cookieNameBytes = 64
    static let apiKeyNameBytes = 64

    // What a device sends
    static let devicesPerUser = 50
    /// Tokens that left, of which it is kept when; so many of each user's, the last.
    static let leftTokensPerUser = 50
    /// 64 today, but Apple says not to rely on it.
    static let iosTokenHexDigits = 1...400
    /// Percent-encoded it has to fit the URI of `DELETE /device_tokens/{token}`.
    static let androidTokenBytes = 1...1_024
    /// Firebase's are 22 long today.
    static let installationIDBytes = 1...64
    static let appVersionBytes = 64
    static let localeBytes = 64
    /// Bridge components that `GET /client` lists.
    static let bridgeComponents = 64

    /// Users of a call that is one transaction. More take several, each of as many users at most, and others write in between.
    static let recipientsPerPart = 100
    /// The pushes that a part owes at most, however few users it has; each user counts as `recipientCost` of them.
    static let createdPerPart = 600
    static let recipientCost = 4

    /// How long the push of an edit is tried.
    static let editMilliseconds: Int64 = 24 * 3_600_000
    /// By so many attempts the wait for the next attempt at it is reckoned.
    static let attemptsOfEdit: Int64 = 2
    /// Entries that one call by an external id withdraws.
    static let withdrawnPerCall = 100
    /// Ids that one call reconciles.
    static let reconciledIDs = 100

    /// Dry runs that the server makes at once.
    static let dryRuns = 4
    /// Dry runs that wait for those.
    static let waitingDryRuns = 100

    // The list
    static let pageSize = 50
    static let pageSizeRange = 1...100
    /// Rows that a page looks at for a `status` or a `category`, which no index finds; it may be short then.
    static let searchedRows = 1_000
    /// Notifications that one transaction of marking all read looks at; more take several, and others write in between.
    static let markedPerTransaction = 1_000
    /// A larger `data` or `payload` goes into another table, so that 50 rows without it stay on few pages of the database.
    static let dataInRowBytes = 256

    /// The time by which a restored database goes on ahead of the clock with ids, versions and sequences: more than any clock is
    /// wrong.
    static let restoreAheadMilliseconds: Int64 = 24 * 3_600_000

    // What is kept
    static let idempotencyKeyMilliseconds: Int64 = 24 * 3_600_000
    static let toldMilliseconds: Int64 = 24 * 3_600_000
    /// The time after which it is noted again that a device named itself.
    static let seenMilliseconds: Int64 = 24 * 3_600_000
    static let sandboxPushes = 1_000
    static let rememberedTokens = 65_536
    /// As many tokens of 1 KiB, which few are.
    static let rememberedTokenBytes = 64 * 1_024 * 1_024
    static let rememberedBadges = 65_536
    /// A bearer token beyond this is refused unread.
    static let bearerTokenBytes = 8_192

    // Streams
    /// The defaults of `streams.per_user` and `streams.total`.
    static let streamsPerUser = 50
    static let streamsInTotal = 10_000
    /// Threads that keep streams, at most; not more than processors.
    static let streamThreads = 4
    /// Descriptors kept for the database, the log and the pushes.
    static let otherDescriptors = 256
    /// The time for which events are kept for clients that reconnect.
    static let eventMilliseconds: Int64 = 24 * 3_600_000
    /// The time for which an inbox's events are recorded after one of its streams opened, so that clients that reconnect within
    /// the day that events are kept find them.
    static let recordingMilliseconds: Int64 = 2 * 24 * 3_600_000
    /// Events, and bytes of their data, sent in one go.
    static let eventsPerLook = 200
    static let bytesPerLook = 64 * 1_024
    /// Audiences that are looked at in one go, when many changed at once or another process wrote.
    static let audiencesPerTurn = 100
    /// Reads of a PostgreSQL database that a thread of streams has under way: so many for inboxes that changed, and so many for
    /// streams that open.
    static let hubReads = 4
    /// Inboxes whose positions are asked for in one statement.
    static let positionsPerLook = 2_000
    /// A client that missed more events than this must read the list again.
    static let replayedEvents = 1_000
    static let replayedBytes = 128 * 1_024
    /// Unsent bytes of a reader from which on it is cut off.
    static let streamPendingBytes = 256 * 1_024
    /// A stream token opens streams for so long.
    static let streamTokenMilliseconds: Int64 = 60_000
    static let streamLifetimeMilliseconds: ClosedRange<Int64> = 1_800_000...3_600_000
    /// The time that clients wait before they reconnect: by themselves, and at most after the server has ended their stream.
    static let streamRetryMilliseconds: Int64 = 2_000
    static let streamReturnMilliseconds: Int64 = 5_000
    /// For so many seconds after another process wrote, streams that open meanwhile are held against the revocations.
    static let revocationLooks = 5
    /// Revocations of so long ago are looked at again: another process' clock may differ.
    static let revocationOverlapMilliseconds: Int64 = 60_000

    // The delivery worker
    /// In flight together; from there on each part of a lane has only its reserved places.
    static let pushesInFlight = 2_048
    static let pushesInFlightPerPart = 1_000
    static let pushesInFlightReserved = 32
    /// Devices claimed, and answers settled, in one transaction.
    static let claimedDevices = 256
    static let settledAnswers = 512
    /// Devices of one shard that a node looks at for a claim on a cluster; more if it has few shards.
    static let shardLook = 16
    /// Alerts that have become pointless, settled in one transaction.
    static let pointlessAlerts = 200
    /// Writes in one transaction from which on the delivery worker makes pauses.
    static let busyWriter = 8
    static let deliveryPauseMilliseconds: Int64 = 10
    /// Its pauses on a cluster, where what is claimed and settled together is a transaction of its own, for which the server and its
    /// standby work as hard as for a write.
    static let clusterDeliveryPauseMilliseconds: Int64 = 20
    static let syncDelayMilliseconds: Int64 = 2_000
    /// A sync that follows another one waits for a pause of this length, until `readingMilliseconds` after the other.
    static let readingPauseMilliseconds: Int64 = 5_000
    static let readingMilliseconds: Int64 = 30_000
    static let deliveryAttempts = 7
    static let unansweredMilliseconds: Int64 = 5_000
    static let unprocessedMilliseconds: Int64 = 1_000
    static let misconfiguredMilliseconds: Int64 = 5_000
    static let answerReasonBytes = 200
    /// Answers kept per delivery, the newest.
    static let answersPerDelivery = 10

    // A part of a lane that fails
    /// Failures in a row that close it.
    static let outageFailures = 10
    /// Users to whose devices pushes failed: so many close it by answers that call the configuration wrong, while others were accepted this long
    /// ago at most. With fewer of them, one that is closed is looked through for the devices of others.
    static let failingUsers = 3
    static let flowingMilliseconds: Int64 = 60_000
    static let firstProbeMilliseconds: Int64 = 1_000
    static let outageProbeMilliseconds: Int64 = 60_000
    static let parkedProbeMilliseconds: Int64 = 15 * 60_000
    /// So many tokens are believed to be another app's before any push of the lane was accepted, and the tokens of so many users later.
    static let foreignTokensTolerated = 2
    /// A clock set back by more than this is noticed.
    static let clockJumpMilliseconds: Int64 = 60_000
    /// Ids of devices that are looked at in one go then, and alerts or devices that come earlier in one transaction.
    static let clockLook: Int64 = 5_000
    static let earlierPerTransaction = 200
    /// So many tokens of an app may die in a minute whatever their share is.
    static let deadTokensTolerated = 10
    static let sparingMilliseconds: Int64 = 10 * 60_000
    /// Rows walked in one transaction when a start looks for the leases of an earlier one.
    static let leaseRecoveryRows: Int64 = 10_000
    static let leaseRecoveryLook: Int64 = 500_000

    // A node of a cluster
    /// The shards that device tokens are dealt to. The database has a row for each.
    static let shards = 256
    /// The time between two signs of a node's life, and the silence after which the others no longer count on it.
    static let nodeBeatMilliseconds: Int64 = 1_500
    static let nodeSilenceMilliseconds: Int64 = 7_000
    /// After so long a time without an answer of the database a node begins anew to watch the others.
    static let observationGapMilliseconds: Int64 = 4_000
    /// For how long a silent node is still listed.
    static let nodeMemoryMilliseconds: Int64 = 3_600_000
    /// The time for which a node has a shard after a beat, and how much earlier it stops claiming and sending.
    static let shardLeaseMilliseconds: Int64 = 7_000
    static let shardMarginMilliseconds: Int64 = 2_000
    /// The time that a node keeps a shard after it stopped claiming of it: until then it may send what it had claimed.
    static let shardLeavingMilliseconds: Int64 = 5_000
    /// The time for which what the last owner of a shard had in flight is left alone: an answer takes 20 s at most.
    static let takeoverMilliseconds: Int64 = 20_000
    /// The most that the clocks of a node and of its database may be apart before `campanile doctor` finds it.
    static let clockDifferenceMilliseconds: Int64 = 5_000
    /// Rows of a table, and bytes of their JSON, that `campanile move` writes in one transaction.
    static let movedRows = 2_000
    static let movedBytes = 2_097_152

    // A cable connection (ActionCable over WebSocket)
    static let cableSubscriptions = 100
    static let cableIdentifierBytes = 4_096
    /// Bytes of all identifiers of a connection together.
    static let cableIdentifiersBytes = 64 * 1_024
    /// Of one connection to one stream, each under another identifier; and the bytes of those.
    static let cableSubscriptionsPerStream = 4
    static let cableIdentifierBytesPerStream = 4_096
    /// The streams of an app's own that an operator is shown.
    static let heardStreamsShown = 20
    /// The bytes of a connection's name, which the welcome writes in hexadecimal digits.
    static let sidBytes = 16
    /// Of one message of a client, and so of one frame.
    static let cableMessageBytes = 64 * 1_024
    /// Messages, pings and pongs of a client between two of our pings; more close the connection.
    static let cableFramesPerPing = 600
    static let cableBytesPerPing = 512 * 1_024
    /// Bytes read at once: a power of two.
    static let cableReadBytes = 512
    /// Bytes that a client has not taken yet; beyond them its events and requests wait.
    static let cableUnsentBytes = 64 * 1_024
    /// News that wait until a client takes them; more cut it off.
    static let cableWaitingBytes = 256 * 1_024
    /// Bytes sent to one subscription in its turn, and to all together before sockets and pings get theirs; at least
    /// one frame.
    static let cableTurnBytes = 32 * 1_024
    static let cableRoundBytes = 256 * 1_024
    /// The least that a frame counts there, because sending it costs more than its bytes; and the cost of a client's
    /// command.
    static let cableFrameCost = 1_024
    static let cableCommandCost = 16 * 1_024
    /// Bytes of frames kept for other subscribers that get the same, all together.
    static let cableSharedFrameBytes = 1_024 * 1_024
    /// The kernel's buffers for a client, beside that: each way.
    static let cableSocketBufferBytes: Int32 = 64 * 1_024
    /// Rails' clients take a connection for stale after two of these.
    static let cablePingMilliseconds: Int64 = 3_000
    /// Parts of that time among which the connections are spread.
    static let cablePingSlots = 12
    /// After so many pings without taking anything a client that is full is cut off.
    static let cableLaggingPings = 2
    /// A peer that acknowledges nothing for this long is gone.
    static let cableUnacknowledgedMilliseconds: Int32 = 30_000
    /// Pings that would have gone while the client doesn't answer our close frame.
    static let cableClosingPings = 2
    static let cableStopMilliseconds: Int64 = 2_000
    /// Time in which the log repeats no message about clients.
    static let cableNoticeMilliseconds: Int64 = 60_000

    // Broadcasts
    /// The time that a sender in AnyCable's form is made to wait for the database, and the pause between two tries. The sender itself waits 10 s.
    static let anyCableWaitMilliseconds: Int64 = 8_000
    static let anyCablePauseMilliseconds = 200
    /// Broadcasts of an app that are read in one go.
    static let broadcastsPerLook = 100
    /// The parts of streams, each of one message's bytes or of one message, that are kept up to a second for other listeners.
    static let broadcastPartsShared = 32
    /// The broadcasts of one call, and each message's text, stream and name, in bytes of UTF-8.
    static let broadcastsPerCall = 100
    static let broadcastBytes = 64 * 1_024
    static let broadcastStreamBytes = 1_024
    static let broadcastIDBytes = 64
    /// For how long one stays that its stream has no place for. The gem sends one again, under its id, for 30 s and the time of a call.
    static let broadcastGraceMilliseconds: Int64 = 60_000
    /// The streams of an app of which it stays known what was dropped.
    static let broadcastStreamsRemembered = 100_000
    /// The oldest that a call looks at to drop them, beside two for each that it adds.
    static let broadcastsDroppedAtLeast = 16

    /// The room on the disk that readiness requires: a create for one user usually changes 8 to 13 pages, of 8 KiB
    /// each.
    static let readinessRoomBytes = 128 * 1_024
    /// Time between two looks whether a damaged database is sound: each reads all of it.
    static let damageCheckMilliseconds: Int64 = 600_000
    /// Findings of damage that the log has, until a check finds none.
    static let toldDamages = 16
    /// Reasons of unreadiness that the log has, until the server is ready again.
    static let toldReasons = 16

    // The database's memory and log
    static let readerCacheKibibytes: Int32 = 32 * 1_024
    static let writerCacheKibibytes: Int32 = 24 * 1_024
    static let walAutocheckpointPages = 6_000
    /// The longest that a statement waits for a program that replicates the log (`database_checkpoints: false`).
    static let replicatedBusyMilliseconds: Int32 = 5_000

    // The program's own log
    static let logBufferBytes = 4 * 1_024 * 1_024

    // The housekeeping
    /// Inboxes that an audit recounts in one view of the database.
    static let auditedInboxes = 1_000
    /// Inboxes whose counts are recounted in a minute.
    static let recountedInboxes = 200
    static let purgedRowsPerTransaction = 200
    /// Bytes of answers to idempotency keys that it deletes in one transaction: one may be as large as a hundred others.
    static let purgedBytesPerTransaction: Int64 = 1_048_576
    /// Notifications that retention deletes in one transaction, and how many of them the change of an inbox counts for.
    static let expiredPerTransaction = 200
    static let expiryCost = 10
    /// Inboxes, or device tokens, that retention looks at in one go, and the device tokens that it removes in one transaction.
    static let retentionLook = 100
    static let removedDevicesPerTransaction = 20
    /// Alerts that one transaction settles because their device left; and those of a token that its provider calls dead.
    static let goneAlertsPerTransaction = 200
    static let goneAlertsPerAnswer = 10
    /// The pause between two of its transactions, in which the syncs of the last ones go.
    static let retentionPauseMilliseconds: Int64 = 20
    static let retentionPeriodMilliseconds: Int64 = 6 * 3_600_000
    /// A clock that is so far ahead of the last run is held for wrong, and for how long nothing is deleted by its age then.
    static let clockLeapMilliseconds: Int64 = 2 * 24 * 3_600_000
    static let clockDoubtMilliseconds: Int64 = 24 * 3_600_000

    // The import
    /// One line of a file of devices or notifications, line breaks within quotes included.
    static let importedRecordBytes = 256 * 1_024
    static let externalIDBytes = 255
    /// Mistakes that are printed; all are counted.
    package static let printedMistakes = 100
    /// Records that one transaction writes at most, and the time after which it begins no further one: beside a server, and alone.
    static let importedPerTransaction = 500
    /// Records that one transaction writes at most beside the nodes of a cluster.
    static let importedBesideNodes = 50
    static let importTurnMilliseconds: Int64 = 5
    static let importAloneMilliseconds: Int64 = 100
    /// The pause after each transaction beside a server.
    static let importPauseMilliseconds: Int64 = 10
    /// While the log has grown by so many bytes beside a server, the import waits a moment for the server to copy it.
    static let importLogBytes = 64 * 1_024 * 1_024
    static let importLogPauseMilliseconds: Int64 = 1_000

    // The operator's side
    /// Deliveries on a page, and those that the server looks at for one.
    static let deliveryPageSize = 50
    static let searchedDeliveries = 2_000
    /// Dead tokens of the last hour that are shown, of each app.
    static let shownDeadTokens = 20
    /// How long Apple and Google keep a test push of `campanile doctor` for a device that is off.
    static let testPushMilliseconds: Int64 = 300_000
    /// The newest notifications of which `campanile doctor --report` tells the pushes.
    static let reportedNotifications = 10

    // The metrics
    /// Lanes that have numbers of their own; those beyond that the configuration doesn't name share them, or have none of the last
    /// hour.
    static let namedLanes = 200
    /// Open connections to `metrics.port`.
    static let metricsConnections = 64
}
