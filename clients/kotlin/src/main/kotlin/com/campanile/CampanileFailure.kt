package com.campanile

import java.io.IOException

/** A call that failed. Its message is a sentence for the log and holds no token. */
class CampanileFailure(
    val kind: Kind,
    /** The server's status; null where no answer came. */
    val status: Int? = null,
    /** The stable `code` of the server's problem, such as `not_found`. */
    val code: String? = null,
    detail: String? = null,
    cause: Throwable? = null
) : IOException(listOfNotNull(kind.name.lowercase(), status?.toString(), code, detail).joinToString(" "), cause) {
    enum class Kind {
        /** No answer came. */
        UNREACHABLE,

        /** The server is busy, or can't work at the moment. */
        UNAVAILABLE,

        /** No user is signed in, the server refuses the user's token, or the signed-in user is another one. */
        SIGNED_OUT,
        NOT_FOUND,

        /** The call is wrong, or the user may not make it. */
        REFUSED,

        /** The answer isn't what this version of the library reads. */
        UNREADABLE
    }

    /** True if the same call may succeed later. */
    val mayPass: Boolean get() = kind == Kind.UNREACHABLE || kind == Kind.UNAVAILABLE

    internal companion object {
        fun of(status: Int, body: String): CampanileFailure {
            val problem = json(body)
            val code = problem["code"].text
            val kind = when (status) {
                401 -> Kind.SIGNED_OUT
                // A 404 without a code is a proxy's, behind which no server is.
                404 -> if (code == null) Kind.UNAVAILABLE else Kind.NOT_FOUND
                408, 429 -> Kind.UNAVAILABLE
                in 400..499 -> Kind.REFUSED
                in 500..599 -> Kind.UNAVAILABLE
                else -> Kind.UNREADABLE
            }
            return CampanileFailure(kind, status, code, problem["detail"].text)
        }
    }
}
