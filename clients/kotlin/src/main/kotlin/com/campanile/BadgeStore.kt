package com.campanile

import java.io.Closeable
import java.util.concurrent.CopyOnWriteArrayList
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put

/** Keeps short texts over launches, by their keys. On Android: `SharedPreferences`. */
interface ClientStorage {
    fun read(key: String): String?

    /** @param text null to remove it. */
    fun write(key: String, text: String?)
}

/**
 * The stored state of the number. Decides which number may replace which: an older version never replaces a newer one, and
 * no other user's number replaces this user's.
 */
internal data class BadgeRecord(
    val owner: Owner = Owner.UNKNOWN,
    val user: String? = null,
    val server: String? = null,
    /** Grows with every change of the owner: answers to earlier requests belong to another user. */
    val session: Long = 0,
    /** True if the server knows the device as the owner's. Before that, its pushes are the former user's. */
    val isRegistered: Boolean = false,
    /** True if the server has answered the owner since. From then on a push may set the number. */
    val isConfirmed: Boolean = false,
    val count: Int = 0,
    /** The newest version seen; 0 for none. */
    val version: Long = 0,
    /** True if this version's number was cleared here, and so doesn't come back. */
    val isCleared: Boolean = false,
    /** True if the server doesn't know of the clearing yet. */
    val owesClearing: Boolean = false,
    /** True if the app's backend gives the number, as the server said when it was to clear it. */
    val isGiven: Boolean = false
) {
    /** [UNKNOWN]: the app has never said who is signed in. [NOBODY]: the user has signed out. */
    enum class Owner { UNKNOWN, USER, NOBODY }

    // Each of these gives null where nothing changes.

    fun changed(owner: Owner, user: String? = null, server: String? = null): BadgeRecord? =
        BadgeRecord(owner, user, server, session + 1).takeIf { Triple(owner, user, server) != Triple(this.owner, this.user, this.server) }

    fun registered(session: Long): BadgeRecord? =
        if (session != this.session || owner == Owner.NOBODY || isConfirmed) null else copy(isRegistered = true)

    /** True if a push counts: it doesn't name its user, so before the server's answer it may be the former one's. */
    val takesPushes: Boolean get() = owner == Owner.UNKNOWN || isConfirmed

    /** The number of a push. */
    fun heard(count: Long, version: Long): BadgeRecord? = if (takesPushes) taken(count, version) else null

    /** A push's number; none without a version. */
    fun heard(push: PushPayload): BadgeRecord? {
        val version = push.badgeVersion ?: return null
        return if (push.badge == null && !push.isAlert) null else heard(push.badge ?: 0, version)
    }

    /** The number of the server's answer to the owner. */
    fun answered(badge: Badge, session: Long): BadgeRecord? {
        if (session != this.session || owner == Owner.NOBODY) return null
        val confirmed = copy(isConfirmed = isRegistered)
        return confirmed.taken(badge.count, badge.version) ?: confirmed.takeIf { it != this }
    }

    /** The answer to the clearing itself, whose version may be the cleared one. */
    fun answeredClearing(badge: Badge, isGiven: Boolean, session: Long): BadgeRecord? {
        if (session != this.session) return null
        val isNewer = badge.version >= version
        val told = (if (isNewer) copy(isCleared = false, owesClearing = false) else this).copy(isGiven = isGiven)
        return told.answered(badge, session) ?: told.takeIf { it != this }
    }

    /** Sets 0, because the user has seen the inbox. A number that the backend gives stays. */
    fun cleared(): BadgeRecord? = if (owner == Owner.NOBODY || isGiven) null else copy(count = 0, isCleared = true, owesClearing = true)

    private fun taken(count: Long, version: Long): BadgeRecord? {
        if (version < this.version || (version == this.version && isCleared)) return null
        val number = count.coerceIn(0, Int.MAX_VALUE.toLong()).toInt()
        val isNewer = version > this.version
        return copy(count = number, version = version, isCleared = isCleared && !isNewer, owesClearing = owesClearing && !isNewer)
    }

    val text: String
        get() = buildJsonObject {
            put("owner", owner.name)
            put("user", user)
            put("server", server)
            put("session", session)
            put("isRegistered", isRegistered)
            put("isConfirmed", isConfirmed)
            put("count", count)
            put("version", version)
            put("isCleared", isCleared)
            put("owesClearing", owesClearing)
            put("isGiven", isGiven)
        }.toString()

    companion object {
        /** A text that isn't a record's makes an empty record. */
        fun read(text: String?): BadgeRecord {
            val json = json(text ?: return BadgeRecord())
            val owner = Owner.entries.find { it.name == json["owner"].text } ?: return BadgeRecord()
            return BadgeRecord(
                owner, json["user"].text, json["server"].text, json["session"].long ?: 0, json["isRegistered"].isTrue,
                json["isConfirmed"].isTrue, json["count"].long?.toInt() ?: 0, json["version"].long ?: 0, json["isCleared"].isTrue,
                json["owesClearing"].isTrue, json["isGiven"].isTrue
            )
        }
    }
}

/**
 * The app's one number. It belongs to one user and has a version: pushes, answers and streams overtake each other. It
 * survives launches in its [storage].
 */
class BadgeStore(internal val storage: ClientStorage) {
    private val observers = CopyOnWriteArrayList<(Int) -> Unit>()
    private val lock = Any()
    private val untold = ArrayDeque<Pair<Int, ((Int) -> Unit)?>>()
    private var isTelling = false
    private var clearings = 0

    /** The number to show. */
    val count: Int get() = record.count

    /** The version of the newest number seen; 0 for none. */
    val version: Long get() = record.version

    /** True if the user has signed out and nobody has signed in since. */
    val isSignedOut: Boolean get() = record.owner == BadgeRecord.Owner.NOBODY

    internal val session: Long get() = record.session

    /** The signed-in user; null where the app has never said, or after a sign-out. */
    internal val user: String? get() = record.user

    /** True if a push that comes now is the user's own. */
    internal val takesPushes: Boolean get() = record.takesPushes

    private val record: BadgeRecord get() = BadgeRecord.read(storage.read(KEY))

    // The user: for DeviceRegistration

    /** @return whether it is another user than before, who begins with 0. */
    internal fun signedIn(user: String, server: String): Boolean = change { it.changed(BadgeRecord.Owner.USER, user, server) }

    internal fun signedOut() {
        change { it.changed(BadgeRecord.Owner.NOBODY) }
    }

    /** @return whether the server's next answer confirms pushes. */
    internal fun registered(session: Long): Boolean = change { it.registered(session) }

    // Setting the number

    /** Takes the number of a push. An alert that has a version and no number has the number 0. @return false if nothing changes. */
    fun apply(push: PushPayload): Boolean = change { it.heard(push) }

    /** Takes a push that the user sees as it comes. */
    internal fun see(push: PushPayload) {
        change { it.heard(if (it.isGiven) push else push.copy(badge = 0)) }
    }

    /** Takes the number of an answer to the user who is signed in now. @return false for an older one. */
    fun apply(badge: Badge): Boolean = change { it.answered(badge, it.session) }

    /** Makes a call, and takes the number of its answer unless the user has changed meanwhile. */
    fun update(ask: () -> Badge) {
        val session = session
        val answer = ask()
        change { it.answered(answer, session) }
    }

    /** Takes every number of a stream until the stream is closed or the user changes; then it closes the stream. */
    fun follow(stream: EventStream) {
        val session = session
        stream.run { event ->
            if (this.session != session) return@run stream.close()
            (event.change as? InboxEvent.Change.Number)?.let { number -> change { it.answered(number.badge, session) } }
        }
    }

    /**
     * Fetches the number. If the last clearing didn't reach the server, and nothing has changed there since, repeats the
     * clearing.
     */
    fun refresh(api: CampanileAPI) {
        refresh(api) { user -> api.badge(user) }
    }

    /** Refreshes with another call of the user's whose answer has the number. */
    internal fun refresh(api: CampanileAPI, ask: (user: String?) -> Badge) {
        val asking = record
        val answer = ask(asking.user)
        change { it.answered(answer, asking.session) }
        val now = record
        val isOwed = now.owesClearing && now.session == asking.session && now.version == answer.version
        if (isOwed && synchronized(lock) { clearings == 0 }) sendClearing(api, asking)
    }

    /**
     * Shows 0 at once, because the user is looking at the inbox, and clears the badge at the server, for the user's other
     * devices. Only a newer number replaces the 0. If the server can't be reached, [refresh] makes up for it.
     */
    fun clear(api: CampanileAPI) {
        change { it.cleared() }
        sendClearing(api, record)
    }

    private fun sendClearing(api: CampanileAPI, asking: BadgeRecord) {
        if (asking.owner == BadgeRecord.Owner.NOBODY) return
        synchronized(lock) { clearings += 1 }
        try {
            val (badge, isGiven) = api.clearBadge(asking.user)
            change { it.answeredClearing(badge, isGiven, asking.session) }
        } finally {
            synchronized(lock) { clearings -= 1 }
        }
    }

    // Observers

    /**
     * Calls [body] with the number, at once and at each change, in order and one call at a time, on any thread that changes
     * the number. Close the result to end it.
     */
    fun observe(body: (Int) -> Unit): Closeable {
        synchronized(lock) {
            observers += body
            untold += Pair(record.count, body)
        }
        tell()
        return Closeable { observers -= body }
    }

    private fun change(next: (BadgeRecord) -> BadgeRecord?): Boolean {
        synchronized(lock) {
            val changed = next(record) ?: return false
            storage.write(KEY, changed.text)
            // Here, so that the calls keep the order of the changes.
            untold += Pair(changed.count, null)
        }
        tell()
        return true
    }

    /** One thread calls the observers, without the lock, and then reports the changes that others made meanwhile. */
    private fun tell() {
        synchronized(lock) {
            if (isTelling) return
            isTelling = true
        }
        while (true) {
            val (count, only) = synchronized(lock) { untold.removeFirstOrNull().also { isTelling = it != null } } ?: return
            observers.filter { only == null || only === it }.forEach { it(count) }
        }
    }

    private companion object {
        const val KEY = "badge"
    }
}
