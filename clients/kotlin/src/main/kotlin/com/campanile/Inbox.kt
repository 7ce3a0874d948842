package com.campanile

import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject

/** The number of an inbox. [count] stands on icon and tabs; [unreadCount] is everything unread. */
data class Badge(val count: Long, val unreadCount: Long, val version: Long) {
    companion object {
        internal fun read(json: JsonElement?): Badge? {
            return Badge(json["count"].long ?: return null, json["unread_count"].long ?: return null, json["version"].long ?: return null)
        }
    }
}

/** One notification of the signed-in user's inbox. Times are RFC 3339 in UTC, as the server writes them. */
data class InboxNotification(
    val id: String,
    val title: String,
    val subtitle: String?,
    val body: String,
    /** The address of a picture. */
    val imageUrl: String?,
    val category: String?,
    /** As the producer wrote it; [DeepLinkRouter] turns it into screens. */
    val deepLink: String?,
    /** The producer's own values. */
    val data: Map<String, JsonElement>,
    val createdAt: String,
    /** Null while it is unread. */
    val readAt: String?,
    /** The producer's own name for it; null without one, and from an older server. */
    val externalId: String? = null,
    /** The time of the producer's last edit; null without one, and from an older server. */
    val editedAt: String? = null
) {
    companion object {
        internal fun read(json: JsonElement?): InboxNotification? {
            return InboxNotification(
                json["id"].text ?: return null, json["title"].text ?: return null, json["subtitle"].text,
                json["body"].text ?: return null, json["image_url"].text,
                json["category"].text, json["deep_link"].text, json["data"] as? JsonObject ?: emptyMap(),
                json["created_at"].text ?: return null, json["read_at"].text, json["external_id"].text, json["edited_at"].text
            )
        }
    }
}

/** One page of the list. [nextCursor] is null on the last one; [badge] is the number after the request. */
data class InboxPage(val notifications: List<InboxNotification>, val nextCursor: String?, val badge: Badge) {
    companion object {
        internal fun read(json: JsonElement?): InboxPage? {
            val entries = json["notifications"].list ?: return null
            // An unreadable notification doesn't spoil the others of its page.
            return InboxPage(
                entries.mapNotNull(InboxNotification::read), json["next_cursor"].text, Badge.read(json["badge"]) ?: return null
            )
        }
    }
}

/** An event of the inbox. [id] is where [CampanileAPI.events] resumes. */
data class InboxEvent(val id: String, val change: Change) {
    sealed interface Change {
        data class Created(val notification: InboxNotification) : Change

        /** Marked as read or unread, or edited by its producer. */
        data class Updated(val notification: InboxNotification) : Change
        data class Deleted(val id: String) : Change

        /** This notification and everything older is read. */
        data class ReadAll(val upTo: String) : Change
        data class Number(val badge: Badge) : Change

        /** The server can't replay the missed events: read the list again. */
        data class Reset(val reason: String) : Change
    }

    companion object {
        /** @return null for an event that this version of the library doesn't know. */
        internal fun read(event: ServerSentEvent): InboxEvent? {
            val json = json(event.data)
            val change = when (event.name) {
                "notification.created" -> InboxNotification.read(json)?.let(Change::Created)
                "notification.updated" -> InboxNotification.read(json)?.let(Change::Updated)
                "notification.deleted" -> json["id"].text?.let(Change::Deleted)
                "notifications.read_all" -> json["up_to"].text?.let(Change::ReadAll)
                "badge" -> Badge.read(json)?.let(Change::Number)
                "reset" -> Change.Reset(json["reason"].text ?: "unknown")
                else -> return null
            }
            // An unreadable event counts as a missed one.
            return InboxEvent(event.id, change ?: Change.Reset("unreadable"))
        }
    }
}
