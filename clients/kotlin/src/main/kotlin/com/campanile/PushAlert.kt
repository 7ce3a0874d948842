package com.campanile

import kotlinx.serialization.json.JsonElement

/**
 * An alert that the app draws itself, because the message has no notification part (`display: app`). Each value is null without
 * one. Its number is the push's own ([PushPayload.badge]).
 */
data class PushAlert(
    val title: String? = null,
    val subtitle: String? = null,
    val body: String? = null,
    /** The address of a picture, for the app to fetch. */
    val imageUrl: String? = null,
    /** The name of a set of buttons that the app knows. */
    val buttons: String? = null,
    /** The channel, which the app may not have made. */
    val channelId: String? = null,
    /** As Android takes it: `#0a84ff` is 0xFF0A84FF. */
    val color: Int? = null,
    /** The name of a drawable, which the app may not have. */
    val icon: String? = null,
    val visibility: Visibility? = null,
    /** `default`, or a file's name. From Android 8 on the channel's sound is played in its place. */
    val sound: String? = null,
    /** The alerts of one thread belong together. */
    val threadId: String? = null,
    /** The newer alert of a key replaces the older one. */
    val collapseKey: String? = null,
    /** Stands in the place of [title] where the app has a text of its key. */
    val localizedTitle: LocalizedText? = null,
    /** The same for [body]. */
    val localizedBody: LocalizedText? = null,
    /** True for one that takes the place of an alert that the device has, because its notification was edited. */
    val isSilent: Boolean = false
) {
    /** What a locked phone shows of it: without the words, all, or nothing. */
    enum class Visibility { PRIVATE, PUBLIC, SECRET }

    /** A text of the app's own: the name of a string resource, and what is put into it. */
    data class LocalizedText(val key: String, val arguments: List<String> = emptyList())

    companion object {
        /**
         * Reads what a message's `data` has under `alert`. Unknown keys are passed over, and values of the wrong kind count as
         * missing.
         */
        internal fun read(json: JsonElement): PushAlert = PushAlert(
            json["title"].text, json["subtitle"].text, json["body"].text, json["image_url"].text, json["buttons"].text,
            json["channel_id"].text, color(json["color"].text), json["icon"].text,
            Visibility.entries.find { it.name.lowercase() == json["visibility"].text }, json["sound"].text,
            json["thread_id"].text, json["collapse_key"].text, localized(json["loc"], "title"), localized(json["loc"], "body"),
            json["silent"].isTrue
        )

        private fun color(text: String?): Int? {
            val digits = text?.takeIf { COLOR.matches(it) }?.drop(1) ?: return null
            return (0xFF000000 or digits.toLong(16)).toInt()
        }

        /** Null also where an argument can't be read: without it the others would stand in the wrong places. */
        private fun localized(json: JsonElement?, part: String): LocalizedText? {
            val key = json["${part}_key"].text ?: return null
            val arguments = json["${part}_args"] ?: return LocalizedText(key)
            val texts = arguments.list?.map { it.text ?: return null } ?: return null
            return LocalizedText(key, texts)
        }

        private val COLOR = Regex("#[0-9a-fA-F]{6}")
    }
}
