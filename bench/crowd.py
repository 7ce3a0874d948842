"""One client with many connections, for neighbours.py: takes all the server gives it, reads whatever comes as fast as it can,
and comes back when it is cut off.

Its standard input has one line of JSON: `port`, `request` (what opens a connection), `connections`, and for cables `channel` (the
identifier's members) and `subscriptions` of each connection. Or, in place of `channel`, `identifiers`: each connection subscribes to all
of these, and then goes on to unsubscribe, to subscribe and to ask for histories, with `frames` a second; if it `dawdles`, it takes
what comes only at times. Prints what it has got once everything is answered, obeys the
end of its input, and prints what came."""

import asyncio
import contextlib
import itertools
import json
import socket
import sys
import time
from collections.abc import Iterator

from bench.stream_programs import command_frame, subscribe_frame

LONG, SHORT = 4096, 100       # bytes of an identifier: as long as may be; for as many as are rejected, once more with short ones
CONFIRMED, REJECTED = b"m_subscription", b"t_subscription"   # the ends of both answers, of one length
AT_ONCE = 10                  # subscriptions: the present state that follows each must not be too much for a server that cuts off
OPENING_SECONDS = 30
RETURN_SECONDS = 0.2
RECEIVE_BYTES = 4 << 20       # the kernel gives what it may
FRAMES_SECONDS = 0.1          # between two gulps of commands
UNSENT_BYTES = 64 << 10       # beyond which a connection says nothing more
DAWDLE_SECONDS, TAKING_SECONDS = 2.5, 0.05
buffer = bytearray(1 << 20)   # everybody's: what is read is looked at at once


class Crowd:
    def __init__(self, order: dict):
        self.order, self.request = order, order["request"].encode()
        self.members: list[Member] = []
        self.bytes = self.confirmed = self.rejected = self.returns = self.numbers = self.commands = 0
        self.is_over = False

    def frames(self, count: int, size: int) -> Iterator[bytes]:
        """Subscriptions that differ from all others, so that none can be told with another's text."""
        for _ in range(count):
            self.numbers += 1
            identifier = {**self.order["channel"], "n": self.numbers, "x": ""}
            # The identifier stands as text in a text of JSON; its own length is what is limited.
            identifier["x"] = "x" * max(0, size - len(json.dumps(identifier)))
            yield subscribe_frame(identifier)

    async def open(self) -> None:
        member, link = Restless(self) if "identifiers" in self.order else Member(self), socket.socket()
        # What comes in one go has place, also while this program is busy: who is slow is cut off, and does little harm.
        if not self.order.get("dawdles"):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        link.setblocking(False)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            await loop.sock_connect(link, ("127.0.0.1", self.order["port"]))
            self.members.append(member)
            await loop.create_connection(lambda: member, sock=link)

    async def come_back(self) -> None:
        await asyncio.sleep(RETURN_SECONDS)
        if not self.is_over:
            self.returns += 1
            await self.open()

    def told(self) -> dict:
        return {"open": sum(one.is_open for one in self.members), "confirmed": self.confirmed, "rejected": self.rejected,
                "returns": self.returns, "bytes": self.bytes, "commands": self.commands}


class Member(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, crowd: Crowd):
        self.crowd = crowd
        self.settled = asyncio.Event()
        self.is_open = False
        self.head = b""           # until it is whole
        self.tail = b""           # what may be the beginning of an answer
        self.long, self.short = crowd.order["subscriptions"], 0   # still to be asked for, with identifiers of either length
        self.size = self.unanswered = 0

    def connection_made(self, transport) -> None:
        self.transport = transport
        transport.write(self.crowd.request)

    def get_buffer(self, _: int) -> bytearray:
        return buffer

    def buffer_updated(self, count: int) -> None:
        self.crowd.bytes += count
        if self.settled.is_set():
            return
        if not self.is_open:
            self.head += buffer[:count]
            if b"\r\n\r\n" in self.head:
                self.is_open = self.head[9:12] in (b"101", b"200")
                self.subscribe() if self.is_open else self.transport.abort()
            return
        text = self.tail + buffer[:count]
        self.tail = text[1 - len(CONFIRMED):]
        confirmed, rejected = text.count(CONFIRMED), text.count(REJECTED)
        self.unanswered -= confirmed + rejected
        self.crowd.confirmed += confirmed
        self.crowd.rejected += rejected
        if self.size == LONG:
            self.short += rejected
        if self.unanswered <= 0:
            self.subscribe()

    def subscribe(self) -> None:
        if self.long:
            self.size, self.unanswered = LONG, min(self.long, AT_ONCE)
            self.long -= self.unanswered
        elif self.short:
            self.size, self.unanswered = SHORT, min(self.short, AT_ONCE)
            self.short -= self.unanswered
        else:
            self.settled.set()
            return
        self.transport.write(b"".join(self.crowd.frames(self.unanswered, self.size)))

    def connection_lost(self, _) -> None:
        self.is_open = False
        self.settled.set()
        if self in self.crowd.members:
            self.crowd.members.remove(self)
        if not self.crowd.is_over:
            self.coming = asyncio.ensure_future(self.crowd.come_back())


class Restless(Member):
    """A page with many subscriptions that never rests."""

    def __init__(self, crowd: Crowd):
        super().__init__(crowd)
        crowd.numbers += 1
        # Another identifier on each connection, so that none can be told with another's text.
        own = [{**identifier, "n": crowd.numbers} for identifier in crowd.order["identifiers"]]
        ago = {"since": int(time.time()) - 240}   # less than they are kept
        self.wanted = [subscribe_frame(identifier) for identifier in own]
        self.cycle = itertools.cycle([frame for identifier in own for frame in (
            command_frame("unsubscribe", identifier), command_frame("subscribe", identifier, history=ago),
            command_frame("history", identifier, history=ago), subscribe_frame(identifier))])

    def subscribe(self) -> None:
        if self.wanted:
            frames, self.wanted = self.wanted[:AT_ONCE], self.wanted[AT_ONCE:]
            self.unanswered = len(frames)
            self.transport.write(b"".join(frames))
            return
        if not self.settled.is_set():
            self.settled.set()
            self.working = asyncio.ensure_future(self.work())
            if self.crowd.order["dawdles"]:
                self.dawdling = asyncio.ensure_future(self.dawdle())

    async def work(self) -> None:
        each, due = round(self.crowd.order["frames"] * FRAMES_SECONDS), time.perf_counter()
        while self.is_open and not self.crowd.is_over:
            if self.transport.get_write_buffer_size() < UNSENT_BYTES:
                self.transport.write(b"".join(itertools.islice(self.cycle, each)))
                self.crowd.commands += each
            # Late is late: what wasn't said isn't made up for, because that would pass the limit.
            due = max(due + FRAMES_SECONDS, time.perf_counter())
            await asyncio.sleep(due - time.perf_counter())

    async def dawdle(self) -> None:
        while self.is_open and not self.crowd.is_over:
            self.transport.pause_reading()
            await asyncio.sleep(DAWDLE_SECONDS)
            self.transport.resume_reading()
            await asyncio.sleep(TAKING_SECONDS)


async def run() -> None:
    crowd = Crowd(json.loads(sys.stdin.readline()))
    for _ in range(crowd.order["connections"]):
        await crowd.open()
    waiting = [asyncio.ensure_future(one.settled.wait()) for one in list(crowd.members)]
    if waiting:
        await asyncio.wait(waiting, timeout=OPENING_SECONDS)
    print(json.dumps(crowd.told()), flush=True)
    crowd.bytes = crowd.returns = crowd.commands = 0
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps(crowd.told()), flush=True)
    crowd.is_over = True
    for member in list(crowd.members):
        member.transport.abort()


asyncio.run(run())
