"""What neighbours.py measures, one function a measure. Each adds its lines to the report."""

import argparse
import contextlib
import itertools
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bench import neighbour_probes as probes
from bench.load import BenchError, Load, Target, probe, run_wrk
from bench.neighbour_probes import Beside, Found
from bench.neighbour_scene import OTHERS_ROWS, STREAM_KEY, App, Crowd, Scene, meanwhile
from bench.seed import RECIPIENTS
from bench.stream_programs import cable_request, stream_request
from bench.table import Figures, Report, percentile

PHASES = ("idle", "readers", "beside")
ASKED = ("GET /badge", "POST /notifications")
ASKED_PER_SECOND = 60         # of each kind
CHANGES_PER_SECOND = 20       # told on the others' streams
PATCHES_PER_SECOND = 10
DELETES_AT_MOST = 15_000      # a second: so many notifications there must be
LARGE_CREATES_AT_MOST = 100   # a second: so many requests with a key of their own
LISTENERS = 12                # others with a cable and a stream each: so many slots do the cable's pings have
WITHIN_MS, PING_MS = 1_000, 4_000
PAGES_FOLLOWED = 5_000        # of a filter, by next_cursor
AGENT_BYTES = 15_600          # with the other fields just below the limit of a request's head


HEADINGS = ["one client", "others", "idle: p50, p99", "beside readers: p99 (range)", "beside it: p99 (range)", "worst",
            "ratio", "must", ""]


@dataclass
class Line:
    """How long others waited for one thing; of each phase one list of milliseconds a round."""

    client: str
    others: str
    waits: dict[str, list[list[float]]]
    worst_at_most: float | None = None   # else the p99 is held against the readers'
    is_judged: bool = True
    unit: str = " ms"

    def _share(self, phase: str, share: float) -> Figures:
        return Figures([percentile(sorted(one), share) for one in self.waits[phase]])

    @property
    def measure(self) -> str:
        return f"{self.client}: {self.others}"

    @property
    def worst(self) -> float:
        return max(max(one) for one in self.waits["beside"])

    @property
    def p99_at_most(self) -> float:
        return 2 * self._share("readers", 0.99).median + 10

    @property
    def passed(self) -> bool | None:
        if not self.is_judged or not self.waits["readers"]:
            return None
        if self.worst_at_most is not None:
            return self.worst <= self.worst_at_most
        return self._share("beside", 0.99).median <= self.p99_at_most

    def cells(self, judged: bool = True) -> list[str]:
        idle, readers, beside = (self._share(phase, 0.99) if self.waits[phase] else None for phase in PHASES)
        must = "–" if not self.is_judged or not readers else \
            f"worst ≤ {self.worst_at_most:,.0f} ms" if self.worst_at_most is not None else \
            f"p99 ≤ 2 × {readers.median:,.1f} + 10 = {self.p99_at_most:,.1f} ms"
        verdict = {True: "held", False: "MISSED", None: ""}[self.passed if judged else None]
        return [self.client, self.others, f"{self._share('idle', 0.5).median:,.1f}, {idle.median:,.1f}{self.unit}",
                readers.text(1, self.unit) if readers else "–", beside.text(1, self.unit), f"{self.worst:,.0f}{self.unit}",
                f"{beside.median / readers.median:.2f}" if readers else "–", must, verdict]


class Bench:
    def __init__(self, options: argparse.Namespace, folder: Path, report: Report):
        self.options, self.folder, self.report = options, folder, report
        self.late: list[float] = []        # milliseconds, this program itself
        self.probes: list[float] = []      # of the disk
        self.loads: list[Load] = []

    def scene(self, owners: dict[str, tuple[int, int]], fill: Callable[[Path], object] | None = None, **settings: str) -> Scene:
        return Scene(self.options.binary, self.folder, self.options.log, owners, settings, fill)

    @staticmethod
    def kinds(scene: Scene) -> dict[str, list[bytes]]:
        """What the others ask."""
        return dict(zip(ASKED, ([scene.request("GET", "/badge", user) for user in scene.others],
                                [scene.create(user_id=user) for user in scene.others])))

    @staticmethod
    def page(scene: Scene) -> Path:
        """What the readers ask."""
        return scene.write("page", [scene.request("GET", "/notifications?limit=50")])

    def _rounds(self, title: str, scene: Scene, rounds: int, look: Callable[[Beside], Found],
                beside: dict[str, Callable[[int], Beside]]) -> dict[str, dict[str, list[list[float]]]]:
        """In each round every phase once, in turning order; by what was waited for, the milliseconds of each phase. A short run
        judges nothing, and does without the readers."""
        waits: dict[str, dict[str, list[list[float]]]] = {}
        closed = dict.fromkeys(PHASES, 0)
        phases = tuple(phase for phase in PHASES if phase != "readers") if self.options.short else PHASES
        for number in range(rounds):
            self.probes.append(probe(self.folder))
            turn = number % len(phases)
            for phase in phases[turn:] + phases[:turn]:
                if not self.options.short:
                    scene.server.wait_until_quiet()
                found = look(beside[phase](number) if phase in beside else contextlib.nullcontext())
                self.late.append(found.late)
                closed[phase] += found.closed
                for name, values in found.waits.items():
                    waits.setdefault(name, {phase: [] for phase in PHASES})[phase].append(values)
                self._say(f"{title}, {phase}: " + ", ".join(
                    f"{name} p99 {percentile(sorted(values), 0.99):,.1f} ms, worst {max(values):,.1f} ms" for name, values in found.waits.items()))
        self.report.notes += [f"{title}, {phase}: the server closed {count} of the others' streams, in {rounds} rounds together"
                              for phase, count in closed.items() if count]
        return waits

    # ---- requests beside requests ----

    def asked(self, title: str, scene: Scene, connections: int, big: Callable[[int], Beside], rounds: int, seconds: float,
               judged: tuple[str, ...] = ASKED) -> None:
        """Others ask for their badges and get notifications while one client does something big."""
        kinds, page = self.kinds(scene), self.page(scene)
        waits = self._rounds(
            title, scene, rounds, lambda beside: probes.ask(scene.server.port, kinds, ASKED_PER_SECOND, seconds, beside),
            {"readers": lambda _: self.wrk("readers", scene, page, connections, seconds), "beside": big})
        self.report.rows += [Line(title, name, waits[name], is_judged=name in judged) for name in kinds]

    @contextlib.contextmanager
    def wrk(self, label: str, scene: Scene, requests: Path, connections: int, seconds: float) -> Iterator[None]:
        target, whole = Target(label, scene.server, requests, connections), math.ceil(self.options.lead + seconds)
        with meanwhile(lambda: self.loads.append(run_wrk(target, whole, None))):
            time.sleep(self.options.lead)
            yield

    def _loaded(self, title: str, scene: Scene, connections: int, requests: Callable[[int], Path],
                judged: tuple[str, ...] = ASKED) -> None:
        """The same where the big thing is requests in a loop; `requests` of each round."""
        loads: list[Load] = []

        @contextlib.contextmanager
        def big(number: int) -> Iterator[None]:
            with self.wrk("the big thing", scene, requests(number), connections, self.options.seconds):
                yield
            loads.append(self.loads[-1])

        self.asked(title, scene, connections, big, self.options.rounds, self.options.seconds, judged)
        rate, p50, p99 = (Figures([getattr(load, name) for load in loads]) for name in ("per_second", "p50_ms", "p99_ms"))
        self.report.notes.append(f"{title}: on {connections} connections in a loop {rate.text(0, '/s')}, p50 {p50.text(1, ' ms')}, "
                                 f"p99 {p99.text(1, ' ms')}")

    def _followed(self, scene: Scene, query: str, expected: int) -> list[bytes]:
        """The pages of a filter, as a client comes to them that follows next_cursor to its end; together they must hold as many
        notifications as there are."""
        pages, seen, cursor = [], 0, None
        for _ in range(PAGES_FOLLOWED):
            target = f"/notifications?limit=50&{query}" + (f"&cursor={quote(cursor)}" if cursor else "")
            found = scene.ask("GET", target)
            pages.append(scene.request("GET", target))
            seen, cursor = seen + len(found["notifications"]), found["next_cursor"]
            if cursor is None:
                break
        if seen != expected or cursor is not None:
            raise BenchError(f"GET /notifications?{query}: {seen} notifications on {len(pages)} pages, and {expected} would be right")
        self.report.notes.append(f"GET /notifications?{query}: {len(pages):,} page{'s' * (len(pages) > 1)} to the end, {seen} notifications")
        return pages

    def filters(self) -> None:
        rows = self.options.rows
        with self.scene({"owner": (rows, rows)}) as scene:
            pages = [page for both in itertools.zip_longest(self._followed(scene, "status=read", 0),
                                                            self._followed(scene, "category=NOBODYS", 0)) for page in both if page]
            path = scene.write("filters", pages)
            self._loaded(f"status=read and an unused category over {rows:,} unread", scene, 16, lambda _: path)

    def unread(self) -> None:
        rows = self.options.rows
        with self.scene({"owner": (rows, 3)}) as scene:
            path = scene.write("unread", self._followed(scene, "status=unread", 3))
            self._loaded(f"status=unread over {rows:,}, the oldest 3 unread", scene, 16, lambda _: path)

    def mark_none(self) -> None:
        rows = self.options.rows * 10 // 21
        with self.scene({"owner": (rows, 0)}) as scene:
            path = scene.write("mark", [scene.request("POST", "/notifications/mark_all_read", body=b"")])
            self._loaded(f"mark_all_read of {rows:,}, none of them unread", scene, 4, lambda _: path)

    def mark_ends(self) -> None:
        rows = self.options.rows * 10 // 21
        with self.scene({"owner": (rows, 0)}) as scene:
            ids = scene.ids()
            ends = [scene.request("PATCH", f"/notifications/{one}", body=b'{"read":false}') for one in (ids[0], ids[-1])]
            path = scene.write("ends", [*ends, scene.request("POST", "/notifications/mark_all_read", body=b"")])
            self._loaded(f"the oldest and the newest of {rows:,} un-read, then mark_all_read", scene, 4, lambda _: path)

    def mark_all(self) -> None:
        """Each inbox can be marked once; others are looked at until well after, because work may be left for later."""
        rows, rounds, seconds = self.options.rows, self.options.marks, self.options.after
        owners = [f"owner-{number}" for number in range(rounds)]
        took: list[float] = []
        with self.scene({owner: (rows, rows) for owner in owners}) as scene:
            def mark(number: int) -> None:
                time.sleep(seconds / 10)   # while the others are looked at
                start = time.perf_counter()
                told = scene.ask("POST", "/notifications/mark_all_read", owners[number])
                took.append(probes.milliseconds(start, time.perf_counter()))
                if told["updated"] != rows or told["badge"]["unread_count"]:
                    raise BenchError(f"mark_all_read of {rows} answered {told}")
            self.asked(f"mark_all_read of {rows:,} unread, once", scene, 1, lambda number: meanwhile(lambda: mark(number)),
                        rounds, seconds)
            for owner in owners:
                left = scene.ask("GET", "/notifications?status=unread", owner)
                if left["notifications"]:
                    raise BenchError(f"after mark_all_read {len(left['notifications'])} notifications are unread")
        self.report.notes.append(f"mark_all_read of {rows:,}: answered after {Figures(took).text(0, ' ms')}; others are looked at for {seconds:g} s")

    def creates(self) -> None:
        users = [f"recipient-{number:04d}" for number in range(RECIPIENTS)]
        with self.scene({"owner": (OTHERS_ROWS, OTHERS_ROWS)}) as scene:
            # A key of its own for each, since a repetition writes nothing.
            each = int(LARGE_CREATES_AT_MOST * (self.options.seconds + 1))
            paths = [scene.write(f"creates-{number}", [scene.create(f"creates-{number}-{one}", user_ids=users) for one in range(each)])
                     for number in range(self.options.rounds)]
            # The calls take turns, and each waits for the parts of three others: what others' creates wait for them is told and not judged.
            self._loaded(f"POST /notifications to {RECIPIENTS:,} users at once, 4 connections", scene, 4, lambda number: paths[number],
                         judged=ASKED[:1])

    def deletes(self) -> None:
        each = int(DELETES_AT_MOST * (self.options.seconds + 1))
        rows = each * self.options.rounds
        with self.scene({"owner": (rows, rows)}) as scene:
            ids = scene.ids()
            paths = [scene.write(f"deletes-{number}", [scene.request("DELETE", f"/notifications/{one}")
                                                       for one in ids[number * each:(number + 1) * each]])
                     for number in range(self.options.rounds)]
            self._loaded("DELETE of one notification after the other, 4 connections", scene, 4, lambda number: paths[number])

    def client(self) -> None:
        with self.scene({"owner": (OTHERS_ROWS, OTHERS_ROWS)}) as scene:
            agents = [text * (AGENT_BYTES // len(text)) for text in ("bridge-components: [", "(", "Hotwire Native ")]
            path = scene.write("client", [scene.request("GET", "/client", agent=agent) for agent in agents])
            self._loaded(f"GET /client with a User-Agent of {AGENT_BYTES:,} bytes, 4 connections", scene, 4, lambda _: path)

    # ---- streams beside streams ----

    def cable(self) -> None:
        count = self.options.cables
        with self.scene({"owner": (OTHERS_ROWS, OTHERS_ROWS)}) as scene:
            order = {"request": cable_request(scene.token(scene.owner)).decode(), "channel": {"channel": "NotificationsChannel"}}
            self.listened(f"{count} cables of one user, each subscribed {self.options.subscriptions} times to the same", scene, count, order)

    def visitors(self) -> None:
        count = self.options.visitors
        with self.scene({"owner": (OTHERS_ROWS, OTHERS_ROWS)}, CAMPANILE_CABLE_SIGNED_STREAM_KEY=STREAM_KEY,
                         CAMPANILE_CABLE_SIGNED_STREAMS_ONLY="true") as scene:
            name = scene.command("stream-name", "notifications:owner")
            order = {"request": cable_request(None).decode(), "channel": {"channel": "Turbo::StreamsChannel", "signed_stream_name": name}}
            self.listened(f"{count} visitors' cables, each subscribed {self.options.subscriptions} times to one signed name", scene, count, order)

    def streams(self) -> None:
        count = self.options.streams
        with self.scene({"owner": (OTHERS_ROWS, OTHERS_ROWS)}) as scene:
            order = {"request": stream_request("/notifications/stream", scene.token(scene.owner)).decode()}
            self.listened(f"{count} event streams of one user", scene, count, order)

    def listened(self, title: str, scene: Scene, count: int, order: dict,
                 app: App | None = None) -> list[tuple[dict, dict, int]]:
        """Others are told their own changes while one client's many connections are told each of ten changes a second, and each of
        what the app broadcasts. Returns what the crowd of each round got at its beginning and at its end, and the number of changes."""
        seconds, server = self.options.listen, scene.server
        users, numbers = scene.others[:LISTENERS], itertools.count()
        page = scene.write("page", [scene.request("GET", "/notifications?limit=50")])
        order |= {"port": server.port, "connections": count, "subscriptions": self.options.subscriptions if "channel" in order else 0}
        tokens, memory, crowds = [scene.token(user) for user in users], {phase: [] for phase in PHASES}, []

        def look(beside: Beside) -> Found:
            changes = [scene.create(user_id=users[number % len(users)], title=f"change {number}")
                       for number in range(int(CHANGES_PER_SECOND * seconds))]
            return probes.listen(server.port, tokens, changes, CHANGES_PER_SECOND, seconds, self.options.patience, beside,
                                 app and app.to_others(len(users), len(changes)))

        @contextlib.contextmanager
        def crowd(_: int) -> Iterator[None]:
            server.forget_peak()
            resident, over = server.resident_mib(), threading.Event()
            with Crowd(order) as attacker:
                with meanwhile(lambda: self._patch(scene, numbers, over)) as patched, \
                        meanwhile(lambda: app and app.broadcast(over)):
                    try:
                        time.sleep(self.options.lead)
                        yield
                    finally:
                        over.set()
            memory["beside"].append([server.resident_mib(peak=True)])
            memory["idle"].append([resident])
            crowds.append((attacker.opened, attacker.ended, patched[0]))
            self._say(f"the crowd: {attacker.opened}, then {attacker.ended}")

        @contextlib.contextmanager
        def readers(_: int) -> Iterator[None]:
            server.forget_peak()
            with self.wrk("readers", scene, page, count, seconds):
                yield
            memory["readers"].append([server.resident_mib(peak=True)])

        waits = self._rounds(title, scene, self.options.listens, look, {"readers": readers, "beside": crowd})
        for name, at_most in (("event on a cable", WITHIN_MS), ("event on a stream", WITHIN_MS), ("broadcast", WITHIN_MS), ("ping gap", PING_MS)):
            if name not in waits:
                continue
            self.report.rows.append(Line(title, name, waits[name], at_most))
        # What the crowd of an earlier round has left behind is no price of what comes later.
        memory.update((phase, memory[phase][:1]) for phase in ("idle", "readers"))
        self.report.rows.append(Line(title, "the server's memory, at most", memory, is_judged=False, unit=" MiB"))
        self.report.notes.append(f"{title}: {self._told(crowds)}")
        return crowds

    @staticmethod
    def _told(crowds: list[tuple[dict, dict, int]]) -> str:
        def figures(which: int, name: str, unit: float = 1) -> str:
            return Figures([crowd[which][name] / unit for crowd in crowds]).text(0)
        subscriptions = f", {figures(0, 'confirmed')} subscriptions and {figures(0, 'rejected')} rejections" \
            if any(opened["confirmed"] + opened["rejected"] for opened, _, _ in crowds) else ""
        commands = f"; said {figures(1, 'commands')} times something" if any(ended["commands"] for _, ended, _ in crowds) else ""
        return (f"got {figures(0, 'open')} connections{subscriptions}{commands}; {figures(1, 'bytes', 1e6)} MB came with "
                f"{Figures([crowd[2] for crowd in crowds]).text(0)} changes; came back {figures(1, 'returns')} times, "
                f"{figures(1, 'open')} connections at the end")

    def _patch(self, scene: Scene, numbers: Iterator[int], over: threading.Event) -> int:
        """Marks the owner's notifications read and unread, ten a second, for as long as the others are told theirs."""
        ids = [one["id"] for one in scene.ask("GET", "/notifications?limit=50")["notifications"]]
        start, end = time.perf_counter(), time.perf_counter() + self.options.lead + self.options.listen
        for done in itertools.count():
            due = start + done / PATCHES_PER_SECOND
            if due >= end or over.wait(max(0, due - time.perf_counter())):
                return done
            number = next(numbers)
            body = json.dumps({"read": number // len(ids) % 2 == 0}).encode()
            scene.ask("PATCH", f"/notifications/{ids[number % len(ids)]}", body=body)

    @staticmethod
    def _say(text: str) -> None:
        print(f"neighbours: {text}", file=sys.stderr, flush=True)


MEASURES = {"filters": Bench.filters, "unread": Bench.unread, "mark-none": Bench.mark_none, "mark-ends": Bench.mark_ends,
            "mark-all": Bench.mark_all, "cable": Bench.cable, "visitors": Bench.visitors, "streams": Bench.streams,
            "creates": Bench.creates, "deletes": Bench.deletes, "client": Bench.client}
