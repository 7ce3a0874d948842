package com.campanile

import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive

/** Reads JSON; [JsonNull] for a text that is none, or nested too deeply. */
internal fun json(text: String): JsonElement = try {
    Json.parseToJsonElement(text)
} catch (_: SerializationException) {
    JsonNull
} catch (_: StackOverflowError) {
    JsonNull // Thousands of brackets in one another: the parser calls itself for each.
}

/** The value of an object's key; null for another kind of value, or without the key. */
internal operator fun JsonElement?.get(key: String): JsonElement? = (this as? JsonObject)?.get(key)

/** The text of a string; null for other values. */
internal val JsonElement?.text: String? get() = (this as? JsonPrimitive)?.takeIf { it.isString }?.content

/** A 64-bit integer that is written as one; null for other values. */
internal val JsonElement?.long: Long? get() = (this as? JsonPrimitive)?.takeIf { !it.isString }?.content?.toLongOrNull()

internal val JsonElement?.isTrue: Boolean get() = (this as? JsonPrimitive)?.let { !it.isString && it.content == "true" } ?: false

internal val JsonElement?.list: List<JsonElement>? get() = this as? JsonArray
