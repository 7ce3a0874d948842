package com.campanile

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException

/**
 * A deep link: a path with a query that names a screen of the app, relative, with or without one leading `/`. The server
 * refuses the same texts, so that no link leads to another host or out of its path.
 */
class DeepLink private constructor(
    /** As it was written. */
    val text: String,
    /** The path's segments, decoded; none for an empty path and for `/`. */
    val segments: List<String>,
    internal val query: List<Item>
) {
    /** [isText]: both parts are UTF-8 after decoding, as everything is that a screen declares. */
    internal class Item(val key: String, val value: String, val isText: Boolean)

    companion object {
        /** The bytes of a link at most, in UTF-8. */
        const val MAXIMUM_BYTES = 2_048

        /** @throws DeepLinkError for a text that is no deep link. */
        fun parse(text: String): DeepLink {
            form(text)?.let { throw malformed(text, it) }
            val written = text.substringBefore('#')
            val path = written.substringBefore('?').removePrefix("/")
            val query = written.substringAfter('?', "")
            return DeepLink(
                text,
                if (path.isEmpty()) emptyList() else path.split('/').map { segment(it, text) },
                query.split('&').filter { it.isNotEmpty() }.map { item(it, text) }
            )
        }

        private fun malformed(link: String, sentence: String) = DeepLinkError(link, DeepLinkError.Reason.Malformed(sentence))

        /** @return what is wrong with the text as it stands; null for nothing. */
        private fun form(text: String): String? = when {
            text.isEmpty() -> "must not be empty."
            text.toByteArray().size > MAXIMUM_BYTES -> "must be at most $MAXIMUM_BYTES bytes of UTF-8."
            text.any(::isControl) -> "must not contain control characters."
            ' ' in text -> "must not contain spaces: write %20 for one."
            '\\' in text -> "must not contain \\, which browsers take for /."
            text.startsWith("//") -> "must not begin with //: browsers take the next part for a host."
            ':' in text.takeWhile { it !in "/?#" } -> "must be a path within the app, not an address: it begins with a scheme."
            else -> null
        }

        /** Unicode's category Cc. */
        private fun isControl(letter: Char) = letter < ' ' || letter in '\u007F'..'\u009F'

        private fun segment(written: String, link: String): String {
            val (text, isText) = decoded(written, link)
            val fault = when {
                // Among what isn't are overlong forms of / and of dots, which some readers take for what they look like.
                !isText -> "must be UTF-8 after decoding, and $written in its path is not."
                text == "." || text == ".." -> "must not have the segment $written: browsers take it for a way out of the path."
                '/' in text || '\\' in text -> "must not have an escaped / or \\ in its path, and has $written."
                text.any(::isControl) -> "must not have an escaped control character in its path, and has $written."
                else -> return text
            }
            throw malformed(link, fault)
        }

        private fun item(written: String, link: String): Item {
            val (key, isKeyText) = decoded(written.substringBefore('='), link)
            val (value, isValueText) = decoded(written.substringAfter('=', ""), link)
            return Item(key, value, isKeyText && isValueText)
        }

        /** Percent-decoding (RFC 3986 section 2.1). A `+` stays one. */
        private fun decoded(part: String, link: String): Pair<String, Boolean> {
            val written = part.toByteArray()
            val bytes = ByteArrayOutputStream(written.size)
            var index = 0
            while (index < written.size) {
                if (written[index] == '%'.code.toByte()) {
                    val high = digit(written.getOrNull(index + 1))
                    val low = digit(written.getOrNull(index + 2))
                    if (high < 0 || low < 0) throw malformed(link, "has a broken escape: two hexadecimal digits must follow each %.")
                    bytes.write(high * 16 + low)
                    index += 3
                } else {
                    bytes.write(written[index].toInt())
                    index += 1
                }
            }
            return try {
                Pair(Charsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes.toByteArray())).toString(), true)
            } catch (_: CharacterCodingException) {
                Pair(String(bytes.toByteArray()), false)
            }
        }

        private fun digit(byte: Byte?): Int = "0123456789abcdef".indexOf(byte?.toInt()?.toChar()?.lowercaseChar() ?: ' ')
    }
}

/** The fault of a link; its message is a sentence for the log. */
class DeepLinkError(val link: String, val reason: Reason) : Exception("The link $link ${reason.ending}") {
    sealed class Reason(internal val ending: String) {
        /** The text isn't a deep link. */
        class Malformed(sentence: String) : Reason(sentence)

        /** The address is another site's or scheme's. */
        data object Foreign : Reason("is of another site or scheme.")

        /** The tree has no such segment below this path, which is empty at the top. */
        data class UnknownSegment(val segment: String, val below: String) :
            Reason("names no screen: there is no $segment" + if (below.isEmpty()) "." else " below $below.")

        /** The faults of the query, a sentence each. */
        data class Query(val faults: List<String>) : Reason(faults.joinToString(" It "))

        /** A screen needs this, and the link doesn't have it. */
        data class Missing(val name: String) : Reason("lacks $name, which its screen needs.")

        /** A screen needs this query key in another type. */
        data class WrongType(val key: String) : Reason("has the query key $key, which is of another type than its screen asks for.")

        /** A screen refused the link for a reason of its own. */
        data class Screen(val sentence: String) : Reason("was refused by its screen: $sentence")
    }
}
