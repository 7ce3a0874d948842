package com.example.shop

import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.util.Log
import java.io.ByteArrayOutputStream
import java.net.URL
import java.util.concurrent.Callable
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import javax.net.ssl.HttpsURLConnection

/** Fetches the pictures of alerts, from whatever server a producer has named: by TLS alone, and only so large and so long. */
object Pictures {
    private const val MAX_BYTES = 1_000_000
    private const val MAX_TIME = 10_000

    /** In pixels. A picture with a longer side is made smaller: a small file may hold one that fills the memory. */
    private const val MAX_SIDE = 1_024
    private val background = Executors.newCachedThreadPool()

    /** Waits for the network. @return null where the picture can't be had: its alert then stands without it. */
    fun fetch(address: String): Bitmap? {
        val fetched = runCatching {
            val connection = URL(address).openConnection() as? HttpsURLConnection ?: error("not https: $address")
            connection.connectTimeout = MAX_TIME
            connection.readTimeout = MAX_TIME
            val bytes = background.submit(Callable { bytes(connection) })
            try {
                // Those two are for each step of the network, this one for all together.
                decoded(bytes.get(MAX_TIME.toLong(), TimeUnit.MILLISECONDS))
            } finally {
                bytes.cancel(true)
                background.execute(connection::disconnect) // It may wait for the network too.
            }
        }
        return fetched.onFailure { Log.w("Pictures", it) }.getOrNull()
    }

    private fun bytes(connection: HttpsURLConnection): ByteArray {
        val status = connection.responseCode
        val type = connection.contentType ?: ""
        // A redirection is followed, and never to an address without TLS: HttpURLConnection stays with the scheme.
        check(status == 200 && type.startsWith("image/", ignoreCase = true)) { "no picture: $status, $type" }
        val bytes = ByteArrayOutputStream()
        val piece = ByteArray(16_384)
        connection.inputStream.use { stream ->
            while (true) {
                val count = stream.read(piece)
                if (count < 0) return bytes.toByteArray()
                bytes.write(piece, 0, count)
                check(bytes.size() <= MAX_BYTES) { "more than $MAX_BYTES bytes" }
                check(!Thread.currentThread().isInterrupted) { "not within $MAX_TIME ms" }
            }
        }
    }

    private fun decoded(bytes: ByteArray): Bitmap? {
        val options = BitmapFactory.Options()
        options.inJustDecodeBounds = true
        BitmapFactory.decodeByteArray(bytes, 0, bytes.size, options)
        options.inJustDecodeBounds = false
        options.inSampleSize = 1
        while (maxOf(options.outWidth, options.outHeight) / options.inSampleSize > MAX_SIDE) options.inSampleSize *= 2
        return BitmapFactory.decodeByteArray(bytes, 0, bytes.size, options)
    }
}
