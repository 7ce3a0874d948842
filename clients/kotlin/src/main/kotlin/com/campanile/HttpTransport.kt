package com.campanile

import java.io.ByteArrayInputStream
import java.io.Closeable
import java.io.InputStream
import java.net.HttpURLConnection
import java.net.URL
import java.util.concurrent.atomic.AtomicBoolean

/** One request to the server. */
class HttpCall(
    val method: String,
    val url: String,
    val headers: Map<String, String>,
    val body: String? = null,
    /** The longest silence of the network, in milliseconds. */
    val timeout: Int = 10_000
)

/** One answer, read to its end. */
class HttpAnswer(val status: Int, val body: String)

/** An answer whose bytes come as the server sends them. The first [close] ends the connection; a later one does nothing. */
class HttpStream(val status: Int, val bytes: InputStream, private val end: () -> Unit) : Closeable {
    private val isClosed = AtomicBoolean()

    override fun close() {
        if (isClosed.compareAndSet(false, true)) end()
    }
}

/** Sends requests. Both functions wait for the network and throw an [java.io.IOException] where it fails. */
interface HttpTransport {
    fun send(call: HttpCall): HttpAnswer

    fun open(call: HttpCall): HttpStream
}

/**
 * Sends requests with [HttpURLConnection], which Android and the JVM both have. It follows no redirection: the user token is
 * for this server alone. The JVM's own refuses `PATCH`, Android's takes it.
 */
class UrlConnectionTransport : HttpTransport {
    override fun send(call: HttpCall): HttpAnswer {
        val connection = begin(call)
        val status = connection.responseCode
        val stream = if (status < 400) connection.inputStream else connection.errorStream
        return HttpAnswer(status, stream?.bufferedReader()?.use { it.readText() } ?: "")
    }

    override fun open(call: HttpCall): HttpStream {
        val connection = begin(call)
        val status = connection.responseCode
        val stream = if (status < 400) connection.inputStream else connection.errorStream
        return HttpStream(status, stream ?: ByteArrayInputStream(ByteArray(0)), connection::disconnect)
    }

    private fun begin(call: HttpCall): HttpURLConnection {
        val connection = URL(call.url).openConnection() as HttpURLConnection
        connection.requestMethod = call.method
        connection.connectTimeout = call.timeout
        connection.readTimeout = call.timeout
        connection.instanceFollowRedirects = false
        connection.useCaches = false
        call.headers.forEach { (name, value) -> connection.setRequestProperty(name, value) }
        call.body?.let { body ->
            connection.doOutput = true
            connection.outputStream.use { it.write(body.toByteArray()) }
        }
        return connection
    }
}
