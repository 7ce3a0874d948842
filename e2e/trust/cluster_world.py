"""A cluster with users and devices, and what has to hold between its database, the simulator's record, its phones and what its nodes
acknowledged: what cluster.py works with."""
import contextlib
import http.client
import random
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from e2e import harness
from e2e.harness.cluster import cluster
from e2e.trust import cluster_sql
from e2e.trust.cluster_load import ClusterLoad
from e2e.trust.push_judge import Evidence, Judge, plain_effect, with_another_icon, without_one
from e2e.trust.push_record import Record
from e2e.trust.push_world import CALLERS, Device, User, World

LATENCY_SECONDS = 0.3      # of every answer of Apple and Google, so that a second push in flight is seen by its time of arrival
ARRIVES_SECONDS = 1        # from a push's claim to its arrival
LATE = {"action": {"type": "latency", "ms": int(LATENCY_SECONDS * 1000)}}
# One at a time on each connection; that ends soon after the rule.
ONE_STREAM = {"action": {"type": "settings", "max_concurrent_streams": 1, "requests": 3}}
OVERLAP_SHARE = 0.9        # of the latency: clocks of milliseconds
SENDING_SECONDS = 90       # until a node has many pushes in flight
MANY = 10                  # pushes in flight at one node
ATTEMPTS = 40              # of a call that the world itself makes
WAIT_SECONDS = 0.5


@dataclass
class Fault:
    """What was done to the cluster, when it began and when it was done (seconds since 1970), and what was in flight meanwhile: (token,
    notification). `is_deaf`: what a node sends arrives, and the answers don't come back, until `healed`."""
    name: str
    began: float
    in_flight: set = field(default_factory=set)
    struck: float = float("inf")
    is_deaf: bool = False
    healed: float = float("inf")

    def hit(self, in_flight=frozenset()):
        """It is done: what is sent from now on isn't explained by it."""
        self.in_flight |= in_flight
        self.struck = time.time()
        return self

    def explains(self, key, earlier, answers):
        """Whether it explains one copy more of a push, after `earlier`: the last of these was in flight when the fault began, or went into
        it and nobody heard its answer, which the server has noted for each of them."""
        last = earlier[-1]
        unheard = self.is_deaf and self.began <= last.at <= self.healed and answers.count('"unanswered"') >= len(earlier)
        return unheard or (key in self.in_flight and last.at <= self.struck + ARRIVES_SECONDS)


class ClusterWorld(World):
    """The cluster, the users, and what was acknowledged. Calls go to any node that runs and isn't stopped."""

    def __init__(self, options, made, users, devices=1):
        self.options, self.cluster, self.simulator = options, made, made.simulator
        self.apps, self.folder = ("default",), made.folder
        self.keys = {"default": made.nodes[0].command("keys", "create", f"trust-{options.seed}")[1]}
        self.users, self.posted, self.faults, self.frozen = [], {}, [], set()
        self.pool, self._connections, self.loads = ThreadPoolExecutor(CALLERS), {}, []
        self.rng = random.Random(options.seed)
        made.simulator.set_faults([LATE])
        self.record = Record(made.simulator)
        self.record.start()
        self.add_users([User(f"user-{number:06d}", "default", harness.user_token(harness.JWT_SECRET, f"user-{number:06d}"),
                             [Device(f"{self.rng.getrandbits(256):064x}") for _ in range(devices)]) for number in range(users)])

    def nodes(self):
        return [node for node in self.cluster.running() if node not in self.frozen]

    def where(self):
        return [(node.host, node.port) for node in self.nodes()]

    def request(self, method, path, **more):
        """One call at any node, again at another where it is lost or refused for a time: what it does, it does once."""
        if method == "POST" and path == "/notifications":
            more.setdefault("headers", {})["Idempotency-Key"] = f'"world-{random.getrandbits(64):016x}"'
        answer = None
        for _ in range(ATTEMPTS):
            node = random.choice(self.nodes() or self.cluster.nodes)
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self._connection(node).request(method, path, **more)
                if answer.status < 500 and answer.status not in (409, 429):
                    return answer
            time.sleep(WAIT_SECONDS)
        raise harness.HarnessError(f"{method} {path} was never answered: {answer!r}")

    def _connection(self, node):
        key = threading.get_ident(), node.process.pid
        if key not in self._connections:
            self._connections[key] = node.connection()
        return self._connections[key]

    # --- load

    def load(self, rate, watched=0, streams=0):
        """A load that has begun. `watched`: how many users have listeners, `streams`: how many of these there are."""
        tokens = {user.name: user.credential for user in self.users}
        made = ClusterLoad(self.where, self.keys["default"], tokens, rate, f"{self.options.seed}-{len(self.loads)}",
                           list(tokens)[:watched], self.cluster.front, streams)
        self.loads.append(made)
        made.begin()
        return made

    # --- faults

    def in_flight(self, server=None):
        """What may have been sent without its answer being written down."""
        return {(token, one) for token, one in (server or self.cluster.primary).rows(cluster_sql.IN_FLIGHT)}

    def busy_tokens(self):
        """Those of devices that have a push in flight, be it an alert or a badge."""
        return {token for token, in self.cluster.query(cluster_sql.BUSY)}

    def sending(self, node):
        """What a node has claimed of its own, and not settled: (token, notification)."""
        return {(token, one) for token, one in self.cluster.query(cluster_sql.SENDING.format(address=f"{node.host}:{node.port}"))}

    def post_until_sending(self, title, node):
        """Alerts for every other user, until the node is connected to Apple and has claimed many."""
        # A node that has just started may have no devices yet.
        deadline, number = time.monotonic() + SENDING_SECONDS, 0
        while time.monotonic() < deadline:
            is_warm = answered(node) > 0
            self.post_all(f"{title} {number}", self.users[::2])
            if is_warm and len(self.sending(node)) >= MANY:
                return
            time.sleep(WAIT_SECONDS)
            number += 1
        raise harness.HarnessError("a node never had many pushes in flight")

    def freeze_amid_pushes(self, title, node, is_waiting):
        """Stops a node that has claimed many pushes, most of which arrived, or with `is_waiting` most of which wait for a stream. The fault,
        and what was claimed: (token, notification). A node that had others under way goes on, before anybody misses it."""
        deadline, number = time.monotonic() + SENDING_SECONDS, 0
        self.simulator.set_faults([LATE, ONE_STREAM] if is_waiting else [LATE])
        while time.monotonic() < deadline:
            self.post_until_sending(f"{title} {number}", node)
            self.frozen.add(node)
            fault = self.fault("a node was stopped", set())
            self.cluster.freeze(node)
            fault.hit(self.in_flight())
            posted = {one.replace("-", "") for one in self.posted}
            own = {key for key in self.sending(node) if key[1] in posted}
            time.sleep(ARRIVES_SECONDS)
            self.record.read()
            waited = own - {(one.token, one.notification) for one in self.record.requests}
            if len(own) >= MANY and (len(waited) > len(own) / 2) == is_waiting:
                self.simulator.set_faults([LATE])
                return fault, own
            # It was away for a second, and nobody took anything over: nothing is explained by that.
            self.faults.remove(fault)
            self.cluster.thaw(node)
            self.frozen.discard(node)
            number += 1
        raise harness.HarnessError(f"a node never had many pushes that {'wait for a stream' if is_waiting else 'arrived'}")

    def fault(self, name, in_flight=None):
        made = Fault(name, time.time(), self.in_flight() if in_flight is None else in_flight)
        self.faults.append(made)
        return made

    # --- the database

    def query(self, sql, *arguments):
        raise NotImplementedError("questions for PostgreSQL stand in cluster_sql.py")

    def owed(self):
        return int(self.cluster.query(cluster_sql.OWED)[0][0])

    def unsettled(self):
        return f"{self.owed()} pushes are still owed; the log of {self.nodes()[0].folder} ends with\n{self.nodes()[0].log_tail(1500)}"

    def deliveries(self):
        return cluster_sql.deliveries(self.cluster.query(cluster_sql.DELIVERIES))

    def evidence(self):
        by_name = {user.name: user for user in self.users}
        posted = {one.replace("-", ""): user for one, user in self.posted.items()}
        for load in self.loads:
            posted.update({one: by_name[user] for user, one in load.ledger.created.values() if one not in load.ledger.deleted})
        found = Evidence(self.record.complete(), self.deliveries(), posted, self.users, self.living_tokens(), self.simulator.phones(),
                         self.badges(), self.simulator.counters(), plain_effect)
        return found


class ClusterJudge(Judge):
    """Judge, for whom a copy is explained by a fault, and who looks for two pushes in flight for one token. `unread`: the ids of
    notifications that are unread in the end."""

    def __init__(self, evidence, report, faults, unread):
        super().__init__(evidence, report)
        self.faults, self.unread = faults, unread

    def all(self):
        super().all()
        self.overlaps()
        older = self.evidence.counters["older_badges"]
        self.report.check("older number", older == 0, f"{older} times an older number came after a newer one")
        return self

    def delivery(self, delivery):
        key = delivery.token, delivery.notification
        unheard = '"unanswered"' in self.answers.get(key, "") or any(key in fault.in_flight for fault in self.faults)
        if delivery.state == "failed" and unheard and delivery.notification not in self.unread:
            return   # read or deleted before an attempt that never arrived was repeated: nobody has to be told any more
        super().delivery(delivery)

    def repeated(self, key, copies):
        arrived = [one for one in copies if self.evidence.effect(one)[0]]
        used, answers = [], self.answers.get(key, "")
        for number in range(1, len(arrived)):
            self.duplicates += 1
            # What was in flight when a fault struck goes again once for it.
            fault = next((one for one in self.faults if one not in used and one.explains(key, arrived[:number], answers)), None)
            if fault is not None and not fault.is_deaf:
                used.append(fault)
            explained = fault is not None
            self.report.check("duplicate", explained, lambda: f"{key[1]} arrived twice {self._when(arrived)}, {self._told(copies)}; the "
                              f"server has {self.answers.get(key) or 'no other answer'}")

    def _when(self, arrived):
        """When, over which connections, and in which fault."""
        known = [(one, next((fault for fault in reversed(self.faults) if fault.began <= one.at), None)) for one in arrived]
        return ", ".join(f"on connection {one.connection} " + (f"{one.at - fault.began:.2f} s after '{fault.name}' began" if fault else "before all faults")
                         for one, fault in known)

    def overlaps(self):
        """Every answer takes the same time, so that a push that comes sooner after the one before was sent before its answer."""
        for token, requests in self.by_token.items():
            requests.sort(key=lambda one: one.at)
            for before, after in zip(requests, requests[1:]):
                gap = after.at - before.at
                self.report.check("in flight", gap >= LATENCY_SECONDS * OVERLAP_SHARE,
                                  lambda: f"two pushes in flight for {token[:8]}: {gap * 1000:.0f} ms apart, on connections "
                                          f"{before.connection} and {after.connection}")


# --- the checks

def settled(world, report, seconds=240):
    report.check("settled", world.wait_until_quiet(seconds), world.unsettled)


def check_ledger(world, report, load, there=None):
    """What was acknowledged is there, once, as it was left. `there`: instead of what the database holds."""
    there, ledger = there or stored(world), load.ledger
    report.check("resolved", not ledger.doubtful, lambda: f"{len(ledger.doubtful)} creates never got a 201")
    report.check("answers", not ledger.wrong, lambda: f"{len(ledger.wrong)} wrong answers: {ledger.wrong[:3]}")
    for user, one in ledger.created.values():
        if one in ledger.deleted:
            report.check("deleted", one not in there.get(user, {}), lambda: f"{one} of {user} is back")
        elif one not in ledger.doubtful_deletes:
            if report.check("acknowledged", one in there.get(user, {}), lambda: f"{one} of {user} is lost, acknowledged at "
                            f"{ledger.at[one]:.2f}") and one in ledger.read:
                report.check("read", there[user][one], lambda: f"{one} of {user} is unread again")
    mine = {one for other in world.loads for _, one in other.ledger.created.values()} | {one.replace("-", "") for one in world.posted}
    for user, ids in there.items():
        report.check("once", set(ids) <= mine, lambda: f"{user} has {len(set(ids) - mine)} that nobody was told of: {sorted(set(ids) - mine)[:2]}")
    identifiers = [one for _, one in ledger.created.values()]
    report.check("once", len(identifiers) == len(set(identifiers)), "two keys were answered with one id")


def check_titles(world, report, load, titles=None):
    """An acknowledged edit holds. `titles`: instead of those of the database."""
    titles, ledger = titles or dict(world.cluster.query(cluster_sql.TITLES)), load.ledger
    for one, title in ledger.titles.items():
        if one in titles and one not in ledger.doubtful_titles:
            report.check("edited", titles[one] == title, lambda: f"{one} says {titles[one]!r}, and was edited to {title!r}")


def check_phones(world, report, load, phones=None):
    """No phone shows what was deleted or withdrawn. `phones`: instead of the simulator's."""
    for token, phone in (phones or world.simulator.phones()).items():
        shown = {(one["id"] or "").replace("-", "") for one in phone["notifications"]}
        left = shown & load.ledger.deleted.keys()
        report.check("withdrawn", not left, lambda: f"{token[:8]} shows {sorted(left)[:3]}")


def check_the_checks_of_edits(world, report, load):
    """What those two must see."""
    seen = harness.Report()
    one = next(one for one in load.ledger.titles if one not in load.ledger.doubtful_titles)
    check_titles(world, seen, load, {one: "another"})
    check_phones(world, seen, load, {"phone": {"notifications": [{"id": next(iter(load.ledger.deleted))}]}})
    report.check("control", {"edited", "withdrawn"} <= seen.kinds(), f"planted: only {seen.kinds()} were seen")


def stored(world):
    return cluster_sql.notifications(world.cluster.query(cluster_sql.NOTIFICATIONS))


def check_badges(world, report):
    """The database's counts against a recount, by SQL and by the program's own audit."""
    wrong = world.cluster.query(cluster_sql.WRONG_BADGES)
    report.check("badge", not wrong, lambda: f"{len(wrong)} badges differ from a recount: {wrong[:3]}")
    report.check("badge audit", *world.nodes()[0].badge_audit())
    gaps = world.cluster.query(cluster_sql.GAPS)
    report.check("sequence", not gaps, lambda: f"{len(gaps)} inboxes whose events aren't numbered without a gap: {gaps[:3]}")
    disorder = world.cluster.query(cluster_sql.DISORDER)
    report.check("order of events", not disorder, lambda: f"in {len(disorder)} inboxes an older id was told of after a newer one: {disorder[:3]}")


def check_the_checks(world, report, load):
    """What each check of the database must see: planted in what it is given, or in a transaction that is rolled back."""
    there, seen = stored(world), harness.Report()
    user, one = next((user, one) for user, one in load.ledger.created.values() if one in there.get(user, {}))
    read = next((one for one in load.ledger.read if one in there[load.ledger.read[one]]), None)
    del there[user][one]
    there[user]["f" * 32] = False
    if read is not None:
        there[load.ledger.read[read]][read] = False
    check_ledger(world, seen, load, there)
    wanted = {"acknowledged", "once"} | ({"read"} if read is not None and read != one else set())
    report.check("control", wanted <= seen.kinds(), f"planted losses were not seen by {', '.join(wanted - seen.kinds())}")
    for plant, question in ((cluster_sql.PLANT_BADGE, cluster_sql.WRONG_BADGES), (cluster_sql.PLANT_GAP, cluster_sql.GAPS),
                            (cluster_sql.PLANT_DISORDER, cluster_sql.DISORDER)):
        found = world.cluster.query(f"BEGIN; {plant}; {question}; ROLLBACK")
        report.check("control", bool(found), f"not seen: {plant}")


def check_streams(report, load, drops=0, posted=None):
    """Every listener saw all of its user's notifications, once, in order. `drops`: how often a connection may have ended. `posted`: id →
    user of what was created beside the load meanwhile."""
    for client in load.clients:
        seen, wanted = client.seen, load.ledger.ids(client.seen.user)
        wanted |= {one.replace("-", "") for one, user in (posted or {}).items() if user.name == seen.user}
        ids = [one.replace("-", "") for one in seen.ids]
        report.check("seen", set(ids) == wanted, lambda: f"{seen.user}: {len(wanted - set(ids))} of {len(wanted)} never seen, "
                     f"{len(set(ids) - wanted)} of nobody's")
        report.check("seen once", len(ids) == len(set(ids)) and not seen.repeated, lambda: f"{seen.user}: an event came twice")
        report.check("order", all(a < b for a, b in zip(seen.sequences, seen.sequences[1:])), lambda: f"{seen.user}: {seen.sequences}")
        report.check("order", seen.older == 0, lambda: f"{seen.user}: {seen.older} times an older badge came after a newer one")
        report.check("reset", seen.resets == 0, lambda: f"{seen.user}: {seen.resets} resets")
        report.check("stream", seen.dropped <= drops and not seen.refused, lambda: f"{seen.user}'s stream ended {seen.dropped} times; {seen.refused[:2]}")


def judged(world, report, plants=True):
    """The pushes; and that faults planted in the evidence would be seen."""
    evidence = world.evidence()
    unread = {one for owned in stored(world).values() for one, is_read in owned.items() if not is_read}
    judge = ClusterJudge(evidence, report, world.faults, unread).all()
    if plants:
        planted = [(without_one, "lost"), (with_another_icon, "icon"), (with_one_too_soon, "in flight"), (with_one_late, "duplicate")]
        planted += [(lambda evidence, rng, fault=fault: with_one_heard(evidence, rng, fault), "duplicate") for fault in world.faults if fault.is_deaf]
        for plant, kind in planted:
            seen = harness.Report()
            ClusterJudge(plant(evidence, random.Random(world.options.seed)), seen, world.faults, unread).all()
            report.check("control", kind in seen.kinds(), f"the check '{kind}' did not see a planted fault")
    return judge


def with_one_too_soon(evidence, rng):
    """One push is entered again, a moment after the first."""
    one = rng.choice(evidence.requests)
    return replace(evidence, requests=evidence.requests + [replace(one, at=one.at + LATENCY_SECONDS / 3)])


def with_one_late(evidence, rng):
    """The last alert is entered again when all faults are over."""
    alerts = defaultdict(list)
    for one in evidence.requests:
        if one.notification and one.status == 200:
            alerts[one.token, one.notification].append(one)
    one = max((copies[0] for copies in alerts.values() if len(copies) == 1), key=lambda one: one.at)
    return replace(evidence, requests=evidence.requests + [replace(one, at=one.at + 60)])


def with_one_heard(evidence, rng, deaf):
    """One push that a node sent while another didn't hear its answers, and whose answer was heard, is entered again."""
    heard = {(one.token, one.notification) for one in evidence.deliveries if one.state == "accepted" and one.answers is None}
    one = rng.choice([one for one in evidence.requests if deaf.began + 1 < one.at < deaf.healed and (one.token, one.notification) in heard
                      and (one.token, one.notification) not in deaf.in_flight])
    return replace(evidence, requests=evidence.requests + [replace(one, at=one.at + 1)])


def answered(node):
    """The pushes of a node that were accepted."""
    text = node.connection().request("GET", "/metrics", credential=harness.METRICS_TOKEN).body.decode()
    return sum(float(line.split()[1]) for line in text.splitlines() if line.startswith("campanile_push_answers_total{") and 'outcome="accepted"' in line)


@contextlib.contextmanager
def world(options, shape, users, devices=1):
    shape = replace(shape, plain=shape.plain or options.plain, environment={**shape.environment})
    with cluster(options.binary, options.seed, shape) as made:
        here = ClusterWorld(options, made, users, devices)
        try:
            yield here
        finally:
            here.close()
