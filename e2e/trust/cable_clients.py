"""The clients of broadcasts.py: pages that listen to one of an app's own streams, in ActionCable's protocol or in AnyCable's extension of it,
are cut off again and again, come back, and write down what they heard; and a sender in AnyCable's form. Standard library only."""
import asyncio
import base64
import contextlib
import functools
import hashlib
import hmac
import http.client
import json
import os
import queue
import re
import struct
import threading
import time
from dataclasses import dataclass, field

from e2e import harness
from e2e.trust.stream_clients import SILENT_SECONDS, Client, frame

PLAIN, EXTENDED = "actioncable-v1-json", "actioncable-v1-ext-json"
NAMED = re.compile(r'id="([^"/]+)/(\d+)"')     # of a room's message, as broadcasts_app.ru writes it
LOOK_SECONDS = 0.01
ANYCABLE_PAUSES = 2, 8, 24                     # of its HTTP broadcaster, after each try but the last
ANYCABLE_SECONDS = 10                          # for which it waits for an answer


def signed(name, key):
    """A stream's name as Rails signs it."""
    encoded = base64.b64encode(json.dumps(name).encode())
    return f"{encoded.decode()}--{hmac.new(key.encode(), encoded, hashlib.sha256).hexdigest()}"


def text_of(room, number):
    return f'<turbo-stream action="append" target="messages"><template><p id="{room}/{number}">é&amp;</p></template></turbo-stream>'


def named(text):
    """The room and the number in a message's text."""
    room, number = NAMED.search(text).groups()
    return room, int(number)


class Page(Client):
    """One page with one stream. `place`: (epoch, offset) up to which it has everything, as the app wrote it into the page; such a page speaks
    the extended protocol. `resumes`: false forgets the place where a connection ends."""

    def __init__(self, world, room, key, token, rng, place=None, resumes=True):
        super().__init__(world, room, token, rng)
        self.identifier = json.dumps({"channel": "Turbo::StreamsChannel", "signed_stream_name": signed(room, key)})
        self.protocol = EXTENDED if place else PLAIN
        self.place, self.resumes = place, resumes
        self._since, self._asked, self._is_confirmed = None, False, False

    def _begin(self, again):
        """From each attempt on: a server that is away isn't slow."""
        self._since = time.monotonic() if again else None
        if again and not self.resumes:
            self.place = None

    async def _listen(self, reader, writer):
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(f"GET /cable HTTP/1.1\r\nHost: 127.0.0.1:{self.world.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {self.protocol}\r\n"
                     f"Authorization: Bearer {self.token}\r\n\r\n".encode())
        await self._head(reader, 101)
        async with asyncio.timeout(SILENT_SECONDS):
            first = await reader.read(65536)
        if reader.at_eof() or reader.exception():
            raise EOFError
        # From here on without a task's turn for each message: there are thousands a second.
        hearing = Hearing(self._hear, writer.transport)
        writer.transport.set_protocol(hearing)
        hearing.data_received(first)
        await hearing.ended

    def _hear(self, message, say):
        kind = message.get("type")
        if kind == "welcome":
            if (self.protocol == EXTENDED) != ("sid" in message):
                self.seen.refused.append(f"another protocol: {message}")
            say(self._subscription())
        elif kind == "ping":
            if self.protocol == EXTENDED:
                say(b'{"command":"pong"}')
        elif kind == "confirm_subscription":
            self._is_confirmed = True
            if not self._asked:
                self._caught_up()
        elif kind == "confirm_history":
            self._caught_up()
        elif kind == "reject_history":
            self.seen.resets += 1
            self._caught_up()
        elif kind == "reject_subscription" or (kind == "disconnect" and message.get("reason") != "server_restart"):
            self.seen.refused.append(json.dumps(message))
        elif kind is None:
            self._take(message)

    def _subscription(self):
        command, self._asked = {"command": "subscribe", "identifier": self.identifier}, self.place is not None
        self._is_confirmed = False
        if self._asked:
            epoch, offset = self.place
            command["history"] = {"streams": {self.seen.user: {"epoch": epoch, "offset": offset}}}
        return json.dumps(command).encode()

    def _caught_up(self):
        self.ready.set()
        if self._since is not None:
            self.seen.returns.append(time.monotonic() - self._since)
            self._since = None

    def _take(self, message):
        room, number = named(message["message"])
        if room != self.seen.user:
            self.seen.refused.append(f"a message of {room}")
        if not self._is_confirmed:
            self.seen.refused.append("a message before confirm_subscription")
        self.seen.ids.append(number)
        if self.protocol == EXTENDED:
            epoch, offset = message["epoch"], message["offset"]
            if self.place and epoch != self.place[0]:
                self.seen.refused.append(f"the epoch {epoch} after {self.place[0]}")
            self.seen.sequences.append(offset)
            self.place = epoch, offset


class Hearing(asyncio.Protocol):
    """A WebSocket's messages, to `hear`. A message that isn't whole when the connection is cut never was."""

    def __init__(self, hear, transport):
        self.hear, self.transport, self.buffer = hear, transport, b""
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        frames, self.buffer = whole_frames(self.buffer + data)
        try:
            for first, content in frames:
                if first == 0x81:
                    self.hear(parsed(content), self._say)
                elif first == 0x89:
                    self.transport.write(frame(0xA, content))
                elif first == 0x88:
                    self.transport.abort()
        except Exception as error:  # noqa: BLE001 – whoever waits for the end is told
            self._end(error)

    def _say(self, text):
        self.transport.write(frame(0x1, text))

    def connection_lost(self, error):
        self._end(error or EOFError())

    def _end(self, error):
        if not self.ended.done():
            self.ended.set_exception(error)


@functools.lru_cache(4096)
def parsed(text):
    """A message; all pages of a room get the same."""
    return json.loads(text)


def whole_frames(buffer):
    """The frames that are whole, as (first byte, content), and what is left."""
    frames, at = [], 0
    while len(buffer) - at >= 2:
        length, head = buffer[at + 1], 2
        if length >= 126:
            size, form = (2, ">H") if length == 126 else (8, ">Q")
            head += size
            if len(buffer) - at < head:
                break
            length = struct.unpack_from(form, buffer, at + 2)[0]
        if len(buffer) - at < head + length:
            break
        frames.append((buffer[at], buffer[at + head:at + head + length]))
        at += head + length
    return frames, buffer[at:]


class Crowd(threading.Thread):
    """Clients on an event loop of their own, so that who breaks things may wait meanwhile. `late`: how late the loop itself was, by which
    everything that the clients measure is too long."""

    def __init__(self, clients):
        super().__init__(daemon=True)
        self.clients, self.late, self.trouble, self._over = clients, [], None, threading.Event()

    def run(self):
        try:
            asyncio.run(self._run())
        except Exception as error:  # noqa: BLE001 – told by `wait_for`
            self.trouble = error

    async def _run(self):
        tasks = [asyncio.create_task(one.run()) for one in self.clients]
        watching = asyncio.create_task(self._watch())
        try:
            done, _ = await asyncio.wait([watching, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self):
        while not self._over.is_set():
            before = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)
            self.late.append(time.monotonic() - before - LOOK_SECONDS)

    def wait_for(self, holds, seconds):
        """Whether something holds within that time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.trouble is not None:
                raise harness.HarnessError(f"the clients: {self.trouble!r}")
            if holds():
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def end(self):
        self._over.set()
        self.join()


class Numbered(threading.Thread):
    """Broadcasts one number after the other, from the first on, at a rate, until it is told to end. `made`: how many there were."""

    def __init__(self, send, rate, first=0):
        super().__init__(daemon=True)
        self.send, self.rate, self.first, self.made, self.trouble, self._over = send, rate, first, 0, None, threading.Event()

    def run(self):
        start = time.monotonic()
        try:
            while not self._over.wait(max(0.0, start + self.made / self.rate - time.monotonic())):
                self.send(self.first + self.made)
                self.made += 1
        except (OSError, http.client.HTTPException, harness.HarnessError) as error:
            self.trouble = error

    def wait_for(self, number):
        """Until so many were made."""
        while self.made < number:
            if self.trouble is not None:
                raise harness.HarnessError(f"the app's broadcasts: {self.trouble!r}") from self.trouble
            time.sleep(LOOK_SECONDS)

    def end(self):
        """After the one that is being made. Gives the numbers."""
        self._over.set()
        self.join()
        if self.trouble is not None:
            raise harness.HarnessError(f"the app's broadcasts: {self.trouble!r}") from self.trouble
        return list(range(self.first, self.first + self.made))


@dataclass
class AnyCable:
    """The HTTP broadcaster of AnyCable's gem, as of 1.6.4: what waits is in memory, and a thread sends it one by one, each on a connection of its
    own. It tries four times, with pauses, where it isn't connected or waits too long for an answer. It drops a message at any status but 201,
    and where a connection ends without an answer."""
    port: int
    key: str
    stored: list = field(default_factory=list)    # (room, number) that got 201
    dropped: list = field(default_factory=list)   # and those that didn't
    repeated: int = 0                             # requests that were sent again
    _waiting: queue.Queue = field(default_factory=queue.Queue)

    def start(self):
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def broadcast(self, room, number):
        self._waiting.put((room, number))

    def end(self):
        """When all that waits is sent or dropped."""
        self._waiting.put(None)
        self._thread.join()

    def _send_all(self):
        while (one := self._waiting.get()) is not None:
            (self.stored if self._try(*one) == 201 else self.dropped).append(one)

    def _try(self, room, number):
        """The status; None without one."""
        for pause in (*ANYCABLE_PAUSES, None):
            try:
                return self._post(room, number)
            except (http.client.RemoteDisconnected, http.client.IncompleteRead, BrokenPipeError):
                return None
            except OSError:
                if pause is None:
                    return None
                self.repeated += 1
                time.sleep(pause)

    def _post(self, room, number):
        body = json.dumps({"stream": room, "data": json.dumps(text_of(room, number)), "meta": {"transient": False}})
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANYCABLE_SECONDS)) as connection:
            connection.request("POST", "/_broadcast", body, {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"})
            answer = connection.getresponse()
            answer.read()
            return answer.status
