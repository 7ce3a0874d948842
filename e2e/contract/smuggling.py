"""Requests whose end two parsers may see at different places, each with a second request hidden in it: what proxies.py sends to
a proxy. The hidden request says who it is in its X-Request-Id. A proxy of packaging/ writes that field itself, so a server that
notes the hidden request's own id took something for a request that the proxy didn't.

The shapes are those of the literature (RFC 9112, section 11.2; CL.TE, TE.CL, TE.TE, 0.CL, chunk extensions, HTTP/2 downgrades).
"""
import contextlib
import socket
import ssl

import h2.config
import h2.connection
import h2.events
import h2.exceptions

# How long an answer is waited for that may never come, because the proxy waits for the rest of the request.
PATIENCE_SECONDS = 1.5

TRANSFER_ENCODINGS = {
    "plain": b"Transfer-Encoding: chunked\r\n",
    "in capitals": b"TRANSFER-ENCODING: CHUNKED\r\n",
    "a space before the colon": b"Transfer-Encoding : chunked\r\n",
    "a tab before the value": b"Transfer-Encoding:\tchunked\r\n",
    "a vertical tab before the value": b"Transfer-Encoding: \x0bchunked\r\n",
    "a form feed after the value": b"Transfer-Encoding: chunked\x0c\r\n",
    "a NUL after the value": b"Transfer-Encoding: chunked\x00\r\n",
    "white space after the value": b"Transfer-Encoding: chunked \t\r\n",
    "xchunked": b"Transfer-Encoding: xchunked\r\n",
    "in quotes": b"Transfer-Encoding: \"chunked\"\r\n",
    "a parameter": b"Transfer-Encoding: chunked;q=1\r\n",
    "identity first": b"Transfer-Encoding: identity, chunked\r\n",
    "identity last": b"Transfer-Encoding: chunked, identity\r\n",
    "gzip first": b"Transfer-Encoding: gzip, chunked\r\n",
    "an empty list member": b"Transfer-Encoding: , chunked\r\n",
    "two lines": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "two lines, the first of another kind": b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
    "folded": b"Transfer-Encoding:\r\n chunked\r\n",
    "a folded line of another field": b"X-Other: x\r\n Transfer-Encoding: chunked\r\n",
    "behind a bare LF": b"X-Other: x\nTransfer-Encoding: chunked\r\n",
    "behind a bare CR": b"X-Other: x\rTransfer-Encoding: chunked\r\n",
    "a bare LF at its end": b"Transfer-Encoding: chunked\n",
    "a NUL in the name": b"Transfer\x00-Encoding: chunked\r\n",
    "an underscore in the name": b"Transfer_Encoding: chunked\r\n",
    "a byte over 127": b"Transfer-Encoding: chunked\xa0\r\n",
    "named by Connection": b"Connection: keep-alive, Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
}

# What stands for the length of the body; %d is the length of all that follows the header.
CONTENT_LENGTHS = {
    "plain": b"Content-Length: %d\r\n",
    "leading zeros": b"Content-Length: 000%d\r\n",
    "twice the same": b"Content-Length: %d\r\nContent-Length: %d\r\n",
    "first 0, then the length": b"Content-Length: 0\r\nContent-Length: %d\r\n",
    "first the length, then 0": b"Content-Length: %d\r\nContent-Length: 0\r\n",
    "a list": b"Content-Length: %d, %d\r\n",
    "a list with 0": b"Content-Length: 0, %d\r\n",
    "a plus sign": b"Content-Length: +%d\r\n",
    "a minus sign": b"Content-Length: -%d\r\n",
    "hexadecimal": b"Content-Length: 0x%x\r\n",
    "an underscore": b"Content-Length: %d_0\r\n",
    "a fraction": b"Content-Length: %d.0\r\n",
    "a vertical tab": b"Content-Length: \x0b%d\r\n",
    "a space before the colon": b"Content-Length : %d\r\n",
    "an underscore in the name": b"Content_Length: %d\r\n",
    "a NUL in the name": b"Content-Length\x00: %d\r\n",
    "over 64 bits": b"Content-Length: 1844674407370955%d\r\n",
    "folded": b"Content-Length:\r\n %d\r\n",
    "behind a bare LF": b"X-Other: x\nContent-Length: %d\r\n",
    "behind a bare CR": b"X-Other: x\rContent-Length: %d\r\n",
    "named by Connection": b"Connection: keep-alive, Content-Length\r\nContent-Length: %d\r\n",
    "with Expect": b"Expect: 100-continue\r\nContent-Length: %d\r\n",
    "with an Expect of another kind": b"Expect: y 100-continue\r\nContent-Length: %d\r\n",
    "with Upgrade: h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
                         b"Content-Length: %d\r\n",
    "with Upgrade: websocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                               b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: %d\r\n",
}

# What a chunked body is; %s is the hidden request, %x its length.
CHUNKED_BODIES = {
    "whole": b"%x\r\n%s\r\n0\r\n\r\n",
    "the request behind the last chunk": b"0\r\n\r\n%s",
    "a bare LF after the size": b"%x\n%s\r\n0\r\n\r\n",
    "a bare LF after the last chunk": b"0\n\n%s",
    "a bare LF after the data": b"1\r\na\n0\r\n\r\n%s",
    "a bare LF in an extension": b"1;a\nb\r\na\r\n0\r\n\r\n%s",
    "an extension that a bare LF ends": b"2;\nxx\r\n%x\r\n0\r\n\r\n%s\r\n0\r\n\r\n",
    "a bare CR in an extension": b"1;a\rb\r\na\r\n0\r\n\r\n%s",
    "a NUL in an extension": b"1;\x00\r\na\r\n0\r\n\r\n%s",
    "a long extension": b"1;" + b"a" * 3_000 + b"\r\na\r\n0\r\n\r\n%s",
    "an extension in quotes with CRLF": b"1;a=\"\r\n0\r\n\r\n%s",
    "a size with 0x": b"0x%x\r\n%s\r\n0\r\n\r\n",
    "a size with an underscore": b"1_0\r\n%s\r\n0\r\n\r\n",
    "a size over 64 bits": b"10000000000000001\r\na\r\n0\r\n\r\n%s",
    "a size over 32 bits": b"100000001\r\na\r\n0\r\n\r\n%s",
    "a negative size": b"-1\r\n%s\r\n0\r\n\r\n",
    "a space after the size": b"1 \r\na\r\n0\r\n\r\n%s",
    "a space before the size": b" 1\r\na\r\n0\r\n\r\n%s",
    "data longer than its size": b"1\r\naXX\r\n0\r\n\r\n%s",
    "no CRLF after the data": b"1\r\na0\r\n\r\n%s",
    "two bytes for the CRLF after the data": b"1\r\naXX0\r\n\r\n%s",
    "a trailer with a length": b"0\r\nContent-Length: 5\r\n\r\n%s",
    "a trailer with a bare LF": b"0\r\nX-Trailer: a\n\r\n%s",
    "a trailer without a colon": b"0\r\nX-Trailer\r\n\r\n%s",
    "a trailer that is a request line": b"0\r\n%s",
}

REQUEST_LINES = {
    "an absolute target": b"POST http://localhost/notifications HTTP/1.1\r\n",
    "an absolute target of another host": b"POST http://elsewhere.example/notifications HTTP/1.1\r\n",
    "a bare LF at its end": b"POST /notifications HTTP/1.1\n",
    "two CR at its end": b"POST /notifications HTTP/1.1\r\r\n",
    "a NUL in the target": b"POST /notifications\x00 HTTP/1.1\r\n",
    "a tab in the target": b"POST /notifications\tHTTP/1.1\r\n",
    "encoded CRLF in the target": b"POST /notifications%0d%0aContent-Length:%200 HTTP/1.1\r\n",
    "version 1.0": b"POST /notifications HTTP/1.0\r\n",
    "version 1.2": b"POST /notifications HTTP/1.2\r\n",
    "version 0.9": b"POST /notifications HTTP/0.9\r\n",
    "no version": b"POST /notifications\r\n",
    "an empty line before it": b"\r\nPOST /notifications HTTP/1.1\r\n",
    "a line of NUL before it": b"\x00\r\nPOST /notifications HTTP/1.1\r\n",
    "GET with a body": b"GET /notifications HTTP/1.1\r\n",
    "HEAD with a body": b"HEAD /notifications HTTP/1.1\r\n",
    "OPTIONS with a body": b"OPTIONS /notifications HTTP/1.1\r\n",
    "TRACE with a body": b"TRACE /notifications HTTP/1.1\r\n",
    "the cable": b"GET /cable HTTP/1.1\r\n",
}

NOTIFICATIONS = b"POST /notifications HTTP/1.1\r\n"


def hidden(identifier):
    return f"GET /client HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {identifier}\r\n\r\n".encode()


def fill(pattern, request):
    """A pattern of CHUNKED_BODIES: bytes know neither of two values of one name, nor a format of some of them."""
    return pattern.replace(b"%x", b"%x" % len(request)).replace(b"%s", request)


def length(pattern, value):
    return pattern.replace(b"%d", b"%d" % value).replace(b"%x", b"%x" % value)


def http1(credential):
    """(name, a function from the hidden request's id to the bytes to send)."""
    def header(line=NOTIFICATIONS):
        return (line + b"Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer " + credential.encode()
                + b"\r\n")

    def vector(name, make):
        return name, lambda identifier: make(hidden(identifier))

    for name, field in TRANSFER_ENCODINGS.items():
        yield vector(f"TE.- {name}", lambda s, f=field: header() + f + b"\r\n" + fill(CHUNKED_BODIES["whole"], s))
        yield vector(f"CL.TE {name}", lambda s, f=field: (
            header() + length(CONTENT_LENGTHS["plain"], len(s) + 5) + f + b"\r\n0\r\n\r\n" + s))
        yield vector(f"TE.CL {name}", lambda s, f=field: (
            header() + f + b"Content-Length: %d\r\n\r\n" % len(b"%x\r\n" % len(s)) + fill(CHUNKED_BODIES["whole"], s)))
    for name, field in CONTENT_LENGTHS.items():
        yield vector(f"CL {name}", lambda s, f=field: header() + length(f, len(s)) + b"\r\n" + s)
        yield vector(f"0.CL {name}", lambda s, f=field: header() + length(f, 0) + b"\r\n" + s)
    for name, body in CHUNKED_BODIES.items():
        yield vector(f"chunks {name}", lambda s, b=body: header() + TRANSFER_ENCODINGS["plain"] + b"\r\n" + fill(b, s))
    for name, line in REQUEST_LINES.items():
        yield vector(f"line {name}", lambda s, first=line: header(first) + b"Content-Length: %d\r\n\r\n" % len(s) + s)
        yield vector(f"line, chunked {name}", lambda s, first=line: (
            header(first) + TRANSFER_ENCODINGS["plain"] + b"\r\n" + fill(CHUNKED_BODIES["whole"], s)))


def http2(credential):
    """(name, a function from the hidden request's id to header fields and the body)."""
    def fields(*more, **pseudo):
        known = {"method": b"POST", "path": b"/notifications", "authority": b"localhost", "scheme": b"https", **pseudo}
        return [(b":" + name.encode(), value) for name, value in known.items()] + [
            (b"authorization", b"Bearer " + credential.encode()), (b"content-type", b"application/json"), *more]

    cut = b"x\r\n\r\n"
    yield "a length that is too small", lambda s: (fields((b"content-length", b"0")), s)
    yield "a length that is too large", lambda s: (fields((b"content-length", b"%d" % (len(s) + 200))), s)
    yield "two lengths", lambda s: (fields((b"content-length", b"0"), (b"content-length", b"%d" % len(s))), s)
    yield "a length with a plus sign", lambda s: (fields((b"content-length", b"+%d" % len(s))), s)
    yield "transfer-encoding", lambda s: (fields((b"transfer-encoding", b"chunked")), b"0\r\n\r\n" + s)
    yield "transfer-encoding and a length", lambda s: (
        fields((b"transfer-encoding", b"chunked"), (b"content-length", b"%d" % (len(s) + 5))), b"0\r\n\r\n" + s)
    yield "transfer-encoding in capitals", lambda s: (fields((b"Transfer-Encoding", b"chunked")), b"0\r\n\r\n" + s)
    yield "te: chunked", lambda s: (fields((b"te", b"chunked")), b"0\r\n\r\n" + s)
    yield "connection", lambda s: (fields((b"connection", b"x-request-id")), s)
    yield "upgrade", lambda s: (fields((b"connection", b"upgrade"), (b"upgrade", b"h2c")), s)
    yield "CRLF in a value", lambda s: (fields((b"x-other", cut + s)), b"")
    yield "LF in a value", lambda s: (fields((b"x-other", b"x\n\n" + s.replace(b"\r", b""))), b"")
    yield "a length behind CRLF in a value", lambda s: (fields((b"x-other", b"x\r\ncontent-length: 0")), s)
    yield "chunked behind CRLF in a value", lambda s: (fields((b"x-other", b"x\r\ntransfer-encoding: chunked")), b"0\r\n\r\n" + s)
    yield "CRLF in a name", lambda s: (fields((b"x-other: " + cut + s[:-4] + b"\r\nx-rest", b"x")), b"")
    yield "a colon in a name", lambda s: (fields((b"content-length: 0\r\nx-rest", b"x")), s)
    yield "CRLF in the path", lambda s: (fields(path=b"/client HTTP/1.1\r\nHost: localhost\r\n\r\n" + s[:-4]), b"")
    yield "a space in the path", lambda s: (fields(path=b"/client HTTP/1.1"), s)
    yield "CRLF in the method", lambda s: (fields(method=b"GET /client HTTP/1.1\r\nHost: localhost\r\n\r\nPOST"), s)
    yield "a space in the method", lambda s: (fields(method=b"GET /client HTTP/1.1"), s)
    yield "CRLF in the authority", lambda s: (fields(authority=b"localhost\r\ncontent-length: 0\r\n\r\n" + s[:-4]), b"")
    yield "CRLF in the scheme", lambda s: (fields(scheme=b"https\r\n\r\n" + s[:-4]), b"")
    yield "two paths", lambda s: ([(b":path", b"/client"), *fields()], s)
    yield "two hosts", lambda s: (fields((b"host", b"elsewhere\r\n\r\n" + s[:-4])), b"")
    yield "a NUL in a value", lambda s: (fields((b"x-other", b"x\x00y")), s)
    yield "GET with a body", lambda s: (fields(method=b"GET"), s)
    yield "HEAD with a body", lambda s: (fields(method=b"HEAD"), s)


def connected(address, context):
    return context.wrap_socket(socket.create_connection(address, timeout=20), server_hostname="localhost")


def send_http1(address, context, bytes_to_send):
    """Everything that comes back until the other side has no more to say. Nothing is judged by it."""
    with connected(address, context) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        received = b""
        with contextlib.suppress(OSError, ssl.SSLError):
            connection.sendall(bytes_to_send)
            while chunk := connection.recv(65_536):
                received += chunk
        return received


def send_http2(address, context, header, body):
    """The same over HTTP/2: the status, or None."""
    config = h2.config.H2Configuration(
        client_side=True, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False,
        validate_inbound_headers=False)
    with connected(address, context) as connection:
        if connection.selected_alpn_protocol() != "h2":
            raise AssertionError("the proxy doesn't speak HTTP/2")
        connection.settimeout(PATIENCE_SECONDS)
        protocol = h2.connection.H2Connection(config)
        protocol.initiate_connection()
        protocol.send_headers(1, header, end_stream=not body)
        if body:
            protocol.send_data(1, body, end_stream=True)
        status = None
        with contextlib.suppress(OSError, ssl.SSLError, h2.exceptions.ProtocolError):
            connection.sendall(protocol.data_to_send())
            while chunk := connection.recv(65_536):
                for event in protocol.receive_data(chunk):
                    if isinstance(event, h2.events.ResponseReceived):
                        status = dict(event.headers).get(b":status")
                    if isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset, h2.events.ConnectionTerminated)):
                        return status
                connection.sendall(protocol.data_to_send())
        return status
