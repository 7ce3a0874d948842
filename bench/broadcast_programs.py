"""What bench/stream_broadcasts.py runs: the servers as rooms, each with WebSocket subscribers of one stream and with what is said to it."""

import base64
import hashlib
import hmac
import json
import secrets
import subprocess
from pathlib import Path

from bench.load import HERE, BenchError
from bench.processes import virtual_environment
from bench.stream_programs import (
    Campanile,
    Nchan,
    StreamPrograms,
    StreamServer,
    Subscribers,
    cable_request,
    socket_request,
    subscribe_frame,
)
from e2e.harness import free_port


def stream_of(model: str, number: int) -> str:
    """The name that `turbo_stream_from model, :messages` signs."""
    return base64.b64encode(f"gid://shop/{model}/{number}".encode()).decode().rstrip("=") + ":messages"


STREAM = stream_of("Room", 7)


def signed_identifier(key: str, stream: str) -> dict:
    """The identifier under which a page subscribes to a stream, whose name is signed as turbo-rails does it."""
    name = base64.b64encode(json.dumps(stream).encode()).decode()
    signature = hmac.new(key.encode(), name.encode(), hashlib.sha256).hexdigest()
    return {"channel": "Turbo::StreamsChannel", "signed_stream_name": f"{name}--{signature}"}


def turbo_stream(number: int) -> str:
    """A message of a chat, of always the same length, as broadcast_append_to renders it."""
    return (f'<turbo-stream action="append" target="messages"><template><div id="message_{number:06d}" class="message">'
            f'<b class="author">A. Nonymous</b> <time>12:34</time> <p>{"A sentence of a usual length. " * 4}</p></div></template></turbo-stream>')


def post(target: str, content: bytes, *fields: str) -> bytes:
    head = [f"POST {target} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *fields, f"Content-Length: {len(content)}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


class CampanileRoom:
    """Each subscriber is another user, with a token of its own."""

    name = "campanile"

    def __init__(self, programs: StreamPrograms):
        self.programs = programs
        self.server: Campanile = programs.campanile()
        self.key = programs.command("keys", "create", f"pages-{secrets.token_hex(4)}", "--broadcast", "--database", str(self.server.database))

    def listening(self, count: int, streams: list[list[str]] | None = None) -> Subscribers:
        """`streams`: those of each connection in turn; without, all have the room's."""
        streams = streams or [[STREAM]]
        file = self.programs.folder / "subscribe.frames"
        texts = [b"".join(subscribe_frame(signed_identifier(self.programs.stream_key, stream)) for stream in own) for own in streams]
        file.write_bytes(b"".join(len(text).to_bytes(4, "little") + text for text in texts))
        requests = [cable_request(self.programs.token(f"user-{number:06d}")) for number in range(count)]
        return Subscribers(self.programs, self.server.port, count, requests, "--socket", str(len(streams[0])), "--subscribe", str(file))

    def request(self, number: int) -> bytes:
        content = json.dumps({"stream": STREAM, "data": turbo_stream(number)}).encode()
        return post("/broadcasts", content, f"Authorization: Bearer {self.key}")


class OtherRoom:
    """A server that passes on what is posted, which is to the byte what Campanile sends."""

    def __init__(self, name: str, programs: StreamPrograms, server: StreamServer, subscriber: str, publisher: str):
        self.name, self.programs, self.server = name, programs, server
        self.subscriber, self.publisher = subscriber, publisher   # the targets of requests

    def listening(self, count: int) -> Subscribers:
        return Subscribers(self.programs, self.server.port, count, [socket_request(self.subscriber)], "--socket", "0")

    def request(self, number: int) -> bytes:
        return post(self.publisher, self._message(number))

    def _message(self, number: int) -> bytes:
        identifier = json.dumps(signed_identifier(self.programs.stream_key, STREAM))
        return json.dumps({"identifier": identifier, "message": turbo_stream(number)}, separators=(",", ":")).encode()


class UWebSockets(StreamServer):
    def __init__(self, python: Path, folder: Path, log: Path | None):
        port = free_port()
        super().__init__("uWebSockets", [str(python), str(HERE / "uwebsockets_room.py"), str(port)], port, {}, folder, None, log)


def nchan_room(programs: StreamPrograms, workers: int) -> OtherRoom:
    server: Nchan = programs.nchan(workers)
    return OtherRoom("nchan", programs, server, "/sub-socket?user=room", "/pub?user=room")


def uwebsockets_room(programs: StreamPrograms, venv: Path) -> OtherRoom:
    python = virtual_environment(venv, HERE / "uwebsockets_requirements.txt", "--without-uwebsockets")
    imported = subprocess.run([str(python), "-c", "import socketify"], capture_output=True, text=True)
    if imported.returncode:
        raise BenchError("socketify doesn't run (apt-get install libuv1): " + imported.stderr.strip()[-300:])
    return OtherRoom("uWebSockets", programs, UWebSockets(python, programs.folder, programs.log), "/sub", "/pub")
