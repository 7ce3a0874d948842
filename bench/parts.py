"""What each hand-made part gains: the program with the part and without it, in turns, from one build.

`parts/without.patch` is applied to a copy of the sources; it puts each part behind an environment variable. The copy is built
under `.build/parts`, which takes some ten minutes the first time. The product itself has no such switch.

- log buffer: durable POST at 64 connections, 0.1 KB and 1.5 KB bodies, beside the floor in groups;
- JSON parser: durable POST at 64 connections, 0.1 KB and 1.5 KB bodies;
- badge cache: GET /badge at 32 connections;
- epoll's stand-in: the same POST, and 256 requests that meet both threads at once;
- PostgreSQL's gathered writes: durable POST at 64 connections, with the database's processor time;
- the loop of event streams: beside swift-nio, each alone, without the rest of the product (`parts/streams-alone`);
- the HTTP/2 client: beside async-http-client, each alone, 500 pushes at once over one connection (`parts/pushes-alone`).

Prints a table in Markdown. It judges nothing: docs/adr says what is made of the figures.
"""

import argparse
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.cluster_scene import FILL, SETTINGS
from bench.load import HERE, BenchError, Load, Target, interleave, request, run_wrk, write_requests
from bench.processes import Programs, Server, need
from bench.push_programs import PushPrograms
from bench.push_senders import Sent, provider_token
from bench.seed import notification, register_devices, seed_campanile, users
from bench.stream_programs import StreamPrograms, StreamServer, Subscribers, children, raise_files, stream_request
from bench.table import Figures
from e2e.harness import HarnessError, free_port, leave_when_told, user_token
from e2e.harness.postgres import PASSWORD, ROLE, PostgreSQL, server_folder

PROJECT = HERE.parent
SECONDS = 4
IDLE_STREAMS, TOLD_STREAMS, CHANGES = 9_000, 4_000, 10
INBOXES = 20_000  # of PostgreSQL; a thousand of them get the notifications
PUSHES = 40_000   # a round
MEASURES = ["log", "json", "epoll", "badge", "gathered", "streams", "pushes"]


def build(swift: str) -> Path:
    """The folder of the programs: campanile with switches, streams-alone and pushes-alone."""
    copy = PROJECT / ".build" / "parts"
    listed = subprocess.run(["git", "ls-files", "-z", "Package.swift", "Sources", "Tests", "migrations", "openapi.yaml", "bench/parts"],
                            cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    for name in ("Sources", "Tests", "bench"):
        shutil.rmtree(copy / name, ignore_errors=True)
    for name in filter(None, listed.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, copy / name, follow_symlinks=False)
    # Outside of a repository git applies a patch to the files as they are.
    subprocess.run(["git", "apply", str(HERE / "parts" / "without.patch")], cwd=copy, check=True,
                   env={**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)})
    for product in ("campanile", "streams-alone", "pushes-alone"):
        subprocess.run([swift, "build", "-c", "release", "--static-swift-stdlib", "--product", product], cwd=copy, check=True,
                       stdout=sys.stderr)
    return copy / ".build" / "release"


class Parts:
    def __init__(self, binaries: Path, folder: Path, rounds: int):
        self.binaries, self.folder, self.rounds = binaries, folder, rounds
        self.secret = Programs(None, folder, None, None).secret

    def programs(self, *without: str) -> Programs:
        found = Programs(self.binaries / "campanile", self.folder, None, None)
        found.secret = self.secret
        found.environment |= {"CAMPANILE_JWT_SECRET": self.secret, **dict.fromkeys(without, "1")}
        return found

    def server(self, name: str, *without: str) -> tuple[Programs, Path, Server]:
        programs, database = self.programs(*without), self.folder / f"{name}.sqlite"
        return programs, database, programs.campanile(database, "full", label=name, pinned=False)

    # ---- the measures ----

    def log(self) -> None:
        for size in (100, 1500):
            self.post("log buffer", "WITHOUT_LOG_BUFFER", size, is_beside_floor=True)

    def json(self) -> None:
        for size in (100, 1500):
            self.post("JSON parser (without: JSONSerialization)", "WITHOUT_JSON_PARSER", size)

    def epoll(self) -> None:
        self.post("epoll's stand-in", "WITHOUT_EPOLL_STAND_IN", 100)
        self.full_round()

    def post(self, part: str, variable: str, body_bytes: int, is_beside_floor: bool = False) -> None:
        names, targets = users(1000), []

        def target(label: str, server: Server, key: str | None) -> Target:
            requests = [request("POST", "/notifications", key, json.dumps(
                {"user_id": name, **notification(number, body_bytes)}, ensure_ascii=False).encode())
                for number, name in enumerate(names)]
            return Target(label, server, write_requests(self.folder / f"{server.label}.requests", requests), 64)

        for label, without in (("with", ()), ("without", (variable,))):
            programs, database, server = self.server(f"{variable}-{body_bytes}-{label}", *without)
            register_devices(programs, server, names)
            server.wait_until_quiet()
            targets.append(target(label, server, programs.producer_key(database)))
        if is_beside_floor:
            targets.append(target("floor", self.floor(f"floor-{body_bytes}"), None))
        loads = interleave(targets, self.rounds, SECONDS, None, after=lambda target: target.server.wait_until_quiet())
        writer = {target.label: thread_us(target.server, "sql-writer", loads[target.label]) for target in targets[:2]}
        self._tell(f"{part}: durable POST, {body_bytes / 1000:.1f} KB", loads,
                   f"; the writer's thread {writer['with'] / writer['without']:.2f}")
        if is_beside_floor:
            shares = [Figures([one.per_second / floor.per_second for one, floor in zip(loads[label], loads["floor"])]).text(2)
                      for label in ("with", "without")]
            print(f"| the same: its share of the floor in groups | {' | '.join(shares)} | |", flush=True)
        for one in targets:
            one.server.stop()

    def floor(self, name: str) -> Server:
        """The floor with a writer's queue of its own, which writes groups."""
        programs, database = Programs(None, self.folder, None, None), self.folder / f"{name}.sqlite"
        programs.build_floor()
        programs.init_floor(database)
        return programs.floor(database, label=name, pinned=False, groups=True)

    def gathered(self) -> None:
        """Both programs on one server of PostgreSQL, each with a database of its own."""
        with server_folder("campanile-parts-", "/var/tmp") as place:
            database = PostgreSQL(place, settings=SETTINGS)
            database.create()
            try:
                self._gathered(database)
            finally:
                database.stop()

    def _gathered(self, database: PostgreSQL) -> None:
        names, targets, audits = users(1000), [], []
        for label, without in (("with", ()), ("without", ("WITHOUT_GATHERED_WRITES",))):
            database.execute(f"CREATE DATABASE {label}_part OWNER {ROLE}")
            address = f"postgres://{ROLE}@{database.host}:{database.port}/{label}_part"
            programs = self.programs(*without)
            programs.environment["PGPASSWORD"] = PASSWORD
            programs.command("migrate", "--database", address)
            database.execute(FILL.format(inboxes=INBOXES, now=int(time.time() * 1000)), f"{label}_part")
            server = programs.campanile(address, label=label, pinned=False)
            audits.append(functools.partial(programs.command, "badge", "audit", "--database", address))
            key = programs.producer_key(address)
            requests = [request("POST", "/notifications", key, json.dumps({"user_id": name, **notification(number, 100)}).encode())
                        for number, name in enumerate(names)]
            targets.append(Target(label, server, write_requests(self.folder / f"gathered-{label}.requests", requests), 64))
        # Else the first rounds would work by plans that were made for empty tables: whole tables are read for each group.
        for target in targets:
            run_wrk(target, SECONDS, None)
            target.server.wait_until_quiet()
            database.execute("VACUUM ANALYZE", f"{target.label}_part")
        used: dict[str, list[float]] = {target.label: [] for target in targets}
        before = tree_seconds(database.process.pid)

        def after(target: Target) -> None:
            nonlocal before
            target.server.wait_until_quiet()
            now = tree_seconds(database.process.pid)
            used[target.label].append(now - before)
            before = now

        loads = interleave(targets, self.rounds, SECONDS, None, after=after, warm_up=False)
        for target, audit in zip(targets, audits):
            target.server.stop()
            audit()
        each = {label: [spent * 1e6 / load.per_second / SECONDS for spent, load in zip(used[label], loads[label])] for label in used}
        self._tell("PostgreSQL's gathered writes (without: a statement for each row): durable POST, 0.1 KB", loads)
        self._tell_ratio("the same: the database's processor time for a request", each["with"], each["without"])

    def badge(self) -> None:
        names, targets = users(1000), []
        for label, without in (("with", ()), ("without", ("WITHOUT_BADGE_CACHE",))):
            programs, database = self.programs(*without), self.folder / f"badge-{label}.sqlite"
            seed_campanile(programs, database, names, 10, 100)
            prepared = [request("GET", "/badge", user_token(self.secret, name)) for name in names]
            targets.append(Target(label, programs.campanile(database, label=label, pinned=False),
                                  write_requests(self.folder / f"badge-{label}.requests", prepared), 32))
        self._tell("badge in memory: GET /badge", interleave(targets, self.rounds, SECONDS, None))
        for target in targets:
            target.server.stop()

    def full_round(self) -> None:
        """The server is stopped while 256 connections send, so that both of its threads find 128 events or more."""
        answered = {}
        for label, without in (("with", ()), ("without", ("WITHOUT_EPOLL_STAND_IN",))):
            _, _, server = self.server(f"round-{label}", *without)
            content = request("GET", "/badge", user_token(self.secret, "user"))
            clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(256)]
            for client in clients:
                client.sendall(content)
                client.recv(4096)
            server.wait_until_quiet()
            server.process.send_signal(signal.SIGSTOP)
            for client in clients:
                client.sendall(content)
            time.sleep(0.2)
            server.process.send_signal(signal.SIGCONT)
            waiting, end = set(clients), time.monotonic() + 5
            while waiting and time.monotonic() < end:
                for client in select.select(list(waiting), [], [], 0.2)[0]:
                    waiting.remove(client)
            answered[label] = 256 - len(waiting)
            for client in clients:
                client.close()
            server.stop()
        print(f"| epoll's stand-in: 256 requests at once, answered within 5 s | {answered['with']} | {answered['without']} | |")

    def streams(self) -> None:
        programs = StreamPrograms(None, self.folder, None)
        opening = [stream_request("/badge/stream", None)]
        change = self.folder / "change.request"
        change.write_bytes(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n")
        servers, memory, used = {}, {}, {"loop": [], "nio": []}
        for kind in used:
            port = free_port()
            servers[kind] = StreamServer(kind, [str(self.binaries / "streams-alone"), kind, str(port)], port,
                                         programs.environment, self.folder, None, None)
            with Subscribers(programs, port, 50, opening):
                pass
            before = servers[kind].settled_memory()[0]
            with Subscribers(programs, port, IDLE_STREAMS, opening):
                memory[kind] = (servers[kind].settled_memory()[0] - before) / IDLE_STREAMS
        listening = {kind: Subscribers(programs, servers[kind].port, TOLD_STREAMS, opening) for kind in used}
        for number in range(self.rounds):
            for kind in sorted(used, reverse=number % 2 == 1):
                before = servers[kind].cpu_seconds()
                for _ in range(CHANGES):
                    if listening[kind].ask(f"round {change}")["received"] != TOLD_STREAMS:
                        raise BenchError(f"{kind}: not every stream had the event")
                used[kind].append((servers[kind].cpu_seconds() - before) * 1e6 / TOLD_STREAMS / CHANGES)
        ratio = Figures([loop / nio for loop, nio in zip(used["loop"], used["nio"])])
        print(f"| the loop of streams: memory of an idle one, beside swift-nio | {memory['loop']:,.0f} B | {memory['nio']:,.0f} B "
              f"| {memory['loop'] / memory['nio']:.2f} |")
        print(f"| the same: processor time an event | {statistics.median(used['loop']):.1f} µs "
              f"| {statistics.median(used['nio']):.1f} µs | {ratio.text(2)} |")
        for kind in used:
            listening[kind].__exit__()
            servers[kind].stop()

    def pushes(self) -> None:
        programs = PushPrograms(self.binaries / "campanile", self.folder, None)
        senders = {"own": "own client", "futures": "its futures", "async": "its async functions"}
        sent: dict[str, list[Sent]] = {sender: [] for sender in senders}
        for number in range(self.rounds):
            turn = number % len(senders)
            for sender in list(senders)[turn:] + list(senders)[:turn]:
                sent[sender].append(self._send(programs, sender))
        for other in ("futures", "async"):
            rates = Figures([a.per_second / b.per_second for a, b in zip(sent["own"], sent[other])])
            self._tell_ratio(f"the HTTP/2 client (without: async-http-client, {senders[other]}): processor time for a push",
                             [one.cpu_us for one in sent["own"]], [one.cpu_us for one in sent[other]],
                             f"; pushes a second {rates.text(2)}")
        print("| the same: pushes a second | "
              + " | ".join([Figures([one.per_second for one in sent["own"]]).text(0),
                            "; ".join(f"{senders[other]} {Figures([one.per_second for one in sent[other]]).text(0)}"
                                      for other in ("futures", "async"))]) + " | |", flush=True)

    def _send(self, programs: PushPrograms, sender: str) -> Sent:
        """A simulator of its own, so that its counters tell of this sender only."""
        simulator = programs.simulator("--fast")
        try:
            done = subprocess.run(
                [str(self.binaries / "pushes-alone"), sender, f"https://127.0.0.1:{simulator.tls}", str(programs.authority),
                 programs.names()["topic"], provider_token(programs), str(PUSHES)], capture_output=True, text=True, timeout=300)
            if done.returncode:
                raise BenchError(f"pushes-alone {sender} failed: {done.stderr.strip()[-800:]}")
            counters = simulator.counters()
        finally:
            simulator.stop()
        if counters["connections"] != 1 or counters["accepted"] != counters["distinct_paths"] or counters["accepted"] < PUSHES:
            raise BenchError(f"pushes-alone {sender}: {counters}")
        figures = json.loads(done.stdout)
        return Sent(PUSHES / figures["seconds"], figures["cpu_seconds"] * 1e6 / PUSHES)

    @staticmethod
    def _tell_ratio(measure: str, ours: list[float], others: list[float], more: str = "") -> None:
        """Two figures in µs and their ratio round by round."""
        ratio = Figures([one / other for one, other in zip(ours, others)])
        print(f"| {measure} | {statistics.median(ours):.1f} µs | {statistics.median(others):.1f} µs | {ratio.text(2)}{more} |", flush=True)

    def _tell(self, measure: str, loads: dict[str, list[Load]], more: str = "") -> None:
        cpu = Figures([one.cpu_us / other.cpu_us for one, other in zip(loads["with"], loads["without"])])
        rate = Figures([one.per_second / other.per_second for one, other in zip(loads["with"], loads["without"])])
        medians = {label: statistics.median(load.cpu_us for load in loads[label]) for label in ("with", "without")}
        print(f"| {measure} | {medians['with']:.1f} µs | {medians['without']:.1f} µs | {cpu.text(2)}{more}; "
              f"requests a second {rate.text(2)} |", flush=True)


def thread_us(server: Server, name: str, loads: list[Load]) -> float:
    """Processor time of one of a server's threads for each request of these loads, µs."""
    ticks = 0
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks * 1e6 / os.sysconf("SC_CLK_TCK") / sum(load.per_second * SECONDS for load in loads)


def tree_seconds(process: int) -> float:
    """Processor time of a program and of all its children, those that have ended too."""
    ticks = 0
    for number in (process, *children(process)):
        with contextlib.suppress(FileNotFoundError):   # it has just ended
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swift", default="swift", help="the program that builds them")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", action="append", choices=MEASURES, help="one of the parts; may be repeated")
    parser.add_argument("--binaries", type=Path, help="the folder of the programs; without it they are built")
    options = parser.parse_args()
    leave_when_told()
    need(("wrk", "wrk"), ("git", "git"))
    raise_files()
    binaries = (options.binaries or build(options.swift)).resolve()
    with tempfile.TemporaryDirectory(prefix="campanile-parts-", dir=PROJECT / ".build") as folder:
        parts = Parts(binaries, Path(folder), options.rounds)
        print("| part and measure | with | without | with / without |\n|---|---|---|---|", flush=True)
        for name in options.only or MEASURES:
            getattr(parts, name)()


if __name__ == "__main__":
    try:
        main()
    except (BenchError, HarnessError) as problem:
        sys.exit(f"parts: {problem}")
