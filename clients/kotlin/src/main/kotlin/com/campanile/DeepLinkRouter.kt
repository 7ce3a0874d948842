package com.campanile

import java.net.URI
import java.net.URISyntaxException

/** A page of the web site: the node's title, and path and query, beginning with `/`. */
data class DeepLinkPage(val title: String?, val address: String)

/** A link's values for one of its screens. */
class DeepLinkValues internal constructor(
    /** The link as written. */
    val link: String,
    val page: DeepLinkPage,
    /** The push with this link; null for a link from elsewhere. */
    val push: PushPayload?,
    private val parameters: Map<String, String>,
    private val query: Map<String, Any>
) {
    /** The decoded segment for a parameter of the path: `id` of `resources/:id`. */
    fun parameter(name: String): String =
        parameters[name] ?: throw DeepLinkError(link, DeepLinkError.Reason.Missing("the parameter $name"))

    /** Says if the link has a value for a query key. Only the chain's last screen has a query. */
    fun has(key: String): Boolean = key in query

    fun string(key: String): String = value(key) as? String ?: throw wrongType(key)

    fun integer(key: String): Long = value(key) as? Long ?: throw wrongType(key)

    fun boolean(key: String): Boolean = value(key) as? Boolean ?: throw wrongType(key)

    private fun value(key: String): Any =
        query[key] ?: throw DeepLinkError(link, DeepLinkError.Reason.Missing("the query key $key"))

    private fun wrongType(key: String) = DeepLinkError(link, DeepLinkError.Reason.WrongType(key))
}

/**
 * The screens that lead to a link, parents first. [problem] says why the last one isn't the link's, or which part of the link
 * it ignores; null if it leads there.
 */
class DeepLinkChain<out Screen>(val link: String, val screens: List<Screen>, val problem: DeepLinkError?)

/**
 * Turns a link into the chain of screens that lead to it.
 *
 * @param screens what makes the app's own screens, by their nodes' paths in the tree, such as `resources/:id/detail`. One
 *   that can't be shown with the values throws, and the chain ends at its parent.
 * @param page what makes the screen of every other node, which is a page of the web site.
 */
class DeepLinkRouter<Screen>(
    val tree: DeepLinkTree,
    screens: Map<String, (DeepLinkValues) -> Screen> = emptyMap(),
    private val page: (DeepLinkPage) -> Screen
) {
    private val screens = screens.mapKeys { (path, _) -> path.trim('/') }

    /**
     * The screens of a link. An unknown child, or one that can't be shown, leads to its deepest known parent.
     *
     * @throws DeepLinkError when even the first screen is unknown.
     */
    fun chain(link: String): DeepLinkChain<Screen> = chain(link, null)

    /** The screens of a push's link, which get the push too; null for a push without a link. */
    fun chain(push: PushPayload): DeepLinkChain<Screen>? = push.deepLink?.let { chain(it, push) }

    /** The screens of an address: one of the app's hosts, or one with the app's own scheme, such as `shop://home/orders`. */
    fun chain(address: String, hosts: Set<String>, schemes: Set<String>): DeepLinkChain<Screen> =
        chain(link(address, hosts, schemes) ?: throw DeepLinkError(address, DeepLinkError.Reason.Foreign))

    private fun chain(link: String, push: PushPayload?): DeepLinkChain<Screen> {
        val parsed = DeepLink.parse(link)
        val match = tree.follow(parsed)
        var problem = match.fault?.let { DeepLinkError(link, it) }
        val shown = mutableListOf<Screen>()
        match.values(parsed, push).forEachIndexed { index, values ->
            try {
                val path = match.steps.take(index + 1).joinToString("/") { it.node.segment }
                shown += screens[path]?.invoke(values) ?: page(values.page)
            } catch (refusal: Exception) {
                // Leaves out a parent that can't be shown; the chain keeps the last one's reason.
                if (index == match.steps.lastIndex) {
                    problem = refusal as? DeepLinkError ?: DeepLinkError(link, DeepLinkError.Reason.Screen(refusal.toString()))
                }
            }
        }
        if (shown.isEmpty()) throw problem ?: DeepLinkError(link, DeepLinkError.Reason.Malformed("names no screen."))
        return DeepLinkChain(link, shown, problem)
    }

    /** @return the link in an address; null if the address is another site's or scheme's. */
    private fun link(address: String, hosts: Set<String>, schemes: Set<String>): String? {
        val uri = try {
            URI(address)
        } catch (_: URISyntaxException) {
            return null
        }
        val scheme = uri.scheme?.lowercase() ?: return null
        val rest = address.drop(scheme.length + 1)
        if (scheme == "http" || scheme == "https") {
            if (hosts.none { it.equals(uri.host, ignoreCase = true) }) return null
            // The host is between // and the path's /.
            return rest.drop(2).dropWhile { it !in "/?#" }.dropWhile { it == '/' }
        }
        return if (schemes.any { it.equals(scheme, ignoreCase = true) }) rest.dropWhile { it == '/' } else null
    }
}

/** The link's values for each of the screens. */
private fun DeepLinkTree.Match.values(link: DeepLink, push: PushPayload?): List<DeepLinkValues> {
    val written = WrittenLink(link.text)
    val parameters = mutableMapOf<String, String>()
    var path = ""
    return steps.mapIndexed { index, step ->
        step.node.parameter?.let { parameters[it] = step.segment }
        path += "/" + written.segments[index]
        val isLast = index == link.segments.lastIndex
        val web = step.node.web?.let { filled(it, parameters) } ?: path
        val page = DeepLinkPage(step.node.title, if (isLast) written.address(web) else web)
        DeepLinkValues(link.text, page, push, parameters.toMap(), if (isLast) query else emptyMap())
    }
}

/** The address of a page, with the link's values for its path's parameters. */
private fun filled(web: String, parameters: Map<String, String>): String {
    val path = web.takeWhile { it != '?' && it != '#' }
    val segments = path.split('/').map { segment ->
        parameters[segment.drop(1)].takeIf { segment.startsWith(':') }?.let(::percentEncoded) ?: segment
    }
    return (if (path.startsWith('/')) "" else "/") + segments.joinToString("/") + web.drop(path.length)
}

/**
 * A link's parts as written, escaped where an address requires it. Decoding and encoding them again would change a `+` of the
 * query.
 */
private class WrittenLink(text: String) {
    private val parts = parts(text)
    val segments = parts.path.removePrefix("/").split('/').map { escaped(it, "") }

    /** A page's address with the link's query, and with its fragment if it has one. */
    fun address(web: String): String {
        val rest = web.substringBefore('#')
        val query = parts.query.orEmpty().ifEmpty { null }?.let { (if ('?' in rest) "&" else "?") + escaped(it, "/?") }
        val fragment = (parts.fragment ?: web.substringAfter('#', "").ifEmpty { null })?.let { "#" + escaped(it, "/?") }
        return rest + query.orEmpty() + fragment.orEmpty()
    }

    private class Parts(val path: String, val query: String?, val fragment: String?)

    private fun parts(text: String): Parts {
        val rest = text.substringBefore('#')
        return Parts(
            rest.substringBefore('?'), if ('?' in rest) rest.substringAfter('?') else null,
            if ('#' in text) text.substringAfter('#') else null
        )
    }

    /** Keeps the characters allowed in every part of an address (RFC 3986 section 3.3, `pchar`), and existing escapes. */
    private fun escaped(part: String, more: String): String = buildString {
        var index = 0
        while (index < part.length) {
            val scalar = part.codePointAt(index)
            val text = String(Character.toChars(scalar))
            val isKept = scalar < 0x80 && (text.single().isLetterOrDigit() || text in "-._~!$&'()*+,;=:@%$more")
            append(if (isKept) text else percentEncoded(text))
            index += text.length
        }
    }
}
