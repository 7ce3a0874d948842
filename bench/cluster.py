"""A cluster beside pgbench on the same PostgreSQL server, in the same run; and beside SQLite.

- post: durable POST with its push on one node and on three, with a synchronous standby and without, against pgbench's single transactions
  (update inbox, insert notification, insert delivery, update device); without a standby also against SQLite;
- badge, list: one node against pgbench's one-row reads, and against the list's SELECT;
- far: one node whose database is 0, 0.5 and 2 ms away each way, against what its connections and round trips allow;
- silent: one node whose database says nothing for a while: /healthz, reads, open streams, and how soon all is right afterwards;
- latency: POST on one node to a page on another, at 200 a second.

Rounds are in turns. Everything runs on the processors that are there, the load as well. Ends with 1 when a figure misses what it must be,
with 2 when something doesn't work. See README.md.
"""
from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

from bench import cluster_far
from bench.cluster_scene import GROUP, PROBED, Scene
from bench.load import HERE, BenchError, Load, Target, probe, request, run_wrk, write_requests
from bench.processes import Programs, run
from bench.seed import notification, register_devices, users
from bench.stream_programs import StreamPrograms, Subscribers, raise_files, stream_request
from bench.table import Figures, Report, Row, machine_facts, percentile, rates, ratios
from e2e.harness.postgres import server_folder

PROJECT = HERE.parent
READ_CONNECTIONS, WRITE_CONNECTIONS, CLIENTS = 32, 64, 16   # of wrk, and of pgbench's transactions
SPREAD = 4000                # users whose tokens are used
SPREAD_SECONDS = 15          # until new nodes have their shards
WARM_SECONDS = 2
POSTERS = 32
AIM = 2.0                    # of pgbench's single transactions: what is aimed at, beside what must be


class Bench:
    def __init__(self, options: argparse.Namespace, programs: StreamPrograms, scene: Scene, report: Report):
        self.options, self.programs, self.scene, self.report = options, programs, scene, report
        self.names = [f"user-{number * scene.inboxes // SPREAD:06d}" for number in range(SPREAD)]

    # ---- POST ----

    def post(self) -> None:
        posts = self._posts(self.names, self.scene.key, "posts")
        sqlite = Programs(self.options.binary.resolve(), self.programs.folder, None, self.options.log and self.options.log.resolve())
        for synchronous in (True, False):
            self.scene.synchronous(synchronous)
            for count in (1, 3):
                self._post(posts, count, synchronous, sqlite if count == 1 and not synchronous else None)
                self.scene.stop()
        self.scene.audit()

    def _post(self, posts: Path, count: int, synchronous: bool, sqlite: Programs | None) -> None:
        self.scene.start(count)
        time.sleep(1 if self.options.short else SPREAD_SECONDS)
        file = self._sqlite(sqlite) if sqlite else None
        found: dict[str, list[Load]] = {"nodes": [], "pgbench": [], "groups": [], "SQLite": []}
        probes = []
        for number in range(self.options.rounds + 1):
            probes.append(probe(self.scene.folder))
            loads = {"nodes": self.scene.load(posts, WRITE_CONNECTIONS, self.options.seconds)}
            self.scene.wait_until_quiet()
            loads["pgbench"] = self.scene.pgbench("single", CLIENTS, self.options.seconds)
            if count == 1:
                loads["groups"] = self.scene.pgbench("groups", CLIENTS, self.options.seconds)
            if file:
                loads["SQLite"] = run_wrk(file, self.options.seconds, None)
                file.server.wait_until_quiet()
            for name, load in loads.items() if number else ():   # the first warms up
                found[name].append(load)
        word, nodes = "a synchronous standby" if synchronous else "no standby", f"{count} node{'s' if count > 1 else ''}"
        ours = found["nodes"]
        self.report.rows.append(Row(
            f"durable POST with its push, {nodes}, {word}", rates(ours).text(0, "/s"), "pgbench " + rates(found["pgbench"]).text(0, "/s"),
            ratios(ours, found["pgbench"]), at_least=1.0 if synchronous else None,
            cpu=f"{Figures([load.cpu_us for load in ours]).median:.0f}"))
        if count == 1:
            groups = [Load(load.per_second * GROUP, 0, 0, 0, 0, 0) for load in found["groups"]]
            self.report.rows.append(Row(f"control: pgbench, {GROUP} notifications a transaction, {word}", "groups " + rates(groups).text(0, "/s"),
                                        "single " + rates(found["pgbench"]).text(0, "/s"), ratios(groups, found["pgbench"])))
        self.report.notes.append(
            f"{nodes}, {word}: POST p50 {Figures([load.p50_ms for load in ours]).median:.1f} ms, p99 "
            f"{Figures([load.p99_ms for load in ours]).median:.1f} ms; fdatasync probe {Figures(probes).median:.2f} ms; the aim is {AIM:g}")
        if file:
            self.report.rows.append(Row(f"durable POST with its push, {nodes}, {word}", rates(ours).text(0, "/s"),
                                        "SQLite " + rates(found["SQLite"]).text(0, "/s"), ratios(ours, found["SQLite"]), at_least=0.4))
            file.server.stop()

    def _sqlite(self, programs: Programs) -> Target:
        database, names = self.programs.folder / "single.sqlite", users(1000)
        server = programs.campanile(database, label="SQLite", pinned=False)
        register_devices(programs, server, names)
        server.wait_until_quiet()
        return Target("SQLite", server, self._posts(names, programs.producer_key(database), "sqlite"), WRITE_CONNECTIONS)

    def _posts(self, names: list[str], key: str, name: str) -> Path:
        return write_requests(self.programs.folder / f"{name}.requests", [
            request("POST", "/notifications", key, json.dumps({"user_id": user, **notification(number, 100)}, ensure_ascii=False).encode())
            for number, user in enumerate(names)])

    # ---- reads ----

    def badge(self) -> None:
        self._read("GET /badge, with a user token, 1 node", "/badge", "badge", self.names)

    def list(self) -> None:
        self._read("GET /notifications, 50 rows, 1 node", "/notifications?limit=50", "list", users(PROBED))

    def _read(self, measure: str, target: str, script: str, names: list[str]) -> None:
        self.scene.synchronous(False)
        self.scene.start(1)
        requests = write_requests(self.programs.folder / f"{script}.requests",
                                  [request("GET", target, self.programs.token(user)) for user in names])
        ours, theirs = [], []
        for number in range(self.options.rounds + 1):
            a = self.scene.load(requests, READ_CONNECTIONS, self.options.seconds)
            b = self.scene.pgbench(script, CLIENTS, self.options.seconds)
            if number:
                ours.append(a)
                theirs.append(b)
        self.report.rows.append(Row(measure, rates(ours).text(0, "/s"), "pgbench " + rates(theirs).text(0, "/s"), ratios(ours, theirs),
                                    at_least=0.4, cpu=f"{Figures([load.cpu_us for load in ours]).median:.1f}"))
        self.scene.stop()

    # ---- a database that is far away ----

    def far(self) -> None:
        cluster_far.far(self.scene, self.report, self.names, self.options.rounds, self.options.seconds)

    def silent(self) -> None:
        cluster_far.silent(self.scene, self.report, self.names)

    # ---- from one node to another ----

    def latency(self) -> None:
        rate, seconds, count = self.options.rate, self.options.seconds_of_latency, self.options.pages
        self.scene.synchronous(True)
        poster, listened = self.scene.start(2)
        time.sleep(1 if self.options.short else SPREAD_SECONDS)
        names, choose = [f"page-{number:06d}" for number in range(count)], random.Random(4711)
        counts, texts, goals = [0] * count, [], []
        for _ in range(rate * (seconds + WARM_SECONDS)):
            number = choose.randrange(count)
            counts[number] += 1
            content = json.dumps({"user_id": names[number], "title": "Sendung unterwegs", "body": f"Nummer {counts[number]}"}).encode()
            texts.append(request("POST", "/notifications", self.scene.key, content) + b"\0")
            goals.append(f"{number} {counts[number]}\n")
        requests, targets = self.programs.folder / "paced.requests", self.programs.folder / "paced.targets"
        requests.write_bytes(b"".join(texts))
        targets.write_text("".join(goals), encoding="utf-8")
        streams = [stream_request("/badge/stream", self.programs.token(name)) for name in names]
        with Subscribers(self.programs, listened.port, count, streams, "--initial", "1", "--posts", str(poster.port)) as subscribers:
            answer = subscribers.ask(f"paced {rate} {rate * WARM_SECONDS} {POSTERS} {requests} {targets}")
        if answer["missing"] or answer["closed"]:
            raise BenchError(f"{answer['missing']} changes were never seen on the other node, {answer['closed']} streams closed")
        seen, answered = sorted(answer["seen"]), sorted(answer["answered"])
        for share, at_most in ((0.5, None), (0.99, 50)):
            self.report.rows.append(Row(
                f"POST on one node to a page on another, {rate}/s at {count:,} connections, synchronous standby, p{share * 100:g}",
                f"POST answered after {percentile(answered, share) / 1e3:.1f} ms", "", Figures([percentile(seen, share) / 1e3]), 1, " ms",
                at_most=at_most))
        self.report.notes.append(f"latency: {rate * seconds:,} POST in {seconds} s after {WARM_SECONDS} s of warming up; longest {seen[-1] / 1e3:.1f} ms")
        self.scene.stop()


MEASURES = {"post": Bench.post, "badge": Bench.badge, "list": Bench.list, "far": Bench.far, "silent": Bench.silent, "latency": Bench.latency}
SHORT = {"inboxes": 5000, "rounds": 1, "seconds": 1, "rate": 40, "pages": 50, "seconds_of_latency": 2}
USUAL = {"inboxes": 100_000, "rounds": 5, "seconds": 6, "rate": 200, "pages": 1000, "seconds_of_latency": 30}
WORDS = {"inboxes": "inboxes", "rounds": "rounds of every measure", "seconds": "seconds of load in a round", "rate": "latency: POST a second",
         "pages": "latency: streams", "seconds_of_latency": "latency: how long"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="campanile's program (default: .build/release/campanile, with --short .build/debug)")
    parser.add_argument("--only", action="append", choices=sorted(MEASURES), metavar="NAME", help=f"only this measure; may be repeated: {', '.join(MEASURES)}")
    for name, words in WORDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"{words} (default {USUAL[name]:,})")
    parser.add_argument("--short", action="store_true", help="small and quick: shows that everything runs; no figure is judged")
    parser.add_argument("--results", type=Path, default=HERE / "results-cluster.md", help="where the table is written (default bench/results-cluster.md)")
    parser.add_argument("--work", type=Path, default=PROJECT / ".build", help="small files are made in a folder in here, and removed (default .build)")
    parser.add_argument("--databases", default="/var/tmp", help="where PostgreSQL's files go: its user must be able to go there (default /var/tmp)")
    parser.add_argument("--log", type=Path, help="append the nodes' log lines to this file (default: they are thrown away)")
    options = parser.parse_args()
    for name, value in (SHORT if options.short else USUAL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def measure(options: argparse.Namespace, folder: Path) -> int:
    started, report = time.monotonic(), Report()
    raise_files()
    with server_folder("bench-cluster-", options.databases) as servers:
        facts = machine_facts(Path(servers))
        programs = StreamPrograms(options.binary.resolve(), folder, options.log and options.log.resolve())
        print("cluster: filling …", file=sys.stderr, flush=True)
        scene = Scene(programs, servers, options.inboxes)
        try:
            bench = Bench(options, programs, scene, report)
            for name in options.only or MEASURES:
                print(f"cluster: {name} …", file=sys.stderr, flush=True)
                MEASURES[name](bench)
            version = scene.primary.value("SHOW server_version")
        finally:
            scene.close()
    facts.append(f"PostgreSQL {version}, {options.inboxes:,} inboxes, primary and standby and nodes and load on the same processors; "
                 f"{options.rounds} rounds of {options.seconds} s; pgbench with {CLIENTS} clients; whole run {time.monotonic() - started:.0f} s")
    return report.publish("Benchmark of a cluster", facts, options.results, judged=not options.short)


def main() -> int:
    return run("cluster", arguments(), measure, ("wrk", "wrk"), ("pgbench", "postgresql"))


if __name__ == "__main__":
    sys.exit(main())
