package com.campanile

import java.io.ByteArrayOutputStream
import java.io.Closeable
import java.io.IOException
import java.io.InputStream
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock
import kotlin.random.Random

/** One event of a stream (WHATWG HTML, section 9.2). [id] is the one from which a client resumes. */
internal data class ServerSentEvent(val id: String, val name: String, val data: String)

/** Parses `text/event-stream`, in pieces of any size. */
internal class EventStreamParser(lastEventID: String = "", retry: Long? = null) {
    class TooLong : IOException("an event is longer than $EVENT_BYTES bytes")

    /** The id of the newest complete event. */
    var lastEventID = lastEventID
        private set

    /** The wait before connecting again that the server asked for, in milliseconds. */
    var retry = retry
        private set

    private val line = ByteArrayOutputStream()
    private var id = lastEventID
    private var name = ""
    private var data: StringBuilder? = null
    private var endedWithCR = false
    private var isAtStart = true

    fun feed(bytes: ByteArray, length: Int = bytes.size): List<ServerSentEvent> {
        val events = mutableListOf<ServerSentEvent>()
        for (index in 0 until length) {
            val byte = bytes[index]
            when {
                byte == LF && endedWithCR -> {}
                byte == LF || byte == CR -> endLine()?.let(events::add)
                else -> {
                    line.write(byte.toInt())
                    if (line.size() + (data?.length ?: 0) > EVENT_BYTES) throw TooLong()
                }
            }
            endedWithCR = byte == CR
        }
        return events
    }

    private fun endLine(): ServerSentEvent? {
        val text = String(line.toByteArray()).let { if (isAtStart) it.removePrefix("\uFEFF") else it }
        line.reset()
        isAtStart = false
        if (text.isEmpty()) return dispatch()
        if (!text.startsWith(':')) field(text.substringBefore(':'), text.substringAfter(':', "").removePrefix(" "))
        return null
    }

    private fun field(field: String, value: String) {
        when (field) {
            "event" -> name = value
            "data" -> data = (data?.append('\n') ?: StringBuilder()).append(value)
            "id" -> if ('\u0000' !in value) id = value
            "retry" -> if (value.isNotEmpty() && value.all { it in '0'..'9' }) retry = value.toLongOrNull() ?: retry
        }
    }

    private fun dispatch(): ServerSentEvent? {
        lastEventID = id
        val event = data?.let { ServerSentEvent(lastEventID, name.ifEmpty { "message" }, it.toString()) }
        name = ""
        data = null
        return event
    }

    private companion object {
        const val LF = '\n'.code.toByte()
        const val CR = '\r'.code.toByte()
        const val EVENT_BYTES = 1 shl 20
    }
}

/**
 * The inbox's events as they happen. Connects again after a connection breaks or the server ends it, with growing waits
 * between failures, and resumes where it was. It belongs to the user of its first connection.
 */
class EventStream internal constructor(
    private val api: CampanileAPI, private val path: String, after: String?
) : Closeable {
    private val lock = ReentrantLock()
    private val ended = lock.newCondition()
    private var isClosed = false
    private var open: HttpStream? = null
    private var parser = EventStreamParser(after ?: "")
    private var user: String? = null

    /** The id of the newest event, from which another stream can resume. */
    val lastEventID: String get() = parser.lastEventID

    /**
     * Calls [onEvent] with every event, on this thread, and returns when the stream is closed.
     *
     * @throws CampanileFailure that waiting can't mend, such as one of the kind `SIGNED_OUT`.
     */
    fun run(onEvent: (InboxEvent) -> Unit) {
        var tries = 0
        while (!isEnded) {
            try {
                connect().use { stream -> read(stream.bytes, { tries = 0 }, onEvent) }
            } catch (failure: CampanileFailure) {
                if (!isEnded && !failure.mayPass) throw failure
            } catch (_: IOException) {
                // The connection broke, or close() ended it.
            }
            tries += 1
            waitFor(delay(tries))
        }
    }

    /** Ends [run], from any thread. */
    override fun close() {
        val stream = lock.withLock {
            isClosed = true
            ended.signalAll()
            open
        }
        stream?.close()
    }

    private val isEnded: Boolean get() = lock.withLock { isClosed }

    private fun connect(): HttpStream {
        // Drops a partial event of the last connection.
        parser = EventStreamParser(parser.lastEventID, parser.retry)
        val stream = api.attempt<HttpStream>(user, { it.status }) { token ->
            user = token.user
            // The server sends something every 20 seconds.
            val call = HttpCall("GET", api.baseURL + path, api.streamHeaders(token, parser.lastEventID), timeout = 60_000)
            api.transport.open(call)
        }
        lock.withLock { open = stream }
        if (isEnded) stream.close()
        if (stream.status == 200) return stream
        // The server's own problem comes in one piece, and another program's answer needs no reading to its end.
        val start = ByteArray(PROBLEM_BYTES)
        val count = stream.use { it.bytes.read(start) }
        throw CampanileFailure.of(stream.status, String(start, 0, maxOf(0, count)))
    }

    private fun read(bytes: InputStream, onBytes: () -> Unit, onEvent: (InboxEvent) -> Unit) {
        val buffer = ByteArray(8_192)
        while (!isEnded) {
            val length = bytes.read(buffer)
            if (length < 0) return
            onBytes()
            for (event in parser.feed(buffer, length)) {
                if (isEnded) return
                InboxEvent.read(event)?.let(onEvent)
            }
        }
    }

    /** Doubles with each try, less up to half at random, and never less than what the server asked for. */
    private fun delay(tries: Int): Long {
        val own = (FIRST_DELAY shl minOf(tries - 1, 10)).coerceAtMost(LONGEST_DELAY)
        val asked = (parser.retry ?: 0).coerceIn(0, TimeUnit.DAYS.toMillis(1))
        val chance = Random.nextDouble() / 2
        return maxOf((own * (1 - chance)).toLong(), (asked * (1 + chance)).toLong())
    }

    private fun waitFor(milliseconds: Long) = lock.withLock {
        var nanoseconds = TimeUnit.MILLISECONDS.toNanos(milliseconds)
        while (!isClosed && nanoseconds > 0) nanoseconds = ended.awaitNanos(nanoseconds)
    }

    private companion object {
        const val FIRST_DELAY = 500L
        const val LONGEST_DELAY = 20_000L
        const val PROBLEM_BYTES = 8_192
    }
}
