"""A badge that producers give (`badge.policy: given`), under reordered calls, two producers and kill -9, against `campanile simulator`.

Each user has tenants, and each tenant's number a sequence that grows. The calls are made out of order by two producers with keys of their own:
PUT /users/{user_id}/badge, POST /notifications with `badge`, and POST /users/{user_id}/reads with `badge`. Each is repeated until it is
acknowledged; meanwhile the server gets SIGKILL and is started again, and readers ask for the badge by tenant. When all is acknowledged and
nothing is owed any more:

- every call was acknowledged;
- every tenant has the number of its greatest sequence, and no answer ever had another count than the sum of its tenants;
- a version never went back for a reader, and no version had two counts;
- every iPhone shows the sum, and every page that listened to /badge/stream heard something, and the sum last;
- `campanile badge audit` finds nothing.

At the end the control: a call without its acknowledgement, a smaller sequence's number in the place of the greatest's, in an answer, on an
icon and on a page, a page that heard nothing, wrong sums at the end and before, a version that went back and one of two counts must be seen,
each by its own check.
"""
import collections
import contextlib
import copy
import http.client
import json
import os
import queue
import random
import threading
import time
from dataclasses import dataclass, field, replace

from e2e import harness
from e2e.harness import stores
from e2e.trust.push_judge import icon
from e2e.trust.push_world import Device, User, World, world

TENANTS = ("", "acme", "globex", "e\u0301", "\u00e9")
PRODUCERS = 2
CALLERS = 3                # threads of each producer
READERS = 2
PAGES = 4                  # users whose page listens
WINDOW = 40                # calls whose order is shuffled together
GIVE_UP_SECONDS = 120      # after the last restart
END_SECONDS = 30           # until a page has heard the last number


@dataclass
class Call:
    user: str
    tenant: str
    sequence: int
    count: int
    kind: str
    number: int

    def request(self):
        given = {"count": self.count, "sequence": self.sequence, **({"tenant": self.tenant} if self.tenant else {})}
        match self.kind:
            case "put":
                return "PUT", f"/users/{self.user}/badge", given, {}
            case "create":
                return ("POST", "/notifications", {"user_id": self.user, "title": "T", "external_id": f"n{self.number}", "badge": given},
                        {"Idempotency-Key": f"outbox:{self.number}"})
            case _:
                return "POST", f"/users/{self.user}/reads", {"external_ids": [f"n{self.number - step}" for step in range(1, 90)], "badge": given}, {}


@dataclass
class Seen:
    """What readers and pages saw."""
    counts: dict = field(default_factory=lambda: collections.defaultdict(set))   # (user, version) → counts
    wrong_sums: list = field(default_factory=list)
    went_back: list = field(default_factory=list)
    last: dict = field(default_factory=dict)                                     # user of a page → the count heard last
    asked: int = 0

    def answer(self, user, badge, versions):
        """What a reader was answered by tenant. `versions`: user → the last version that it had."""
        self.asked += 1
        self._note(user, badge, "an answer", versions)
        if badge["count"] != sum(badge["tenants"].values()):
            self.wrong_sums.append(f"{user}: {badge}")

    def page(self, user, badge, versions):
        """What a page heard."""
        self._note(user, badge, "a page", versions)
        self.last[user] = badge["count"]

    def _note(self, user, badge, source, versions):
        self.counts[user, badge["version"]].add(badge["count"])
        if badge["version"] < versions.get(user, 0):
            self.went_back.append(f"{user}: {source} had version {versions[user]} and then {badge['version']}")
        versions[user] = badge["version"]


@dataclass
class Evidence:
    """Everything that is known at the end."""
    users: list
    pages: list              # names of the users whose page listened
    calls: list
    acknowledged: list       # the calls that were
    answers: dict            # user → what GET /badge?by=tenant says
    phones: dict
    seen: Seen


def plan(rng, users, number):
    """Calls in an order that isn't their sequences'."""
    sequences, calls = collections.Counter(), []
    for one in range(number):
        user, tenant = rng.choice(users).name, rng.choice(TENANTS)
        sequences[user, tenant] += rng.randint(1, 3)
        kind = rng.choices(["put", "create", "read"], [7, 2, 1])[0]
        calls.append(Call(user, tenant, sequences[user, tenant], rng.randint(0, 9), kind, one))
    for start in range(0, number, WINDOW):
        part = calls[start:start + WINDOW]
        rng.shuffle(part)
        calls[start:start + WINDOW] = part
    return calls


def greatest(calls):
    """user → tenant → the number of its greatest sequence."""
    found = collections.defaultdict(dict)
    for call in calls:
        known = found[call.user].get(call.tenant)
        if known is None or known.sequence < call.sequence:
            found[call.user][call.tenant] = call
    return {user: {tenant: call.count for tenant, call in tenants.items()} for user, tenants in found.items()}


class GivenWorld(World):
    """One whose apps' numbers are given."""

    def __init__(self, options, folder, apps):
        super().__init__(options, folder, apps)
        path = os.path.join(folder, "campanile.yaml")
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
        settings["badge"]["policy"] = "given"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file)

    def ask_on_devices(self):
        """Has every device ask for its number, as an app does at its start. Nothing is owed to one that neither asked nor was sent anything."""
        def ask(user):
            for device in user.devices:
                self.ask("GET", "/badge", credential=user.credential, headers={"X-Device-Token": device.token})
        self.each(ask, self.users)


class Run:
    """The producers, the readers and the pages."""

    def __init__(self, here, options, rng):
        self.world, self.rng, self.seen = here, rng, Seen()
        self.over, self.noting = threading.Event(), threading.Lock()
        self.calls = plan(rng, here.users, options.calls)
        self.left, self.acknowledged, self.refused = queue.SimpleQueue(), [], []
        for call in self.calls:
            self.left.put(call)
        self.keys = [here.server.producer_key(f"producer-{number}") for number in range(PRODUCERS)]

    def produce(self, key):
        """Makes calls until none is left, each until it is acknowledged."""
        while not self.refused:
            try:
                call = self.left.get_nowait()
            except queue.Empty:
                return
            method, path, body, headers = call.request()
            deadline = time.monotonic() + GIVE_UP_SECONDS
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    answer = self.world.request(method, path, credential=key, body=body, headers=headers)
                    if answer.status in (200, 201):
                        self.acknowledged.append(call)
                        break
                    if answer.status not in (409, 503):
                        self.refused.append(f"{method} {path}: {answer!r}")
                        break
                time.sleep(0.02)
            else:
                self.refused.append(f"{method} {path} is not acknowledged")

    def note(self, look, *what):
        """Has something looked at, until all is over."""
        with self.noting:
            if not self.over.is_set():
                look(*what)

    def read(self, rng):
        """Asks for badges by tenant."""
        versions = {}
        while not self.over.is_set():
            user = rng.choice(self.world.users)
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self.world.request("GET", "/badge?by=tenant", credential=user.credential)
                if answer.status == 200:
                    self.note(self.seen.answer, user.name, answer.json(), versions)
            time.sleep(0.005)

    def listen(self, user):
        """A page that listens to the badge, and comes back when its connection ends."""
        versions = {}
        while not self.over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.world.server.port, timeout=40)
                connection.request("GET", "/badge/stream", headers={"Authorization": f"Bearer {user.credential}"})
                answer = connection.getresponse()
                while line := answer.readline():
                    if line.startswith(b"data: {"):
                        self.note(self.seen.page, user.name, json.loads(line[6:]), versions)
                    if self.over.is_set():
                        break
            time.sleep(0.05)

    def begin(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread

    def go(self, kills):
        """Returns when everything is acknowledged."""
        producers = [self.begin(self.produce, key) for key in self.keys for _ in range(CALLERS)]
        for _ in range(READERS):
            self.begin(self.read, random.Random(self.rng.random()))
        for user in self.world.users[:PAGES]:
            self.begin(self.listen, user)
        for number in range(kills):
            # Spread over the calls, not over the time.
            until = self.left.qsize() - self.left.qsize() // (kills - number + 1)
            while self.left.qsize() > until and any(producer.is_alive() for producer in producers):
                time.sleep(0.005)
            self.world.server.kill()
            stores.wait_until_left(self.world.server.database)
            self.world.server.start()
        for producer in producers:
            producer.join()
        if self.refused:
            raise harness.HarnessError(self.refused[0])

    def end(self, evidence):
        """Gives the pages time to hear the last number. Afterwards nothing is noted any more."""
        deadline = time.monotonic() + END_SECONDS
        while True:
            with self.noting:
                if time.monotonic() > deadline or not judge(evidence).kinds() & {"page", "silent page"}:
                    self.over.set()
                    return
            time.sleep(0.1)

    def evidence(self):
        users = self.world.users
        answers = {user.name: self.world.ask("GET", "/badge?by=tenant", credential=user.credential).json() for user in users}
        return Evidence(users, [user.name for user in users[:PAGES]], self.calls, self.acknowledged, answers,
                        self.world.simulator.phones(), self.seen)


def judge(evidence):
    report, seen, expected = harness.Report(), evidence.seen, greatest(evidence.calls)
    for user in evidence.users:
        tenants, answer = expected.get(user.name, {}), evidence.answers[user.name]
        total = sum(tenants.values())
        report.check("tenant", answer["tenants"] == tenants, lambda: f"{user.name}: {answer['tenants']} in the place of {tenants}")
        report.check("sum", answer["count"] == sum(answer["tenants"].values()), lambda: f"{user.name}: {answer}")
        for device in user.devices:
            shown = icon(evidence.phones, device)
            report.check("phone", shown == total, lambda: f"{user.name}: an icon shows {shown}, not {total}")
        if user.name in evidence.pages and report.check(
                "silent page", user.name in seen.last or not tenants, lambda: f"{user.name}: a page heard nothing, and {total} holds"):
            shown = seen.last.get(user.name, 0)
            report.check("page", shown == total, lambda: f"{user.name}: a page shows {shown}, not {total}")
    lost = {call.number for call in evidence.calls} - {call.number for call in evidence.acknowledged}
    report.check("acknowledged", not lost, lambda: f"{len(lost)} of {len(evidence.calls)} calls are not acknowledged, the first of them {min(lost)}")
    report.check("sum before", not seen.wrong_sums, lambda: seen.wrong_sums[0])
    report.check("version", not seen.went_back, lambda: seen.went_back[0])
    two = [(key, counts) for key, counts in seen.counts.items() if len(counts) > 1]
    report.check("two counts", not two, lambda: f"(user, version) {two[0][0]} has the counts {two[0][1]}")
    return report


def overtaken(calls, names):
    """A call of one of these users whose number is another than that of its tenant's greatest sequence."""
    expected = greatest(calls)
    for call in calls:
        if call.user in names and call.count != expected[call.user][call.tenant]:
            return call
    raise harness.HarnessError("no call has another number than its tenant's last: the control needs more calls")


def planted(evidence):
    """The name of each check, and the evidence with a fault that it must see."""
    call = overtaken(evidence.calls, evidence.pages)
    user = next(user for user in evidence.users if user.name == call.user)
    name, answer = user.name, evidence.answers[user.name]
    tenants = {**answer["tenants"], call.tenant: call.count}
    older = {**answer, "tenants": tenants, "count": sum(tenants.values())}
    token = user.devices[0].token

    def seen(change):
        changed = copy.deepcopy(evidence.seen)
        change(changed)
        return replace(evidence, seen=changed)

    wrong = {**answer, "count": answer["count"] + 1}
    # Versions that nobody was told.
    first, second = {**answer, "version": answer["version"] + 1}, {**answer, "version": answer["version"] + 2}
    yield "tenant", replace(evidence, answers={**evidence.answers, name: older})
    yield "sum", replace(evidence, answers={**evidence.answers, name: wrong})
    yield "phone", replace(evidence, phones={**evidence.phones, token: {"badge": older["count"]}})
    yield "page", seen(lambda changed: changed.last.update({name: older["count"]}))
    yield "silent page", seen(lambda changed: changed.last.pop(name))
    yield "acknowledged", replace(evidence, acknowledged=[one for one in evidence.acknowledged if one is not call])
    yield "sum before", seen(lambda changed: changed.answer(name, {**wrong, "version": first["version"]}, {}))
    yield "version", seen(lambda changed: changed.answer(name, first, {name: second["version"]}))
    yield "two counts", seen(lambda changed: [changed.answer(name, badge, {}) for badge in (first, {**older, "version": first["version"]})])


def unseen(evidence):
    """The checks that don't see the fault planted for them, or that another one sees."""
    before = judge(evidence).kinds()
    return [kind for kind, worse in planted(evidence) if judge(worse).kinds() != before | {kind}]


def main():
    parser = harness.arguments(__doc__, short="3,000 calls and 3 kills, for `make test`")
    parser.add_argument("--calls", type=int, help="100,000")
    parser.add_argument("--kills", type=int, help="25")
    parser.add_argument("--simulator", help="the program that stands in for Apple and Google; the tested one")
    options = harness.begin(parser)
    if options.calls is None:
        options.calls = 3_000 if options.short else 100_000
    kills = options.kills if options.kills is not None else 3 if options.short else 25
    rng, began = random.Random(options.seed), time.monotonic()
    with world(options, "given", make=GivenWorld) as here:
        names = [f"user-{number}" for number in range(60 if options.short else 400)]
        here.add_users([
            User(name, "default", harness.user_token(harness.JWT_SECRET, name), [Device(f"{rng.getrandbits(256):064x}") for _ in range(2)])
            for name in names])
        here.ask_on_devices()
        run = Run(here, options, rng)
        run.go(kills)
        if not here.wait_until_quiet():
            raise harness.HarnessError(here.unsettled())
        found = run.evidence()
        run.end(found)
        report = judge(found)
        is_good, said = here.server.badge_audit()
        report.check("audit", is_good and "is given" in said, said)
        kinds = dict(collections.Counter(call.kind for call in run.acknowledged))
        print(f"given: {len(run.acknowledged):,} calls acknowledged ({kinds}), {kills} kills, {run.seen.asked:,} answers "
              f"looked at, {sum(report.checked.values()):,} checks: {len(report.wrong)} wrong ({time.monotonic() - began:.0f} s)", flush=True)
        blind = unseen(found)
    return report.verdict(blind)


if __name__ == "__main__":
    harness.run(main)
