"""The load of restart.py: so many requests a second on connections that are kept, whatever the server does meanwhile. A request
for which no connection is idle opens one. Standard library only, one event loop for all."""
import asyncio
import json
import time
from dataclasses import dataclass, field

REQUEST_SECONDS = 30     # no answer within this is a failure, not a slow machine
KEPT = 100               # idle connections, from the start and at most


class NoAnswer(Exception):
    """The connection ended. `begun`: some bytes of the answer had come, so that asking again would be wrong."""

    def __init__(self, begun):
        super().__init__("the connection ended in the middle of an answer" if begun else "the connection ended without an answer")
        self.begun = begun


@dataclass
class Answer:
    status: int
    closes: bool
    body: bytes


class Link(asyncio.Protocol):
    """One connection: one request after the other."""

    def __init__(self):
        self.transport, self.waiting, self.buffer = None, None, b""
        self.server = None     # the one that has answered on it
        self.is_over = False

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end or self.waiting is None or self.waiting.done():
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(fields.get("content-length", 0))
        if len(rest) >= length:
            self.buffer = rest[length:]
            closes = fields.get("connection", "").lower() == "close"
            self.waiting.set_result(Answer(int(first.split(" ")[1]), closes, rest[:length]))

    def connection_lost(self, error):
        self.is_over = True
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(NoAnswer(begun=bool(self.buffer)))

    def give_up(self):
        """Nobody waits for an answer any more."""
        if self.waiting is not None:
            self.waiting.cancel()
        self.transport.abort()

    def send(self, content):
        if self.waiting is None or self.waiting.done():
            self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(content)

    async def answer(self):
        async with asyncio.timeout(REQUEST_SECONDS):
            return await asyncio.shield(self.waiting)

    async def ask(self, content):
        if self.is_over:
            raise NoAnswer(begun=False)
        self.send(content)
        return await self.answer()


@dataclass
class Counts:
    requests: int = 0
    refused: int = 0
    failed: list = field(default_factory=list)
    statuses: dict = field(default_factory=dict)
    ended_idle: int = 0        # connections that ended while nothing was asked on them
    asked_again: int = 0       # requests that met a kept connection which was just ending
    last_answers: int = 0      # answers of a server that stops, which say that the connection ends
    forgotten: list = field(default_factory=list)   # answers of a server that stops which don't say so
    untimely: int = 0          # answers that say so of a server that doesn't stop
    waited: int = 0            # connections that were opened while no server was there, and answered
    longest: float = 0.0


class Load:
    """`created`: user → key of idempotency → id, as it was acknowledged."""

    def __init__(self, port, rate, key, tokens, world, watched, rng):
        self.port, self.rate, self.key, self.tokens, self.rng = port, rate, key, tokens, rng
        self.world, self.watched = world, watched
        self.users = list(tokens)
        self.counts, self.created, self.idle = Counts(), {user: {} for user in tokens}, []
        self.is_over = False
        # Which server it is, and whether it serves, stops (from the SIGTERM on) or isn't there (from its end to the next one's first
        # answer). `is_closing`: an answer of the server that stops has said that its connection ends.
        self.server, self.phase, self.is_closing = 0, "serving", False

    async def run(self):
        some = self.text("GET", "/badge", self.tokens[self.users[0]])
        await asyncio.gather(*(self._ask(some, 200) for _ in range(KEPT)))
        start, number, tasks = time.monotonic(), 0, set()
        while not self.is_over:
            await asyncio.sleep(max(0.0, start + number / self.rate - time.monotonic()))
            task = asyncio.create_task(self._one(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
        await asyncio.gather(*tasks)
        for link in self.idle:
            link.transport.close()

    # --- requests

    def text(self, method, path, credential, body=None, headers=""):
        content = json.dumps(body).encode() if body is not None else b""
        if body is not None:
            headers += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        return (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {credential}\r\n{headers}\r\n"
                ).encode() + content

    def create(self, user, name):
        return self.text("POST", "/notifications", self.key, {"user_id": user, "title": name, "push": False},
                         f'Idempotency-Key: "{name}"\r\n')

    async def _one(self, number):
        user = self.users[number % len(self.users)]
        kind = self.rng.random()
        if kind < 0.2:
            await self.post(user, f"load-{number}")
        else:
            path = "/badge" if kind < 0.7 else "/notifications?limit=5"
            await self._ask(self.text("GET", path, self.tokens[user]), 200)

    async def post(self, user, name):
        """A notification, once: asked again, it has the same Idempotency-Key."""
        self.world.sent += user == self.watched
        self.take(user, name, await self._ask(self.create(user, name), 201))

    def take(self, user, name, answer):
        if answer is not None:
            self.created[user][name] = json.loads(answer.body)["id"]
            self.world.acknowledged += user == self.watched

    async def _ask(self, content, wanted):
        """As any client does it: a request on a kept connection that ends without a byte of the answer is asked again, on a new
        connection, once. On a new connection nothing may go wrong."""
        self.counts.requests += 1
        started, link = time.monotonic(), self._kept()
        try:
            if link is not None:
                try:
                    return self._judge(link, await self._exchange(link, content), wanted, started)
                except NoAnswer as trouble:
                    if trouble.begun:
                        raise
                    self.counts.asked_again += 1
            is_down = self.phase == "down"
            link = await self.open()
            answer = self._judge(link, await self._exchange(link, content), wanted, started)
            self.counts.waited += is_down
            return answer
        except ConnectionRefusedError:
            self.counts.refused += 1
        except (OSError, NoAnswer, TimeoutError) as trouble:
            self.counts.failed.append(f"{content[:40]!r}: {type(trouble).__name__} {trouble}")
        return None

    async def _exchange(self, link, content):
        """Once a server that stops has said that a connection ends, it must say so of each on which it is asked after."""
        server, phase = self.server, self.phase
        is_bound = self.is_closing and link.server == server
        answer = await link.ask(content)
        if answer.closes and phase == self.phase == "serving" and server == self.server:
            self.counts.untimely += 1
        elif answer.closes:
            self.counts.last_answers += 1
            self.is_closing = self.phase == "stopping"
        elif is_bound:
            self.counts.forgotten.append(f"{content[:40]!r}: {answer.status} without Connection: close")
        return answer

    def _judge(self, link, answer, wanted, started):
        self.counts.longest = max(self.counts.longest, time.monotonic() - started)
        self.counts.statuses[answer.status] = self.counts.statuses.get(answer.status, 0) + 1
        self._keep(link, answer)
        if answer.status != wanted:
            self.counts.failed.append(f"{answer.status} {answer.body[:200]!r}")
            return None
        return answer

    # --- connections

    async def open(self):
        return (await asyncio.get_running_loop().create_connection(Link, "127.0.0.1", self.port))[1]

    def _kept(self):
        while self.idle:
            link = self.idle.pop(self.rng.randrange(len(self.idle)))
            if not link.is_over and not link.transport.is_closing():
                return link
            self.counts.ended_idle += 1
        return None

    def _keep(self, link, answer):
        link.server = self.server if link.server is None else link.server
        if answer.closes or len(self.idle) >= KEPT:
            link.transport.close()
        else:
            self.idle.append(link)
