"""What is measured, one function a measure. Each adds its lines to the report."""

import json
import shutil
import statistics
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bench.load import HOTWIRE, BenchError, Load, Target, at_once, interleave, probe, request, run_wrk, write_requests
from bench.processes import Programs, Server
from bench.seed import notification, register_devices, same_answers, seed_campanile, seed_floor, users
from bench.table import Figures, Report, Row, cpu_per_request, rates, ratios
from e2e.harness import user_token


@dataclass
class Plan:
    """How much is measured."""

    rounds: int
    growth_rounds: int
    seconds: int
    users: int
    rows: int            # a user in the lists
    small_inboxes: int   # growth: inboxes of ten rows
    large_inboxes: int
    tokens: int          # growth: tokens in use, the same number on both sides
    starts: int
    tabs: int            # rounds of three tabs
    client_cpus: set[int] | None


READ_CONNECTIONS, WRITE_CONNECTIONS = 32, 64


class Bench:
    def __init__(self, programs: Programs, plan: Plan, report: Report):
        self.programs, self.plan, self.report, self.folder = programs, plan, report, programs.folder
        self.loads: list[Load] = []
        self._tokens: dict[str, str] = {}

    # ---- what the measures share ----

    def _token(self, user: str) -> str:
        return self._tokens.setdefault(user, user_token(self.programs.secret, user))

    def _reads(self, target: str, names: list[str], floor: bool, name: str) -> Path:
        sign = "&" if "?" in target else "?"
        prepared = [request("GET", f"{target}{sign}user={quote(user)}") if floor else request("GET", target, self._token(user))
                    for user in names]
        return write_requests(self.folder / f"{name}.requests", prepared)

    def _posts(self, names: list[str], key: str | None, name: str, body_bytes: int = 100) -> Path:
        prepared = []
        for number, user in enumerate(names):
            content = json.dumps({"user_id": user, **notification(number, body_bytes)}, ensure_ascii=False).encode()
            prepared.append(request("POST", "/notifications", key, content))
        return write_requests(self.folder / f"{name}.requests", prepared)

    def _run(self, targets: list[Target], rounds: int, pinned: bool = True, **more) -> dict[str, list[Load]]:
        loads = interleave(targets, rounds, self.plan.seconds, self.plan.client_cpus if pinned else None, **more)
        self.loads += [load for series in loads.values() for load in series]
        return loads

    def _compare(self, measure: str, ours: list[Load], floor: list[Load], at_least: float | None, reference: str = "floor") -> None:
        self.report.rows.append(Row(
            measure, rates(ours).text(0, "/s"), f"{reference} " + rates(floor).text(0, "/s"), ratios(ours, floor), at_least=at_least,
            cpu=f"{cpu_per_request(ours).median:.1f} / {cpu_per_request(floor).median:.1f}"))

    def _seeded_pair(self, name: str, body_bytes: int) -> tuple[Server, Server, list[str]]:
        names = users(self.plan.users)
        ours, theirs = self.folder / f"{name}.sqlite", self.folder / f"{name}-floor.sqlite"
        seed_campanile(self.programs, ours, names, self.plan.rows, body_bytes)
        seed_floor(self.programs, theirs, names, self.plan.rows, body_bytes)
        campanile, floor = self.programs.campanile(ours), self.programs.floor(theirs)
        size = same_answers(self.programs, campanile, floor, names)
        self.report.notes.append(f"{name}: {len(names):,} users × {self.plan.rows} rows; both servers answer the same JSON, "
                                 f"a list is {size:,} bytes; the databases take {ours.stat().st_size >> 20} MiB "
                                 f"(floor {theirs.stat().st_size >> 20} MiB)")
        return campanile, floor, names

    # ---- the measures ----

    def badge(self) -> None:
        campanile, floor, names = self._seeded_pair("badge", 100)
        again = self.programs.floor(self.folder / "badge-floor.sqlite", label="floor again")
        theirs = self._reads("/badge", names, True, "badge-floor")
        loads = self._run([Target("floor", floor, theirs, READ_CONNECTIONS),
                           Target("campanile", campanile, self._reads("/badge", names, False, "badge"), READ_CONNECTIONS),
                           Target("again", again, theirs, READ_CONNECTIONS)], self.plan.rounds)
        self._compare("GET /badge, with a user token", loads["campanile"], loads["floor"], 0.95)
        self.report.rows.append(Row("control: the floor against itself (noise)", "floor again " + rates(loads["again"]).text(0, "/s"),
                                    "floor " + rates(loads["floor"]).text(0, "/s"), ratios(loads["again"], loads["floor"])))
        self._stop(campanile, floor, again)

    def list_small(self) -> None:
        self._list("list of 0.1 KB bodies", 100, 1.0)

    def list_large(self) -> None:
        self._list("list of 1.5 KB bodies", 1500, 0.9)

    def _list(self, name: str, body_bytes: int, at_least: float) -> None:
        campanile, floor, names = self._seeded_pair(name, body_bytes)
        target = "/notifications?limit=50"
        loads = self._run([Target("floor", floor, self._reads(target, names, True, "list-floor"), READ_CONNECTIONS),
                           Target("campanile", campanile, self._reads(target, names, False, "list"), READ_CONNECTIONS)],
                          self.plan.rounds)
        self._compare(f"GET /notifications, {name[8:]}, 50 rows", loads["campanile"], loads["floor"], at_least)
        self._stop(campanile, floor)

    def post_small(self) -> None:
        self._post("post", "durable POST /notifications", 100)

    def post_large(self) -> None:
        self._post("post-large", "durable POST /notifications, 1.5 KB bodies", 1500)

    def _post(self, database: str, what: str, body_bytes: int) -> None:
        """Unbound to processors: a durable write waits for the disk, wrk needs next to nothing, and the writer, the
        delivery worker and the daemon's threads are meant to work side by side."""
        names = users(self.plan.users)
        servers = {"floor": self.programs.floor(self._floor_database(f"{database}-floor"), pinned=False),
                   "groups": self.programs.floor(self._floor_database(f"{database}-groups"), label="floor in groups", pinned=False, groups=True),
                   "FULL": self._posting(database, "full"), "NORMAL": self._posting(f"{database}-normal", "normal")}
        targets = [Target(label, servers[label], self._posts(names, None, f"{database}-{label}", body_bytes), WRITE_CONNECTIONS)
                   for label in ("floor", "groups")]
        for label, name in (("FULL", database), ("NORMAL", f"{database}-normal")):
            register_devices(self.programs, servers[label], names)
            servers[label].wait_until_quiet()
            key = self.programs.producer_key(self.folder / f"{name}.sqlite")
            targets.append(Target(label, servers[label], self._posts(names, key, name, body_bytes), WRITE_CONNECTIONS))
        probes: list[float] = []
        waits: dict[str, list[float]] = {label: [] for label in servers}
        loads = self._run(targets, self.plan.rounds, pinned=False, each_round=lambda number: probes.append(probe(self.folder)),
                          after=lambda target: waits[target.label].append(target.server.wait_until_quiet()))
        self.report.notes.append("fdatasync probe a round, p50 in ms: " + ", ".join(f"{p:.3f}" for p in probes))
        self.report.notes.append(f"{what}, {WRITE_CONNECTIONS} connections, p50: campanile "
                                 f"{statistics.median(load.p50_ms for load in loads['FULL']):.1f} ms, floor "
                                 f"{statistics.median(load.p50_ms for load in loads['floor']):.1f} ms; after a round campanile "
                                 f"worked on what it owed for up to {max(waits['FULL']):.1f} s before the next began")
        # Bare C that writes in groups is what there is to reach: how much groups gain depends on the disk and the processors.
        self._compare(f"{what}, against the floor in groups", loads["FULL"], loads["groups"], 0.7,
                      reference="floor in groups")
        self._compare(f"{what}, against the floor", loads["FULL"], loads["floor"], None)
        self._compare("control: the floor in groups, against the floor", loads["groups"], loads["floor"], None)
        self.report.rows.append(Row(f"{what}: FULL against NORMAL", "FULL " + rates(loads["FULL"]).text(0, "/s"),
                                    "NORMAL " + rates(loads["NORMAL"]).text(0, "/s"), ratios(loads["FULL"], loads["NORMAL"]),
                                    at_least=0.85))
        self._stop(*servers.values())
        self._audit(database, f"{database}-normal")

    def post_single(self) -> None:
        names = users(self.plan.users)
        server = self._posting("single", "full")
        register_devices(self.programs, server, names)
        server.wait_until_quiet()
        key = self.programs.producer_key(self.folder / "single.sqlite")
        target = Target("campanile", server, self._posts(names, key, "single"), 1)
        multiples, latencies, probes = [], [], []
        for _ in range(self.plan.rounds):
            before = probe(self.folder)
            load = run_wrk(target, self.plan.seconds, None)
            server.wait_until_quiet()
            probes.append((before + probe(self.folder)) / 2)
            latencies.append(load.p50_ms)
            multiples.append(load.p50_ms / probes[-1])
        self.report.rows.append(Row("POST at one client: p50 in fdatasync probes", Figures(latencies).text(2, " ms"),
                                    "probe " + Figures(probes).text(2, " ms"), Figures(multiples), at_most=6))
        self._stop(server)

    def tabs(self) -> None:
        """A tab bar loads all its tabs when the app starts, each over a connection of its own, and the list clears the badge."""
        count, three = (self.plan.tabs, 3)
        names = users(2 * count)
        server = self._posting("tabs", "full")
        register_devices(self.programs, server, names, each=2)
        key = self.programs.producer_key(self.folder / "tabs.sqlite")
        for start in range(0, len(names), 1000):
            content = json.dumps({"user_ids": names[start:start + 1000], **notification(4711, 100)}, ensure_ascii=False).encode()
            server.call("POST", "/notifications", key, content, idempotency_key=f"tabs-{start}")
        server.wait_until_quiet()

        def load(user: str, number: int) -> float:
            return at_once(server.port, [request("GET", "/notifications", self._token(user), agent=HOTWIRE)] * number)

        load(names[0], 1)
        alone, together = [], []
        for number in range(1, count):
            alone.append(load(names[2 * number], 1))
            together.append(load(names[2 * number + 1], three))
        server.wait_until_quiet()
        # The sandbox remembers the last pushes only, so each device's clearings are looked at for the last users.
        for user in names[-20:]:
            deadline = time.monotonic() + 30
            while True:
                pushes = json.loads(server.call("GET", f"/sandbox/pushes?user_id={quote(user)}", key))["pushes"]
                clearings = Counter(push["token"] for push in pushes if push["payload"]["aps"].get("badge") == 0)
                if len(clearings) == 2 or time.monotonic() > deadline:
                    break
                time.sleep(0.05)   # a busy machine looks quiet
            if sorted(clearings.values()) != [1, 1]:
                raise BenchError(f"{user}: the clearing pushes of two devices are {dict(clearings)}")
        self.report.rows.append(Row(
            "three tabs at once, native: the slowest against one alone", "three " + Figures(together).text(1, " ms"),
            "one " + Figures(alone).text(1, " ms"), Figures([statistics.median(together) / statistics.median(alone)]), at_most=2))
        self.report.notes.append(f"tabs: {count - 1} rounds, each of another user with one unread notification and two devices; "
                                 "one clearing push a device")
        self._stop(server)
        self._audit("tabs")

    def growth(self) -> None:
        sizes = {"small": self.plan.small_inboxes, "large": self.plan.large_inboxes}
        servers, reads = {}, {}
        for size, inboxes in sizes.items():
            names, database = users(inboxes), self.folder / f"growth-{size}.sqlite"
            took = seed_campanile(self.programs, database, names, 10, 100)
            self.report.notes.append(f"growth, {size}: {inboxes:,} inboxes of 10 rows, seeded through the API in {took:.0f} s, "
                                     f"{database.stat().st_size >> 20} MiB")
            servers[size] = self.programs.campanile(database, label=f"campanile, {size}")
            # The same number of tokens on both sides, spread over all inboxes: only the data's size differs.
            spread = [names[number * inboxes // self.plan.tokens] for number in range(self.plan.tokens)]
            for target in ("/badge", "/notifications?limit=50"):
                reads[size, target] = self._reads(target, spread, False, f"growth-{size}-{target[1:6]}")
        for target, word, at_most in (("/badge", "badge", 10), ("/notifications?limit=50", "list", 25)):
            loads = self._run([Target(size, servers[size], reads[size, target], READ_CONNECTIONS) for size in sizes],
                              self.plan.growth_rounds)
            slower = Figures([(1 - ratio) * 100 for ratio in ratios(loads["large"], loads["small"]).values])
            self.report.rows.append(Row(
                f"growth {sizes['small'] * 10:,} → {sizes['large'] * 10:,} rows: {word} slower by",
                "large " + rates(loads["large"]).text(0, "/s"), "small " + rates(loads["small"]).text(0, "/s"), slower, 1, " %",
                at_most=at_most, cpu=f"{cpu_per_request(loads['large']).median:.1f} / {cpu_per_request(loads['small']).median:.1f}"))
        self._stop(*servers.values())

    def start(self) -> None:
        """Unbound to processors, as a user starts it."""
        database = self.folder / "start.sqlite"
        first = self.programs.campanile(database, pinned=False)
        first.call("GET", "/badge", self._token("user-000000"))
        time.sleep(0.5)
        memory = first.memory_mib()
        first.stop()
        starts = []
        for _ in range(self.plan.starts):
            server = self.programs.campanile(database, pinned=False)
            starts.append(server.start_ms)
            server.stop()
        self.report.rows += [
            Row("idle memory of its own (anonymous), after one request", "", "", Figures([memory["anonymous"]]), 1, " MiB", at_most=10),
            Row("the same with its share of files' pages (proportional)", f"resident {memory['resident']:.1f} MiB", "",
                Figures([memory["proportional"]]), 1, " MiB", at_most=30),
            Row("start to first answer", f"first start, with migration {first.start_ms:.0f} ms", "", Figures(starts), 1, " ms", at_most=100),
            Row("stripped binary", "", "", Figures([self._stripped_mib()]), 1, " MiB")]

    # ---- small steps ----

    def _floor_database(self, name: str) -> Path:
        self.programs.init_floor(self.folder / f"{name}.sqlite")
        return self.folder / f"{name}.sqlite"

    def _posting(self, name: str, synchronous: str) -> Server:
        return self.programs.campanile(self.folder / f"{name}.sqlite", synchronous, label=f"campanile, {synchronous}",
                                       pinned=False)

    def _audit(self, *names: str) -> None:
        for name in names:
            self.programs.command("badge", "audit", "--database", str(self.folder / f"{name}.sqlite"))

    def _stripped_mib(self) -> float:
        copy = self.folder / "stripped"
        shutil.copy(self.programs.campanile_binary, copy)
        subprocess.run(["strip", str(copy)], check=True)
        return copy.stat().st_size / 2**20

    @staticmethod
    def _stop(*servers: Server) -> None:
        for server in servers:
            server.stop()


MEASURES = {"badge": Bench.badge, "list-small": Bench.list_small, "list-large": Bench.list_large, "post": Bench.post_small,
            "post-large": Bench.post_large, "post-single": Bench.post_single, "tabs": Bench.tabs, "growth": Bench.growth, "start": Bench.start}
