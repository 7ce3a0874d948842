"""The scenario `history` of cluster.py: very many operations at random on three nodes, without any fault but clients that come and go.
Every reader must see versions and sequences that grow, and what was answered before by any node."""
import asyncio
import copy
import json
import random
import time
from types import SimpleNamespace

from e2e import harness
from e2e.harness.cluster import Shape
from e2e.trust.cluster_load import ANSWER_SECONDS, Ledger, Listener, all_listen
from e2e.trust.cluster_world import check_badges, check_streams, world
from e2e.trust.restart_load import Link
from e2e.trust.stream_clients import Plan, World

WORKERS = 24
WEIGHTS = {"create": 45, "read": 15, "unread": 5, "delete": 8, "mark_all_read": 4, "clear": 4, "badge": 12, "list": 7}
LOOK_AGAIN = 0.2         # of all creates: the badge is asked for at another node afterwards
LAST_SECONDS = 60
TOLD = 20                # findings of a kind that are kept


class History:
    """The workers, the listeners, and what was seen. In one thread: between two awaits nobody else runs."""

    def __init__(self, here, report, operations, watched, streams, plan):
        self.report, self.operations, self.rng = report, operations, random.Random(here.options.seed)
        self.nodes, self.key = here.where(), here.keys["default"]
        self.tokens = {user.name: user.credential for user in here.users}
        self.users, self.watched = list(self.tokens), set(list(self.tokens)[:watched])
        self.ledger, self.known = Ledger(), {user: [] for user in self.users}
        self.newest = {user: (0, None) for user in self.users}    # version, and the answer that told it
        self.links, self.done, self.kinds = {}, 0, dict.fromkeys(WEIGHTS, 0)
        self.world = World(here.cluster.front, plan)
        self.clients = [Listener(self.world, user, self.tokens[user], random.Random(self.rng.random()))
                        for user in list(self.watched) for _ in range(streams)]

    async def run(self):
        listening = [asyncio.create_task(one.run()) for one in self.clients]
        try:
            await all_listen(self.clients, listening)
            await asyncio.gather(*(self._work(number) for number in range(WORKERS)))
            self.world.plan.over = True
            await self._until_seen()
        finally:
            for task in listening:
                task.cancel()
            ended = await asyncio.gather(*listening, return_exceptions=True)
        for one in ended:
            if not isinstance(one, asyncio.CancelledError):
                raise one

    async def _until_seen(self):
        wanted = {user: len(self.ledger.ids(user)) for user in self.watched}
        deadline = time.monotonic() + LAST_SECONDS
        while time.monotonic() < deadline and any(len(one.seen.ids) < wanted[one.seen.user] for one in self.clients):
            await asyncio.sleep(0.2)
        await asyncio.sleep(1)

    async def _work(self, worker):
        while self.done < self.operations:
            self.done += 1
            kind = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            # A quarter of it meets a few users, so that nodes change one inbox at the same moment.
            user = self.rng.choice(self.users[:8] if self.rng.random() < 0.25 else self.users)
            self.kinds[kind] += 1
            await getattr(self, "_" + kind)(worker, user)

    # --- operations

    async def _create(self, worker, user):
        before = self.newest[user][0]
        made = await self._ask(worker, "POST", "/notifications", self.key,
                               {"user_id": user, "title": f"History {self.done}", "body": "x" * 60, "push": False}, 201)
        if made is None:
            return
        one = made["id"]
        self.ledger.created[f"{self.done}-{one}"] = user, one.replace("-", "")
        self.known[user].append(one)
        if self.rng.random() < LOOK_AGAIN:
            told = await self._badge(worker, user)
            if told is not None:
                self._check("written, then read", told["version"] > before, f"{user}: {told} after a create that came after version {before}")

    async def _change(self, worker, user, method, body, wanted, keep):
        if not self.known[user]:
            return
        # Taken out meanwhile, so that nobody else deletes it.
        one = self.known[user].pop(self.rng.randrange(len(self.known[user])))
        await self._ask(worker, method, f"/notifications/{one}", self.tokens[user], body, wanted)
        if keep:
            self.known[user].append(one)

    async def _read(self, worker, user):
        await self._change(worker, user, "PATCH", {"read": True}, 200, True)

    async def _unread(self, worker, user):
        await self._change(worker, user, "PATCH", {"read": False}, 200, True)

    async def _delete(self, worker, user):
        if user not in self.watched:
            await self._change(worker, user, "DELETE", None, 204, False)

    async def _mark_all_read(self, worker, user):
        answer = await self._ask(worker, "POST", "/notifications/mark_all_read", self.tokens[user], {}, 200)
        self._saw(user, answer and answer["badge"], 0)

    async def _clear(self, worker, user):
        self._saw(user, await self._ask(worker, "DELETE", "/badge", self.tokens[user], None, 200), 0)

    async def _list(self, worker, user):
        page = await self._ask(worker, "GET", "/notifications?limit=20", self.tokens[user], None, 200)
        if page is not None:
            ids = [one["id"] for one in page["notifications"]]
            self._check("list", ids == sorted(set(ids), reverse=True), f"{user}: a page out of order: {ids}")

    async def _badge(self, worker, user):
        least = self.newest[user][0]
        told = await self._ask(worker, "GET", "/badge", self.tokens[user], None, 200)
        self._saw(user, told, least)
        return told

    def _saw(self, user, told, least):
        """What was answered before this was asked is seen; and one version is one badge."""
        if told is None:
            return
        self._check("version", told["version"] >= least, f"{user}: version {told['version']} after {least} had been answered")
        newest, content = self.newest[user]
        said = told["count"], told["unread_count"]
        if told["version"] == newest and content is not None:
            self._check("one badge a version", said == content, f"{user}: version {newest} is {said} and {content}")
        if told["version"] > newest or content is None:
            self.newest[user] = told["version"], said

    # --- requests

    def _check(self, kind, holds, what):
        self.report.count(kind)
        if not holds and sum(one == kind for one, _ in self.report.wrong) < TOLD:
            self.report.wrong.append((kind, what))

    async def _ask(self, worker, method, path, credential, body, wanted):
        """At any node. There is no fault, so that every answer must be the right one."""
        node = self.rng.choice(self.nodes)
        content = json.dumps(body).encode() if body is not None else b""
        fields = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n" if body is not None else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {credential}\r\n{fields}\r\n"
        link = self.links.get((worker, node))
        if link is None or link.is_over or link.transport.is_closing():
            link = self.links[worker, node] = (await asyncio.get_running_loop().create_connection(Link, *node))[1]
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await link.ask(head.encode() + content)
        if answer.closes:
            link.transport.close()
        self._check("answer", answer.status == wanted, f"{method} {path}: {answer.status} {answer.body[:200]!r}")
        return (json.loads(answer.body) if answer.body else {}) if answer.status == wanted else None


def history(options, report, operations):
    small = options.short
    with world(options, Shape(standby=not small), users=60 if small else 2000, devices=0) as here:
        made = History(here, report, operations, watched=10 if small else 60, streams=2, plan=Plan(1, 0.3) if small else Plan(12, 1))
        began = time.monotonic()
        asyncio.run(made.run())
        took = time.monotonic() - began
        check_streams(report, made)
        check_badges(here, report)
        planted(report, made)
        here.cluster.stop()
    cuts = sum(one.seen.cuts for one in made.clients)
    return (f"{operations:,} operations on {len(made.nodes)} nodes in {took:.0f} s ({operations / took:,.0f}/s): "
            + ", ".join(f"{count:,} {kind}" for kind, count in made.kinds.items())
            + f"; {len(made.clients)} listeners, cut off and resumed {cuts:,} times, saw {sum(len(one.seen.ids) for one in made.clients):,}; "
            f"{report.checked.get('version', 0):,} versions compared")


def planted(report, made):
    """A sighting taken, one doubled and two exchanged must each be seen; so must a version that falls."""
    def taken(seen):
        seen.ids.pop()

    def doubled(seen):
        seen.ids.append(seen.ids[-1])

    def exchanged(seen):
        seen.sequences[0], seen.sequences[-1] = seen.sequences[-1], seen.sequences[0]

    client = max(made.clients, key=lambda one: len(one.seen.ids))
    for plant, kind in ((taken, "seen"), (doubled, "seen once"), (exchanged, "order")):
        copied, seen = SimpleNamespace(seen=copy.deepcopy(client.seen)), harness.Report()
        plant(copied.seen)
        check_streams(seen, SimpleNamespace(clients=[copied], ledger=made.ledger))
        report.check("control", kind in seen.kinds(), f"the check '{kind}' did not see a planted fault")
    before, made.report = made.report, harness.Report()
    user, (version, _) = max(made.newest.items(), key=lambda one: one[1][0])
    made._saw(user, {"version": version - 1, "count": 0, "unread_count": 0}, version)
    seen, made.report = made.report, before
    report.check("control", "version" in seen.kinds(), "the check 'version' did not see a version that fell")
