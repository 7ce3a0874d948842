package com.campanile

import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray

/** The notifications that the phone shows. On Android the app implements it with `NotificationManager.activeNotifications`. */
interface ShownNotifications {
    /**
     * Names what is shown: the id that the app put into a notification's extras, or else its tag, which is the id where the
     * messaging library drew an alert without a `collapse_key`. The library passes over texts that aren't ids of Campanile's.
     */
    fun ids(): List<String>

    /** Removes the notifications with these ids, whose entries were read or deleted elsewhere. Called on any thread. */
    fun remove(ids: List<String>)
}

/** The answer to [CampanileAPI.reconcile]. */
data class Reconciled(
    /** The ids whose entries are read, deleted, withdrawn or not there. */
    val handled: List<String>,
    /** The number, as [CampanileAPI.badge] gives it. */
    val badge: Badge
) {
    companion object {
        internal fun read(json: JsonElement?): Reconciled? {
            val handled = json["handled"].list ?: return null
            return Reconciled(handled.mapNotNull { it.text }, Badge.read(json["badge"]) ?: return null)
        }
    }
}

private val NOTIFICATION_ID = Regex("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

/** Says if a text is a notification's id: a UUID of version 7, as the server writes it. Their order as texts is their age. */
internal fun isNotificationID(text: String): Boolean = NOTIFICATION_ID.matches(text)

/** The dismissals of one session of [BadgeRecord]: another user's alerts may be older than it, and unread. */
internal data class DismissalRecord(
    val session: Long = 0,
    /** The dismissed ids heard last, the latest at the end. */
    val ids: List<String> = emptyList(),
    /** The greatest `dismissedThrough`: this entry and everything older is dismissed. */
    val through: String? = null,
    /** The swipes that are to read an entry, and that the server doesn't know of yet. */
    val swiped: List<String> = emptyList()
) {
    fun covers(id: String): Boolean = id in ids || id in swiped || (through != null && isNotificationID(id) && id <= through)

    fun dismissed(ids: List<String>, through: String? = null): DismissalRecord =
        copy(ids = kept(this.ids, ids), through = listOfNotNull(this.through, through).maxOrNull())

    fun swiped(id: String): DismissalRecord = copy(swiped = kept(swiped, listOf(id)))

    fun settled(id: String): DismissalRecord = copy(swiped = swiped - id).dismissed(listOf(id))

    private fun kept(old: List<String>, new: List<String>): List<String> = (old - new.toSet() + new.distinct()).takeLast(KEPT)

    val text: String
        get() = buildJsonObject {
            put("session", session)
            putJsonArray("ids") { ids.forEach { add(JsonPrimitive(it)) } }
            put("through", through)
            putJsonArray("swiped") { swiped.forEach { add(JsonPrimitive(it)) } }
        }.toString()

    companion object {
        const val KEPT = 200

        /** A text that isn't a record's, and one of another session, make an empty record. */
        fun read(text: String?, session: Long): DismissalRecord {
            val json = text?.let(::json)
            if (json["session"].long != session) return DismissalRecord(session)
            fun texts(key: String) = json[key].list?.mapNotNull { it.text } ?: emptyList()
            return DismissalRecord(session, texts("ids"), json["through"].text, texts("swiped"))
        }
    }
}

/** Keeps the [DismissalRecord] beside the number, over launches. */
internal class Dismissals(private val badge: BadgeStore) {
    private val storage = badge.storage

    val record: DismissalRecord get() = DismissalRecord.read(storage.read(KEY), badge.session)

    /** @param session the session in which it was dismissed: a later one keeps nothing of it. */
    fun change(session: Long = badge.session, next: (DismissalRecord) -> DismissalRecord) {
        // The app may have several handlers for one storage.
        synchronized(storage) {
            val before = record
            val after = if (before.session == session) next(before) else before
            if (after != before) storage.write(KEY, after.text)
        }
    }

    private companion object {
        const val KEY = "dismissals"
    }
}
