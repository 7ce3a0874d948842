package com.campanile

import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject

/**
 * The screens that the app's deep links may name, as a tree of path segments. Every node is a link. The server checks
 * producers' links with the same tree ([CampanileAPI.deepLinks]).
 */
class DeepLinkTree(val nodes: List<Node>) {
    /** One screen. */
    class Node(
        /** The segment, decoded; with `:` before it the name of a parameter, which stands for any segment. */
        val segment: String,
        val title: String? = null,
        /** The page of the web site that shows the same. */
        val web: String? = null,
        val query: List<QueryParameter> = emptyList(),
        val minimumVersion: MinimumVersion? = null,
        val children: List<Node> = emptyList()
    ) {
        /** The parameter's name, if the segment is one. */
        val parameter: String? get() = if (segment.startsWith(':')) segment.drop(1) else null
    }

    /** A key of the query, and the type of its value. */
    class QueryParameter(val key: String, val type: Type, val isRequired: Boolean)

    enum class Type { STRING, INTEGER, BOOLEAN }

    /** The first version of the app with a screen, by platform; null for every version. */
    class MinimumVersion(val ios: AppVersion?, val android: AppVersion?) {
        /** An app that told no version, or one that can't be read, is older. */
        fun isMetOnAndroid(version: String?): Boolean = isMet(version, android)

        internal fun isMet(version: String?, minimum: AppVersion?): Boolean =
            minimum == null || (AppVersion.parse(version) ?: return false) >= minimum
    }

    /** One screen of a link's chain, with the link's segment, decoded. */
    class Step(val node: Node, val segment: String)

    /**
     * The screens of a link as far down as the tree has them, parents first. [query] has the values of the last screen: text,
     * [Long] or [Boolean]. [fault] says why it isn't the link's screen, or which part of the query it ignores.
     */
    class Match internal constructor(val steps: List<Step>, val query: Map<String, Any>, val fault: DeepLinkError.Reason?) {
        /** True if this version of the app has all screens of the chain. */
        fun isReachedOnAndroid(version: String?): Boolean = steps.all { it.node.minimumVersion?.isMetOnAndroid(version) != false }
    }

    /**
     * Follows a link that may be newer than the app's tree: ignores a query key that the screen doesn't know, and ends at the
     * parent of an unknown segment, or of a screen whose query key is missing, repeated or ill-typed.
     */
    fun follow(link: DeepLink): Match {
        val steps = mutableListOf<Step>()
        var level = nodes
        for (segment in link.segments) {
            val node = level.find(segment) ?: break
            steps += Step(node, segment)
            level = node.children
        }
        if (steps.isEmpty() || steps.size < link.segments.size) {
            val below = steps.joinToString("/") { it.segment }
            val unknown = link.segments.getOrNull(steps.size) ?: ""
            return Match(steps, emptyMap(), DeepLinkError.Reason.UnknownSegment(unknown, below))
        }
        val read = QueryReading(steps.last().node, link.query)
        val fault = if (read.faults.isEmpty()) null else DeepLinkError.Reason.Query(read.faults)
        return if (read.isShown) Match(steps, read.values, fault) else Match(steps.dropLast(1), emptyMap(), fault)
    }

    private fun List<Node>.find(segment: String): Node? =
        // An empty segment is none, and so no value of a parameter either.
        if (segment.isEmpty()) null else find { it.parameter == null && it.segment == segment } ?: find { it.parameter != null }

    companion object {
        /**
         * @param json the answer of `GET /deep_links`, as text.
         * @return null when it is no such answer. Keys that a newer server adds are ignored, and types that it adds are text.
         */
        fun read(json: String): DeepLinkTree? = read(json(json))

        internal fun read(json: JsonElement): DeepLinkTree? = nodes(json["deep_links"])?.let(::DeepLinkTree)

        private fun nodes(json: JsonElement?): List<Node>? {
            return (json.list ?: return null).map { node(it) ?: return null }
        }

        private fun node(json: JsonElement): Node? {
            val segment = json["path"].text?.split('/')?.lastOrNull { it.isNotEmpty() } ?: return null
            val query = (json["query"] as? JsonObject ?: emptyMap()).map { (key, value) ->
                val type = Type.entries.find { it.name.lowercase() == value["type"].text } ?: Type.STRING
                QueryParameter(key, type, value["required"].isTrue)
            }
            val children = if (json["children"].list == null) emptyList() else nodes(json["children"]) ?: return null
            return Node(segment, json["title"].text, json["web"].text, query, version(json["min_app_version"]), children)
        }

        private fun version(json: JsonElement?): MinimumVersion? {
            if (json == null || json is JsonNull) return null
            return MinimumVersion(AppVersion.parse(json["ios"].text), AppVersion.parse(json["android"].text))
        }
    }
}

/** The query of a link, read by the screen that it names. */
private class QueryReading(node: DeepLinkTree.Node, items: List<DeepLink.Item>) {
    val values = mutableMapOf<String, Any>()
    val faults = mutableListOf<String>()

    /** False where a key that the screen knows is missing, repeated or ill-typed. */
    var isShown = true
        private set

    init {
        val given = mutableSetOf<String>()
        for (item in items) {
            val declared = node.query.find { it.key == item.key }?.takeIf { item.isText || '\uFFFD' !in item.key }
            val value = declared?.takeIf { item.isText }?.let { value(item.value, it.type) }
            when {
                declared == null -> faults += "has the query key ${item.key}, which this screen doesn't take."
                !given.add(item.key) -> wrong("has the query key ${item.key} twice.")
                value == null -> wrong("has ${item.value} for the query key ${item.key}, which must be ${declared.type.sentence}.")
                else -> values[item.key] = value
            }
        }
        node.query.filter { it.isRequired && it.key !in given }
            .forEach { wrong("lacks the query key ${it.key}, which must be ${it.type.sentence}.") }
    }

    private fun wrong(fault: String) {
        faults += fault
        isShown = false
    }

    private fun value(text: String, type: DeepLinkTree.Type): Any? = when (type) {
        DeepLinkTree.Type.STRING -> text
        DeepLinkTree.Type.BOOLEAN -> text.toBooleanStrictOrNull()
        // ASCII digits alone: Kotlin reads other scripts' too.
        DeepLinkTree.Type.INTEGER -> text.takeIf { it.removePrefix("-").all { digit -> digit in '0'..'9' } }?.toLongOrNull()
    }

    private val DeepLinkTree.Type.sentence: String
        get() = when (this) {
            DeepLinkTree.Type.STRING -> "text"
            DeepLinkTree.Type.BOOLEAN -> "true or false"
            DeepLinkTree.Type.INTEGER -> "a whole number of 64 bits"
        }
}

/** The version of an app, such as `2.1.0`: whole numbers with dots between them. Missing numbers are 0. */
class AppVersion private constructor(private val numbers: List<ULong>) : Comparable<AppVersion> {
    override fun compareTo(other: AppVersion): Int {
        for (index in 0 until maxOf(numbers.size, other.numbers.size)) {
            val order = (numbers.getOrElse(index) { 0uL }).compareTo(other.numbers.getOrElse(index) { 0uL })
            if (order != 0) return order
        }
        return 0
    }

    override fun equals(other: Any?): Boolean = other is AppVersion && compareTo(other) == 0

    override fun hashCode(): Int = numbers.dropLastWhile { it == 0uL }.hashCode()

    override fun toString(): String = numbers.joinToString(".")

    companion object {
        /** @return null for every other text. */
        fun parse(text: String?): AppVersion? {
            val numbers = (text ?: return null).split('.').map { part ->
                part.takeIf { it.isNotEmpty() && it.all { digit -> digit in '0'..'9' } }?.toULongOrNull() ?: return null
            }
            return AppVersion(numbers)
        }
    }
}
