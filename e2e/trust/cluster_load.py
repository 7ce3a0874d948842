"""The load of cluster.py: so many requests a second at the nodes, whatever becomes of them, and the ledger of what was acknowledged; and
clients that listen through nginx meanwhile. In a thread of its own with one event loop: who kills and starts goes on beside it."""
import asyncio
import json
import random
import threading
import time
from dataclasses import dataclass, field

from e2e import harness
from e2e.trust.restart_load import Link, NoAnswer
from e2e.trust.stream_clients import Plan, StreamClient, World

ANSWER_SECONDS = 10      # a client's patience
KEPT = 32                # idle connections of a node
FOREVER = 10**9
KINDS = ["create", "read", "delete", "withdraw", "edit", "badge", "list"]
WEIGHTS = [50, 10, 3, 4, 6, 22, 15]


@dataclass
class Ledger:
    """What nodes said to clients. Ids are 32 hexadecimal digits; times are seconds since 1970."""
    created: dict = field(default_factory=dict)      # idempotency key → (user, id)
    at: dict = field(default_factory=dict)           # id → when it was acknowledged
    read: dict = field(default_factory=dict)         # id → user
    deleted: dict = field(default_factory=dict)      # by its user, or withdrawn by the producer
    titles: dict = field(default_factory=dict)       # id → the title that an acknowledged edit gave it
    doubtful_titles: set = field(default_factory=set)
    doubtful: dict = field(default_factory=dict)     # idempotency key → user: asked for, and no 201 came
    doubtful_deletes: set = field(default_factory=set)
    doubtful_reads: set = field(default_factory=set)
    writes: list = field(default_factory=list)       # when a write was acknowledged
    failures: list = field(default_factory=list)     # (when, kind, what)
    reads: list = field(default_factory=list)        # when a read was answered
    wrong: list = field(default_factory=list)        # answers that no fault explains: 4xx
    requests: int = 0
    acknowledged: int = 0

    def ids(self, user):
        return {one for owner, one in self.created.values() if owner == user}

    def first_write_after(self, when):
        return min((one for one in self.writes if one >= when), default=None)

    def first_read_after(self, when):
        return min((one for one in self.reads if one >= when), default=None)


class Listener(StreamClient):
    """Through nginx, which would send chunks to a client of HTTP/1.1."""

    version = "1.0"


def path_of(one):
    return f"/notifications/{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}"


async def all_listen(clients, tasks):
    """Until every client got its first event; what ends a task is raised."""
    ready = asyncio.gather(*(one.ready.wait() for one in clients))
    done, _ = await asyncio.wait([ready, *tasks], timeout=60, return_when=asyncio.FIRST_COMPLETED)
    for one in done:
        one.result()
    if ready not in done:
        ready.cancel()
        raise harness.HarnessError(f"not every listener got its first event: {[one.seen.refused[:1] for one in clients]}")


class ClusterLoad(threading.Thread):
    """`where`: a function that gives (host, port) of the nodes that may be asked. `watched`: users nothing of whose is deleted or read."""

    def __init__(self, where, key, tokens, rate, seed, watched=(), front=None, streams=0):
        super().__init__(daemon=True, name="load")
        self.where, self.key, self.tokens, self.rate = where, key, tokens, rate
        self.rng, self.watched = random.Random(seed), list(watched)
        self.users, self.ledger = list(tokens), Ledger()
        self.idle, self.known = {}, []       # (host, port) → connections; (user, id) that may be read or deleted
        self.over, self.trouble = threading.Event(), None
        self.front, self.clients, self.streams = front, [], streams
        self.listening = threading.Event()
        self.prefix = f"load-{seed}"

    # --- from outside

    def begin(self):
        self.start()
        while not self.listening.wait(0.1):
            if self.trouble is not None:
                raise harness.HarnessError(f"the load did not begin: {self.trouble}") from self.trouble

    def end(self):
        """No more requests; what is under way is waited for, and the listeners stay until they have seen everything."""
        self.over.set()
        self.join(240)
        if self.trouble is not None:
            raise harness.HarnessError(f"the load broke off: {self.trouble}") from self.trouble

    def run(self):
        try:
            asyncio.run(self._run())
        except Exception as error:  # noqa: BLE001 – told by `end`
            self.trouble = error

    # --- the loop

    async def _run(self):
        world = World(self.front or 0, Plan(FOREVER, 0))
        self.clients = [Listener(world, user, self.tokens[user], random.Random(self.rng.random()))
                        for number in range(self.streams) for user in [self.watched[number % len(self.watched)]]]
        listening = [asyncio.create_task(one.run()) for one in self.clients]
        try:
            await all_listen(self.clients, listening)
            self.listening.set()
            await self._load()
            await self._resolve()
            await self._until_seen()
        finally:
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)

    async def _load(self):
        start, number, tasks = time.monotonic(), 0, set()
        while not self.over.is_set():
            await asyncio.sleep(max(0.0, start + number / self.rate - time.monotonic()))
            task = asyncio.create_task(self._one(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
            if task_ended_badly := next((one for one in tasks if one.done() and one.exception()), None):
                task_ended_badly.result()
        await asyncio.gather(*tasks)

    async def _one(self, number):
        kind = self.rng.choices(KINDS, WEIGHTS)[0]
        user = self.users[number % len(self.users)]
        if kind == "create":
            await self._create(user, f"{self.prefix}-{number}")
        elif kind in ("badge", "list"):
            answer = await self._ask(kind, "GET", "/badge" if kind == "badge" else "/notifications?limit=10", self.tokens[user])
            if answer is not None:
                self.ledger.reads.append(time.time())
        elif self.known:
            user, one = self.known.pop(self.rng.randrange(len(self.known)))
            if kind == "edit":
                await self._edit(user, one, f"edited-{number}")
            else:
                await self._change(kind, user, one)

    async def _create(self, user, key):
        ledger = self.ledger
        ledger.doubtful[key] = user
        answer = await self._ask("create", "POST", "/notifications", self.key, {"user_id": user, "title": key, "body": "x" * 100},
                                 f'Idempotency-Key: "{key}"\r\n', (201,))
        if answer is None:
            return
        one = json.loads(answer.body)["id"].replace("-", "")
        del ledger.doubtful[key]
        ledger.created[key], ledger.at[one] = (user, one), time.time()
        self._wrote()
        if user not in self.watched:
            self.known.append((user, one))

    async def _edit(self, user, one, title):
        answer = await self._ask("edit", "PATCH", f"{path_of(one)}?user_id={user}", self.key, {"title": title})
        if answer is None:
            self.ledger.doubtful_titles.add(one)
        else:
            self.ledger.titles[one] = title
            self._wrote()
        # Nobody else changes it meanwhile.
        self.known.append((user, one))

    async def _change(self, kind, user, one):
        if kind == "read":
            answer = await self._ask(kind, "PATCH", path_of(one), self.tokens[user], {"read": True})
        elif kind == "withdraw":
            answer = await self._ask(kind, "DELETE", f"{path_of(one)}?user_id={user}", self.key, wanted=(204,))
        else:
            # Asked again by nobody: an earlier attempt that arrived would make it 404.
            answer = await self._ask(kind, "DELETE", path_of(one), self.tokens[user], wanted=(204,))
        sure, doubtful = ((self.ledger.read, self.ledger.doubtful_reads) if kind == "read"
                          else (self.ledger.deleted, self.ledger.doubtful_deletes))
        if answer is None:
            doubtful.add(one)
        else:
            sure[one] = user
            self._wrote()

    def _wrote(self):
        self.ledger.acknowledged += 1
        self.ledger.writes.append(time.time())

    async def _resolve(self):
        """Every create that got no 201 is asked for again with its key until it gets one."""
        deadline = time.monotonic() + 90
        while self.ledger.doubtful and time.monotonic() < deadline:
            for key, user in list(self.ledger.doubtful.items()):
                await self._create(user, key)
            await asyncio.sleep(0.2)

    async def _until_seen(self):
        wanted = {user: len(self.ledger.ids(user)) for user in self.watched}
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and any(len(one.seen.ids) < wanted[one.seen.user] for one in self.clients):
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)   # what shouldn't come may come now

    # --- requests

    async def _ask(self, kind, method, path, credential, body=None, headers="", wanted=(200,)):
        """The answer, or None where a fault may explain that there is none; the next node is asked only where none was reached."""
        self.ledger.requests += 1
        content = json.dumps(body).encode() if body is not None else b""
        if body is not None:
            headers += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        text = (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {credential}\r\n{headers}\r\n").encode() + content
        nodes = self.where()
        self.rng.shuffle(nodes)
        said = "no node"
        for node in nodes:
            try:
                link = await self._open(node)
            except (OSError, TimeoutError) as trouble:
                said = f"{type(trouble).__name__} {trouble}"
                continue
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    answer = await link.ask(text)
            except (OSError, NoAnswer, TimeoutError) as trouble:
                said = f"{type(trouble).__name__} {trouble}"
                link.give_up()
                break
            self._keep(node, link, answer)
            if answer.status in wanted:
                return answer
            said = f"{answer.status} {answer.body[:200]!r}"
            # A create that is still under way is a conflict; so much else of 4xx is a finding.
            if answer.status < 500 and answer.status not in (409, 429):
                self.ledger.wrong.append(f"{kind} {path}: {said}")
            break
        self.ledger.failures.append((time.time(), kind, said))
        return None

    async def _open(self, node):
        kept = self.idle.setdefault(node, [])
        while kept:
            link = kept.pop()
            if not link.is_over and not link.transport.is_closing():
                return link
        async with asyncio.timeout(2):
            return (await asyncio.get_running_loop().create_connection(Link, *node))[1]

    def _keep(self, node, link, answer):
        kept = self.idle.setdefault(node, [])
        if answer.closes or len(kept) >= KEPT:
            link.transport.close()
        else:
            kept.append(link)
