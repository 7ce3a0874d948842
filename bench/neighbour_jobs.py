"""Jobs that write much: how long one write holds the writer with its own statements, and how long others wait meanwhile.

How long writes held the writer stands in /metrics, as a histogram of all of them. So it is looked at while the job runs once more
without the others: then its writes are the job's, and the delivery worker's.
"""

import contextlib
import json
import re
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench import neighbour_probes as probes
from bench.load import BenchError, Target, request, run_wrk
from bench.neighbour_measures import ASKED, ASKED_PER_SECOND, Bench, Line
from bench.neighbour_scene import OTHERS_ROWS, Scene, meanwhile
from bench.seed import RECIPIENTS, identifier
from e2e.harness import user_token

HELD_AT_MOST = 0.02      # seconds, by all but one write in a hundred
DEVICES_EACH = 50
SEVERAL = 4              # calls for many users at once
RETAINED = 100           # notifications that an inbox keeps
SETTLE_SECONDS = 60      # that what was owed to a device may take to be settled after it left
SAMPLE = re.compile(rb'^campanile_writer_hold_duration_seconds_bucket\{le="([^"]+)"\} (\d+)', re.MULTILINE)
TOKEN = "bench-metrics-token-that-is-long-enough"
SETTINGS = {"CAMPANILE_METRICS_TOKEN": TOKEN}


def holds(scene: Scene) -> Counter | None:
    """How many writes held the writer so long, by the upper bounds of the histogram in seconds; None if the program is from before
    /metrics."""
    try:
        text = scene.server.call("GET", "/metrics", TOKEN)
    except BenchError as error:
        if " → 404 " not in str(error):
            raise
        return None
    found: Counter = Counter()
    before = 0
    for bound, count in SAMPLE.findall(text):
        found[float(bound.decode().replace("+Inf", "inf"))] = int(count) - before
        before = int(count)
    if not found:
        raise BenchError("/metrics doesn't tell how long writes held the writer")
    return found


@dataclass
class Hold:
    """How long the job's writes held the writer, as histograms."""

    client: str
    rounds: list[Counter | None]

    @property
    def measure(self) -> str:
        return f"{self.client}: the writer held"

    @staticmethod
    def _share(counts: Counter, share: float) -> float:
        """The bound below which that share of the writes is, in seconds."""
        seen, total = 0, sum(counts.values())
        for bound in sorted(counts):
            seen += counts[bound]
            if seen >= share * total:
                return bound
        return 0

    @property
    def _told(self) -> list[Counter]:
        return [one for one in self.rounds if one is not None]

    @property
    def passed(self) -> bool | None:
        return all(self._share(one, 0.99) <= HELD_AT_MOST for one in self._told) if any(self._told) else None   # nothing was written

    def cells(self, judged: bool = True) -> list[str]:
        counts: Counter = sum(self._told, Counter())
        who = f"the writer, held by each of {sum(counts.values()):,} writes"
        must = f"p99 ≤ {HELD_AT_MOST * 1e3:.0f} ms"
        verdict = {True: "held", False: "MISSED", None: ""}[self.passed if judged else None]
        if not self._told:
            return [self.client, "the writer, held by each write", "–", "–", "not told by this program", "–", "–", must, ""]
        if not counts:
            return [self.client, who, "–", "–", "–", "–", "–", must, verdict]
        p99, p50 = (max(self._share(one, share) for one in self._told) * 1e3 for share in (0.99, 0.5))
        return [self.client, who, "–", "–", f"≤ {p99:,.4g} ms (p50 ≤ {p50:,.4g})", f"≤ {max(counts) * 1e3:,.4g} ms", "–", must, verdict]


def growth(before: Counter | None, after: Counter | None) -> Counter | None:
    """What came in between."""
    return None if before is None or after is None else after - before


def _measure(bench: Bench, title: str, scene: Scene, job: Callable[[int], None], prepare: Callable[[], None] = lambda: None) -> None:
    """A job beside which the others ask; it begins when a tenth of the time is over, and the round lasts until it ends."""
    seconds, rounds, took = bench.options.after, bench.options.marks, []

    def work(number: int) -> None:
        time.sleep(seconds / 10)
        start = time.perf_counter()
        job(number)
        took.append(time.perf_counter() - start)

    @contextlib.contextmanager
    def big(number: int) -> Iterator[None]:
        prepare()
        with meanwhile(lambda: work(number)):
            yield

    # What others' creates wait for is the sync of what the job writes as well: told, and not judged.
    bench.asked(title, scene, 1, big, rounds, seconds, ASKED[:1])
    prepare()
    scene.server.wait_until_quiet()
    before = holds(scene)
    job(rounds)
    scene.server.wait_until_quiet()   # and what it left for later
    bench.report.rows.append(Hold(title, [growth(before, holds(scene))]))
    bench.report.notes.append(f"{title}: took " + ", ".join(f"{one:,.2f} s" for one in took))


def _fill(database: Path, devices: dict[str, int], owed: bool = False) -> dict[str, list[str]]:
    """Devices for users that have an inbox, by SQL; with `owed`, an alert of every notification is owed to each, in an hour."""
    now, tokens = int(time.time() * 1000), {}
    due = now + 3_600_000
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("BEGIN")
        for user, count in devices.items():
            inbox, = db.execute("SELECT id FROM inboxes WHERE app = 'default' AND user_id = ?", (user,)).fetchone()
            tokens[user] = [secrets.token_hex(32) for _ in range(count)]
            for token in tokens[user]:
                device = db.execute(
                    "INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, "
                    "last_registered_at, due_at) VALUES ('default', ?, ?, 'ios', 'apns', 'production', ?, ?, ?)",
                    (token, inbox, now, now, due if owed else None)).lastrowid
                if owed:
                    ids = db.execute("SELECT id FROM notifications WHERE inbox_id = ?", (inbox,)).fetchall()
                    db.executemany(
                        "INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, due_at) "
                        f"VALUES (?, {device}, ?, {inbox}, 'owed', {due})",
                        ((one, identifier(now, device << 32 | number)) for number, (one,) in enumerate(ids)))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return tokens


def recipients(bench: Bench, calls: int = 1) -> None:
    """The same users in so many calls at once, each for its share of them."""
    users = [f"recipient-{number:04d}" for number in range(RECIPIENTS if not bench.options.short else 30)]
    with bench.scene({"owner": (OTHERS_ROWS, OTHERS_ROWS), **dict.fromkeys(users, (0, 0))},
                     lambda database: _fill(database, dict.fromkeys(users, DEVICES_EACH)), **SETTINGS) as scene:
        shares = [users[number::calls] for number in range(calls)]

        def send(share: list[str]) -> None:
            made = json.loads(scene.server.call("POST", "/notifications", scene.key, scene.content(user_ids=share),
                                                idempotency_key=secrets.token_hex(16)))["notifications"]
            if [one["user_id"] for one in made] != share:
                raise BenchError(f"POST /notifications to {len(share)} users made {len(made)}")

        def job(_: int) -> None:
            with ThreadPoolExecutor(calls) as pool:
                list(pool.map(send, shares))
        at_once = "once" if calls == 1 else f"in {calls} calls at once"
        _measure(bench, f"POST /notifications to {len(users):,} users with {DEVICES_EACH} devices each, {at_once}", scene, job)


def several(bench: Bench) -> None:
    recipients(bench, SEVERAL)


def _await_gone(scene: Scene, owners: list[str], rows: int) -> None:
    """Until all that was owed to these owners' devices is settled, because they left."""
    deadline, expected = time.monotonic() + SETTLE_SECONDS, {"gone": rows * len(owners)}
    with contextlib.closing(sqlite3.connect(f"file:{scene.database}?mode=ro", uri=True)) as db:
        while (found := dict(db.execute(
                "SELECT state, count(*) FROM deliveries WHERE inbox_id IN (SELECT id FROM inboxes WHERE app = 'default' AND user_id IN "
                f"({', '.join('?' * len(owners))})) GROUP BY state", owners))) != expected:
            if time.monotonic() > deadline:
                raise BenchError(f"after {SETTLE_SECONDS} s the deliveries of {' and '.join(owners)} are {found}, not {expected}")
            time.sleep(0.25)


def moved(bench: Bench) -> None:
    """A token with much owed moves to another user, and another one is deleted."""
    rows = 10_000 if not bench.options.short else 500
    owners = [f"owner-{number}" for number in range(2 * (bench.options.marks + 1))]
    tokens: dict[str, list[str]] = {}
    with bench.scene({owner: (rows, rows) for owner in owners},
                     lambda database: tokens.update(_fill(database, dict.fromkeys(owners, 1), owed=True)), **SETTINGS) as scene:
        def job(number: int) -> None:
            (moving,), (leaving,) = tokens[owners[2 * number]], tokens[owners[2 * number + 1]]
            scene.ask("POST", "/device_tokens", "newcomer", json.dumps({"token": moving, "platform": "ios"}).encode())
            scene.server.call("DELETE", f"/device_tokens/{leaving}", scene.token(owners[2 * number + 1]))
            _await_gone(scene, owners[2 * number:2 * number + 2], rows)   # most of it is settled afterwards, in parts
        _measure(bench, f"a device token with {rows:,} alerts owed moves, and another is deleted", scene, job)


def revocation(bench: Bench) -> None:
    """Every credential that the server remembers is forgotten."""
    count = 50_000 if not bench.options.short else 200
    with bench.scene({"owner": (OTHERS_ROWS, OTHERS_ROWS)}, **SETTINGS) as scene:
        asks = scene.write("tokens", [request("GET", "/badge", user_token(scene.programs.secret, f"visitor-{number}"))
                                      for number in range(count)])

        def job(_: int) -> None:
            scene.command("revoke", "somebody-else")   # whoever it is, all credentials are verified anew
            time.sleep(1)   # the server notices it within that
        _measure(bench, f"a user is revoked while {count:,} tokens are remembered", scene, job,
                 lambda: bench.loads.append(run_wrk(Target("visitors", scene.server, asks, 16), 3, None)))


def backup(bench: Bench) -> None:
    rows = bench.options.rows
    with bench.scene({"owner": (rows, rows)}, **SETTINGS) as scene:
        def job(number: int) -> None:
            path = scene.programs.folder / f"backup-{number}.sqlite"
            scene.command("backup", str(path))
            for file in scene.programs.folder.glob(f"{path.name}*"):
                file.unlink()
        _measure(bench, f"campanile backup of {rows:,} notifications", scene, job)


def _falls_below(rows: int, title: str, scene: Scene) -> int:
    """Waits until fewer rows are left, and says how many."""
    deadline = time.monotonic() + 60
    while (left := len(scene.ids())) >= rows:
        if time.monotonic() > deadline:
            raise BenchError(f"{title}: {left:,} are left for a minute")
        time.sleep(0.1)
    return left


def retention(bench: Bench) -> None:
    """It begins with the server's start, so the server is started with it beside the others' first request."""
    rows, seconds = bench.options.rows, bench.options.after
    title = f"retention over {rows:,} notifications, {RETAINED} of which stay"
    with bench.scene({"owner": (rows, rows)}, **SETTINGS) as scene:
        kinds = bench.kinds(scene)
        idle = probes.ask(scene.server.port, kinds, ASKED_PER_SECOND, seconds, contextlib.nullcontext())
        with bench.wrk("readers", scene, bench.page(scene), 1, seconds):
            readers = probes.ask(scene.server.port, kinds, ASKED_PER_SECOND, seconds, contextlib.nullcontext())
        scene.restart(CAMPANILE_RETENTION_PER_INBOX=str(RETAINED))
        beside = probes.ask(scene.server.port, kinds, ASKED_PER_SECOND, seconds, contextlib.nullcontext())
        left = len(scene.ids())
        if left == rows and not bench.options.short:
            raise BenchError(f"{title}: nothing was deleted in {seconds:g} s, so nothing was measured beside it")
        left = _falls_below(rows, title, scene)
        before = holds(scene)
        time.sleep(seconds)   # it goes on
        counts = growth(before, holds(scene))
        if left > RETAINED:
            _falls_below(left, title, scene)
    phases = {"idle": idle, "readers": readers, "beside": beside}
    for name in kinds:
        waits = {phase: [found.waits[name]] for phase, found in phases.items()}
        bench.report.rows.append(Line(title, name, waits, is_judged=name == ASKED[0]))
    bench.report.rows.append(Hold(title, [counts]))
    bench.report.notes.append(f"{title}: {rows - left:,} were deleted beside it")


JOBS = {"retention": retention, "backup": backup, "revocation": revocation, "moved": moved, "recipients": recipients,
        "several": several}
