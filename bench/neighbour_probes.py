"""What the others do in neighbours.py, and how long they wait: requests at a fixed rate, streams of events, pings. All of it is one
event loop without threads, a hundred requests a second: it isn't what is measured, and notes how late it was itself."""

import asyncio
import contextlib
import re
import time
from dataclasses import dataclass, field

from bench.load import BenchError
from bench.stream_programs import cable_request, stream_request, subscribe_frame

CONNECTIONS = 32          # of each kind of request, so that one that waits holds up no other
AWAITED_SECONDS = 60
PING_SECONDS = 3
MARK = re.compile(rb"change (\d+)\b")   # in a notification's title, with escaped quotes around it or without
PING = b'"type":"ping"'
Beside = contextlib.AbstractContextManager


def milliseconds(since: float, until: float) -> float:
    return (until - since) * 1e3


@dataclass
class Found:
    """What one round gives: milliseconds by what was waited for, and how late this program sent, at its worst."""

    waits: dict[str, list[float]] = field(default_factory=dict)
    late: float = 0
    closed: int = 0   # of the others' streams, by the server


# ---- requests ----

async def answer(reader: asyncio.StreamReader) -> int:
    """Reads one answer whole; its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    await reader.readexactly(int(length.group(1)) if length else 0)
    return int(head[9:12])


@contextlib.asynccontextmanager
async def connections(port: int, count: int):
    opened = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(count)))
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def all_of(*work) -> list:
    """Like gather, but the first that fails ends the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def paced(port: int, requests: list[bytes], per_second: float, seconds: float, found: Found, name: str,
                sent: list[float] | None = None) -> None:
    """Sends requests in turn at a fixed rate, whatever becomes of them: one that waits for a free connection waits too.
    Every one must be answered with success."""
    waiting: asyncio.Queue = asyncio.Queue()
    waits = found.waits.setdefault(name, [])

    async def work(reader, writer) -> None:
        while (one := await waiting.get()) is not None:
            moment, request = one
            writer.write(request)
            status = await answer(reader)
            waits.append(milliseconds(moment, time.perf_counter()))
            if not 200 <= status < 300:
                raise BenchError(f"others: {request.split(b' HTTP', 1)[0].decode()} was answered with {status}")

    async def send() -> None:
        start = time.perf_counter()
        for number in range(int(per_second * seconds)):
            due = start + number / per_second
            await asyncio.sleep(max(0, due - time.perf_counter()))
            moment = time.perf_counter()
            found.late = max(found.late, milliseconds(due, moment))
            if sent is not None:
                sent.append(moment)
            waiting.put_nowait((moment, requests[number % len(requests)]))
        for _ in opened:
            waiting.put_nowait(None)

    async with connections(port, CONNECTIONS) as opened:
        await all_of(send(), *(work(*one) for one in opened))


def ask(port: int, kinds: dict[str, list[bytes]], per_second: float, seconds: float, beside: Beside) -> Found:
    """Requests of several kinds at once, each at its rate, beside something."""
    found = Found()

    async def run() -> None:
        await all_of(*(paced(port, requests, per_second, seconds, found, name) for name, requests in kinds.items()))

    with beside:
        return within(run(), seconds, found)


def within(work, seconds: float, found: Found) -> Found:
    async def run() -> None:
        await asyncio.wait_for(work, seconds + AWAITED_SECONDS)

    try:
        asyncio.run(run())
    except TimeoutError:
        raise BenchError(f"others waited for more than {AWAITED_SECONDS} s") from None
    except (OSError, EOFError) as error:
        raise BenchError(f"others: the server ended a connection: {error}") from None
    return found


# ---- streams ----

class Listener:
    """A connection on which a user is told; when which change came, and when a ping."""

    def __init__(self):
        self.seen: dict[int, float] = {}
        self.heard = [time.perf_counter()]   # pings, after the moment of opening
        self.ready = asyncio.Event()
        self.is_closed = False

    async def hear(self, how, reader, writer, *more) -> None:
        try:
            await how(reader, writer, *more)
        except (OSError, EOFError):
            self.is_closed = True
            self.ready.set()

    def gaps(self, now: float) -> list[float]:
        """Between pings; from the opening to the first and since the last only if that is more than there should be, or if there is
        nothing else."""
        heard = [moment for moment in self.heard if moment < now]
        gaps = [milliseconds(a, b) for a, b in zip(heard, [*heard[1:], now])]
        return [gap for number, gap in enumerate(gaps) if 0 < number < len(gaps) - 1 or gap > PING_SECONDS * 1e3] or [max(gaps)]

    def took(self, text: bytes) -> None:
        """An event or a message, whole."""
        moment = time.perf_counter()
        for mark in MARK.findall(text):
            self.seen.setdefault(int(mark), moment)
        if PING in text:
            self.heard.append(moment)

    async def stream(self, reader, writer, token: str) -> None:
        writer.write(stream_request("/notifications/stream", token))
        await self._head(reader, b"200")
        while True:
            line = await reader.readuntil(b"\n")
            if line.startswith(b"data:"):
                self.took(line)
                self.ready.set()   # the present badge comes first

    async def cable(self, reader, writer, token: str, identifier: dict | None = None) -> None:
        writer.write(cable_request(token))
        await self._head(reader, b"101")
        writer.write(subscribe_frame(identifier))
        while True:
            first, size = await reader.readexactly(2)
            if size == 126:
                size = int.from_bytes(await reader.readexactly(2), "big")
            text = await reader.readexactly(size)
            if first == 0x88:
                raise EOFError("a cable was closed")
            self.took(text)
            if b"confirm_subscription" in text:
                self.ready.set()

    @staticmethod
    async def _head(reader, status: bytes) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head[9:12] != status:
            raise BenchError(f"others: a stream was refused with {head[:60]!r}")


@dataclass
class Broadcasts:
    """What an app broadcasts to the others: each has a stream of its own."""

    identifiers: list[dict]
    requests: list[bytes]   # number n tells `change n` to user n modulo their number


def listen(port: int, tokens: list[str], changes: list[bytes], per_second: float, seconds: float, patience: float,
           beside: Beside, broadcasts: Broadcasts | None = None) -> Found:
    """Each of the users has a stream and a cable, open before the rest begins, and one more cable if there are broadcasts; `changes[n]`
    is a request that tells number n to user n modulo their number. Afterwards waits until all has come and each cable has had its next
    ping, but not longer than the patience: what hasn't come then, or never will, counts as long as that."""
    found, sent, said, ended = Found(), [], [], []
    streams, cables = [Listener() for _ in tokens], [Listener() for _ in tokens]
    pages = [Listener() for _ in tokens] if broadcasts else []
    kinds = [("event on a stream", streams, sent), ("event on a cable", cables, sent)] + ([("broadcast", pages, said)] if broadcasts else [])
    everybody = [one for _, kind, _ in kinds for one in kind]

    async def hear(opened) -> None:
        links = iter(opened)
        await asyncio.gather(
            *(one.hear(one.stream, *next(links), token) for one, token in zip(streams, tokens)),
            *(one.hear(one.cable, *next(links), token) for one, token in zip(cables, tokens)),
            *(one.hear(one.cable, *next(links), token, broadcasts.identifiers[number])
              for number, (one, token) in enumerate(zip(pages, tokens))))
        await asyncio.Event().wait()   # also when all are closed, the changes are told

    async def tell() -> None:
        await asyncio.gather(*(one.ready.wait() for one in everybody))
        await asyncio.to_thread(beside.__enter__)   # takes its time, and pings go on meanwhile
        try:
            telling = [paced(port, changes, per_second, seconds, found, "create", sent)]
            if broadcasts:
                telling.append(paced(port, broadcasts.requests, per_second, seconds, found, "POST /broadcasts", said))
            await all_of(*telling)
            end = time.perf_counter()
            while is_awaited(end) and time.perf_counter() < end + patience:
                await asyncio.sleep(0.05)
            ended.append(time.perf_counter())
        finally:
            await asyncio.shield(asyncio.to_thread(beside.__exit__, None, None, None))

    def is_awaited(end: float) -> bool:
        """Whether something may still come: an event, or the ping after the end of the changes."""
        return any(number not in one.seen for _, kind, moments in kinds for who, one in enumerate(kind) if not one.is_closed
                   for number in range(who, len(moments), len(tokens))) \
            or patience > PING_SECONDS and any(one.heard[-1] < end for one in cables + pages if not one.is_closed)

    async def run() -> None:
        async with connections(port, len(everybody)) as opened:
            hearing, telling = asyncio.ensure_future(hear(opened)), asyncio.ensure_future(tell())
            try:
                done, _ = await asyncio.wait({hearing, telling}, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
            finally:
                hearing.cancel(), telling.cancel()
                await asyncio.gather(hearing, telling, return_exceptions=True)

    within(run(), seconds + patience + AWAITED_SECONDS, found)   # what goes on beside takes its time to begin and to end
    for name, kind, started in kinds:
        moments = [kind[number % len(kind)].seen.get(number) for number in range(len(started))]
        found.waits[name] = [milliseconds(start, end) if end else patience * 1e3 for start, end in zip(started, moments)]
    found.closed = sum(one.is_closed for one in everybody)
    found.waits["ping gap"] = [gap for one in cables + pages for gap in one.gaps(ended[0])]
    return found
