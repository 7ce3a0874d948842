"""The clients of streams.py: one that listens to /notifications/stream, one that is subscribed on /cable. Both are cut off
again and again and come back; both write down what they saw. Standard library only, one event loop for all."""
import asyncio
import base64
import contextlib
import json
import os
import re
import socket
import struct
import time
from dataclasses import dataclass, field

from e2e import harness

RETRY_SECONDS = 0.25      # after a refused connection, as at a restart of the server
SILENT_SECONDS = 45       # nothing at all within this, no heartbeat either: the stream is dead
CHANNEL = json.dumps({"channel": "NotificationsChannel"})


@dataclass
class Plan:
    """When connections are cut, in seconds."""
    connected: float
    offline: float
    over: bool = False    # no more cuts: the clients stay until all is seen


@dataclass
class World:
    """What was sent and acknowledged so far: the clients compare themselves with it. Every user gets the same number."""
    port: int
    plan: Plan
    sent: int = 0
    acknowledged: int = 0


@dataclass
class Seen:
    """What one client saw, in the order in which it came."""
    user: str
    ids: list = field(default_factory=list)           # notifications created
    sequences: list = field(default_factory=list)     # of those events
    badge: dict | None = None
    older: int = 0                                    # badges whose version is older than one before
    resets: int = 0
    repeated: int = 0                                 # events whose id isn't above the one before on the same client
    cuts: int = 0
    dropped: int = 0                                  # connections that the server ended
    returns: list = field(default_factory=list)       # seconds from connecting anew to having caught up
    wrong_badges: list = field(default_factory=list)  # after a return
    refused: list = field(default_factory=list)       # answers that were no stream


class Client:
    """Connects, listens, is cut off, and does so again until it is cancelled."""

    def __init__(self, world, user, token, rng):
        self.world, self.token, self.rng = world, token, rng
        self.seen = Seen(user)
        self.ready = asyncio.Event()
        self._behind = None       # (how many must be seen, since when) after coming back

    async def run(self):
        # The first cut comes at any time, so that the cuts are spread from the start.
        first, last = self.rng.random(), None
        while True:
            plan, writer = self.world.plan, None
            self._begin(last is not None)
            last = time.monotonic() + plan.connected * (first if first is not None else self.rng.uniform(0.8, 1.2))
            first = None
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.world.port)
                await self._until_cut(asyncio.create_task(self._listen(reader, writer)), last)
            except (OSError, EOFError, asyncio.IncompleteReadError):
                self.seen.dropped += 1
                await asyncio.sleep(RETRY_SECONDS)   # the server went away
            else:
                self.seen.cuts += 1
                self._cut(writer)
                writer = None
                await asyncio.sleep(plan.offline)
            finally:
                if writer is not None:
                    writer.transport.abort()

    async def _until_cut(self, listening, at):
        """Ends when the time is over and the plan still cuts, or raises what ended the listening."""
        try:
            while True:
                wait = max(0.05, at - time.monotonic())
                done, _ = await asyncio.wait({listening}, timeout=wait)
                if done:
                    listening.result()
                    raise EOFError
                if self.ready.is_set() and not self.world.plan.over and time.monotonic() >= at:
                    return
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def _cut(self, writer):
        """As a network does it: half of the time the server hears a reset, else it hears an end."""
        raw = writer.get_extra_info("socket")
        if self.rng.random() < 0.5 and raw is not None:
            with contextlib.suppress(OSError):   # it has just ended by itself
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    def _begin(self, again):
        self._behind = (self.world.acknowledged, time.monotonic()) if again and self._behind is None else self._behind

    def _saw(self, event, identifier, data):
        if event == "notification.created":
            self.seen.ids.append(data["id"])
            self.seen.sequences.append(int(identifier))
        elif event == "badge":
            if self.seen.badge is not None and data["version"] < self.seen.badge["version"]:
                self.seen.older += 1
            self.seen.badge = data
        elif event == "reset":
            self.seen.resets += 1

    def _look_back(self, have):
        """Whether what was missed while offline is there now."""
        if self._behind is not None and have >= self._behind[0]:
            self.seen.returns.append(time.monotonic() - self._behind[1])
            self._behind = None

    async def _head(self, reader, wanted):
        # Not wait_for, which until Python 3.12 may swallow a cancellation that comes together with what it waits for.
        async with asyncio.timeout(SILENT_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if not head.startswith(f"HTTP/1.1 {wanted}"):
            self.seen.refused.append(head.split("\r\n", 1)[0])
            raise EOFError
        if re.search(r"(?i)\r\ntransfer-encoding:", head):
            raise harness.HarnessError(f"a stream that these clients can't read:\n{head}")


class StreamClient(Client):
    """GET /notifications/stream as a browser's EventSource does it: the last id that came goes into Last-Event-ID."""

    version = "1.1"

    def __init__(self, world, user, token, rng, resumes=True):
        super().__init__(world, user, token, rng)
        self.resumes, self.last, self._isFirst = resumes, None, True

    async def _listen(self, reader, writer):
        resume = f"Last-Event-ID: {self.last}\r\n" if self.resumes and self.last is not None else ""
        writer.write(f"GET /notifications/stream HTTP/{self.version}\r\nHost: 127.0.0.1:{self.world.port}\r\nAccept: text/event-stream\r\n"
                     f"Authorization: Bearer {self.token}\r\n{resume}\r\n".encode())
        await self._head(reader, 200)
        buffer, self._isFirst = b"", True
        self._look_back(len(self.seen.ids))
        while True:
            async with asyncio.timeout(SILENT_SECONDS):
                part = await reader.read(65536)
            if not part:
                raise EOFError
            # An event that isn't whole when the connection is cut never was: only whole ones count.
            *whole, buffer = (buffer + part).split(b"\n\n")
            for text in whole:
                self._event(text.decode())

    def _event(self, text):
        fields = {}
        for line in text.split("\n"):
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
        if "id" in fields:
            # Only the badge that may open a stream may stand at the place where the client is already.
            before = -1 if self.last is None else int(self.last)
            self.seen.repeated += int(fields["id"]) < before + (0 if self._isFirst else 1)
            self._isFirst = False
            self.last = fields["id"]
            self.ready.set()
        if "data" in fields:
            self._saw(fields.get("event", "message"), fields.get("id", "-1"), json.loads(fields["data"]))
            self._look_back(len(self.seen.ids))


class CableClient(Client):
    """NotificationsChannel on /cable (RFC 6455 by hand: text frames only). What passes while it is away it doesn't hear of,
    but the badge must be right as soon as it is back."""

    async def _listen(self, reader, writer):
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(f"GET /cable HTTP/1.1\r\nHost: 127.0.0.1:{self.world.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: actioncable-v1-json\r\n"
                     f"Authorization: Bearer {self.token}\r\n\r\n".encode())
        await self._head(reader, 101)
        isFirst, least = True, self.world.acknowledged
        while True:
            async with asyncio.timeout(SILENT_SECONDS):
                message = json.loads(await self._text(reader, writer))
            if message.get("type") == "welcome":
                writer.write(frame(0x1, json.dumps({"command": "subscribe", "identifier": CHANNEL}).encode()))
            elif message.get("type") in ("reject_subscription", "disconnect"):
                self.seen.refused.append(json.dumps(message))
            elif "identifier" in message and "message" in message:  # a ping has a message too
                told = message["message"]
                self._saw(told["event"], told["id"], told["data"])
                if told["event"] == "badge" and isFirst:
                    isFirst = False
                    self._first_badge(told["data"]["count"], least)

    def _first_badge(self, count, least):
        """Nobody reads anything, so the count lies between what was acknowledged before and what was sent until now."""
        if not least <= count <= self.world.sent:
            self.seen.wrong_badges.append(f"{count}, and {least} to {self.world.sent} would be right")
        self.ready.set()
        self._look_back(count)

    @staticmethod
    async def _text(reader, writer):
        while True:
            first, length = await reader.readexactly(2)
            if length == 126:
                length = struct.unpack(">H", await reader.readexactly(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", await reader.readexactly(8))[0]
            content = await reader.readexactly(length)
            if first == 0x81:
                return content
            if first == 0x89:
                writer.write(frame(0xA, content))
            elif first == 0x88:
                raise EOFError


def frame(operation, content):
    """A masked frame of up to 64 KiB, as a client sends it (RFC 6455 section 5.2)."""
    mask = os.urandom(4)
    size = bytes([0x80 | len(content)]) if len(content) < 126 else b"\xfe" + struct.pack(">H", len(content))
    return bytes([0x80 | operation]) + size + mask + bytes(byte ^ mask[n % 4] for n, byte in enumerate(content))
