package com.campanile

import java.io.IOException
import java.util.Base64
import java.util.Collections

/** Answers as a test says, and keeps what it was asked. */
class ScriptedTransport(
    private val streams: (HttpCall, Int) -> HttpStream = { _, _ -> throw IOException("no stream") },
    private val script: (HttpCall, Int) -> HttpAnswer = { _, _ -> throw IOException("no answer") }
) : HttpTransport {
    private val kept = Collections.synchronizedList(mutableListOf<HttpCall>())

    val calls: List<HttpCall> get() = synchronized(kept) { kept.toList() }

    /** In a word each: `GET /badge`. */
    val summary: List<String> get() = calls.map { "${it.method} ${it.url.removePrefix(ADDRESS)}" }

    override fun send(call: HttpCall): HttpAnswer = script(call, keep(call))

    override fun open(call: HttpCall): HttpStream = streams(call, keep(call))

    private fun keep(call: HttpCall): Int = synchronized(kept) {
        kept += call
        kept.size
    }

    companion object {
        const val ADDRESS = "https://push.example.com"
    }
}

fun scripted(
    transport: HttpTransport, userToken: (String?) -> UserToken? = { UserToken("alice", "jwt") }
): CampanileAPI = CampanileAPI("${ScriptedTransport.ADDRESS}/", "Example/1 Hotwire Native Android", transport, userToken)

fun badgeAnswer(count: Int, version: Long) =
    HttpAnswer(200, """{"count":$count,"unread_count":$count,"version":$version,"updated_at":null}""")

fun problem(status: Int, code: String) = HttpAnswer(status, """{"status":$status,"code":"$code","detail":"Because."}""")

/** A user token as a backend makes it, for whoever doesn't look at its signature. */
fun userToken(user: String, issuedAt: Long? = null, expiresAt: Long = 900): UserToken {
    val claims = """{"sub":"$user","exp":$expiresAt${issuedAt?.let { ""","iat":$it""" } ?: ""}}"""
    val parts = listOf("""{"alg":"HS256"}""", claims, "signature")
    return UserToken(user, parts.joinToString(".") { Base64.getUrlEncoder().withoutPadding().encodeToString(it.toByteArray()) })
}
