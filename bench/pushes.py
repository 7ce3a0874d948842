"""Pushes: how many a second, how soon after they are accepted, and in how much memory, against `campanile simulator`.

- throughput: alerts owed to distinct device tokens, claimed, sent over TLS and settled; beside h2load (one connection, 500
  streams) and aioapns (500 at once) against the same simulator in its fast mode, in turns;
- latency: POST /notifications at a fixed rate, from the moment the request is sent to the moment its push arrives;
- memory: resident memory of the server while a million alerts are owed.

Ends with 1 when a figure misses what it must be, with 2 when something doesn't work. See README.md.
"""

import argparse
import asyncio
import datetime
import http.client
import json
import secrets
import sys
import time
from pathlib import Path

from bench.load import HERE, BenchError, request
from bench.processes import run
from bench.push_programs import BODY, TITLE, PushPrograms, Simulator, accepted, left
from bench.push_senders import Posted, Sent, aioapns, h2load, post_paced
from bench.table import Figures, Report, Row, machine_facts, percentile
from e2e.harness import user_token

PROJECT = HERE.parent
MAY_TAKE_SECONDS = 600
COUNTED_MILLISECONDS = 1   # the simulator notes whole milliseconds, rounded down: its moments count as that much later


class Bench:
    def __init__(self, options: argparse.Namespace, programs: PushPrograms, report: Report):
        self.options, self.programs, self.report = options, programs, report

    # ---- throughput ----

    def throughput(self) -> None:
        count, rounds = self.options.deliveries, self.options.rounds
        with_aioapns = not self.options.without_aioapns
        python = self.programs.aioapns(self.options.venv) if with_aioapns else None
        self.programs.simulator("--fast").stop()   # makes the keys
        owing = self.programs.owing("owing.sqlite", count)
        senders = {"campanile": lambda simulator: self._drain(owing, simulator, count),
                   "h2load": lambda simulator: self._h2load(simulator, count)}
        if python:
            senders["aioapns"] = lambda simulator: aioapns(self.programs, simulator, python, count)
        found: dict[str, list[Sent]] = {name: [] for name in senders}
        for number in range(rounds):
            turn = number % len(senders)
            for name in list(senders)[turn:] + list(senders)[:turn]:
                # A new one for each: its key's team may renew its token only every 20 minutes. None is strict, as aioapns
                # names no protocol in TLS.
                simulator = self.programs.simulator("--fast")
                try:
                    found[name].append(senders[name](simulator))
                finally:
                    simulator.stop()
                print(f"pushes: round {number + 1}, {name}: {found[name][-1].per_second:,.0f}/s", file=sys.stderr, flush=True)
        self._compare(found, "aioapns", at_least=8)
        self._compare(found, "h2load", at_least=None)
        self.report.notes += [f"throughput, {name}: {sent[-1].note}" for name, sent in found.items() if sent[-1].note]
        self.report.notes.append(f"{count:,} alerts a round; campanile's include claiming and settling in SQLite with "
                                 "synchronous=FULL, from the first push that arrives until the last is settled; aims: "
                                 "15 × aioapns, 0.2 of h2load")

    def _compare(self, found: dict[str, list[Sent]], other: str, at_least: float | None) -> None:
        if other not in found:
            return
        ours, theirs = found["campanile"], found[other]
        figure = Figures([a.per_second / b.per_second for a, b in zip(ours, theirs)])
        self.report.rows.append(Row(
            f"pushes, against {other}", Figures([one.per_second for one in ours]).text(0, "/s"),
            f"{other} " + Figures([one.per_second for one in theirs]).text(0, "/s"), figure, at_least=at_least,
            cpu=f"{Figures([one.cpu_us for one in ours]).median:.1f} / "
                + (f"{Figures([one.cpu_us for one in theirs]).median:.1f}" if theirs[0].cpu_us else "–")))

    def _drain(self, owing: Path, simulator: Simulator, count: int) -> Sent:
        """Starts a server on a copy of the database and waits until everything is settled."""
        database = self.programs.copy(owing, "drained.sqlite")
        server = self.programs.server(database, simulator)
        try:
            link, deadline = simulator.link(), time.monotonic() + MAY_TAKE_SECONDS
            before = 0
            while not before:
                before = simulator.counters(link)["accepted"]
                if time.monotonic() > deadline:
                    raise BenchError("nothing was pushed")
            start, used = time.perf_counter(), server.cpu_seconds()
            # The database is asked only at the end: looking for what is left costs the more the less that is, on the
            # processors that send.
            while simulator.counters(link)["accepted"] < count or left(database):
                if time.monotonic() > deadline:
                    raise BenchError(f"{count:,} pushes took more than {MAY_TAKE_SECONDS} s")
                time.sleep(0.01)
            seconds, used = time.perf_counter() - start, server.cpu_seconds() - used
        finally:
            server.stop()
        counters = simulator.counters()
        self._must_be_right(database, counters, count)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{database}{suffix}").unlink(missing_ok=True)
        if before == count and not self.options.short:
            raise BenchError("all was sent before anybody looked")
        timed = max(1, count - before)
        return Sent(timed / seconds, used * 1e6 / timed,
                    note=f"over {counters['connections']} connection{'s' * (counters['connections'] > 1)}, "
                         f"{counters['stream_limit_violations']} streams above the limit")

    def _h2load(self, simulator: Simulator, count: int) -> Sent:
        sent = h2load(self.programs, simulator, count)
        if simulator.counters()["distinct_paths"] < count * 0.9:
            raise BenchError("h2load didn't send each request to a path of its own")
        return sent

    @staticmethod
    def _must_be_right(database: Path, counters: dict, count: int) -> None:
        if (accepted(database), counters["accepted"], counters["distinct_paths"]) != (count, count, count):
            raise BenchError(f"{accepted(database)} of {count} deliveries accepted, {counters['accepted']} pushes arrived, "
                             f"to {counters['distinct_paths']} devices")

    @staticmethod
    def _wait_for(simulator: Simulator, count: int) -> int:
        """Until so many pushes have arrived, and how many there are."""
        deadline = time.monotonic() + MAY_TAKE_SECONDS
        while (arrived := simulator.counters()["accepted"]) < count:
            if time.monotonic() > deadline:
                raise BenchError(f"of {count:,} pushes {arrived:,} arrived within {MAY_TAKE_SECONDS} s")
            time.sleep(0.05)
        return arrived

    # ---- latency ----

    def latency(self) -> None:
        rate, seconds = self.options.rate, self.options.seconds
        record = self.programs.folder / "requests.jsonl"
        simulator = self.programs.simulator("--strict", "--record", str(record))
        database = self.programs.folder / "latency.sqlite"
        key = self.programs.command("keys", "create", f"bench-{secrets.token_hex(4)}", "--database", str(database))
        server = self.programs.server(database, simulator)
        try:
            names = [f"user-{number:06d}" for number in range(min(2000, rate * seconds))]
            self._register(server.port, names)
            contents = [request("POST", "/notifications", key, json.dumps(
                {"user_id": names[number % len(names)], "title": TITLE, "body": BODY}).encode())
                for number in range(rate * (seconds + 2))]
            posted = asyncio.run(post_paced(server.port, contents, rate, is_judged=not self.options.short))
            self._wait_for(simulator, len(posted))
        finally:
            server.stop()
            simulator.stop()
        self._tell_latency(posted, self._arrived(record), rate, seconds)

    def _tell_latency(self, posted: dict[str, Posted], arrived: dict[str, float], rate: int, seconds: int) -> None:
        missing = len(posted.keys() - arrived.keys())
        if missing:
            raise BenchError(f"{missing} of {len(posted):,} pushes didn't arrive")
        warm = min(one.sent for one in posted.values()) + 2   # the connection is opened and raised in the first two seconds
        measured = {name: one for name, one in posted.items() if one.sent >= warm}
        from_sent = sorted((arrived[name] - one.sent) * 1e3 for name, one in measured.items())
        from_answer = sorted((arrived[name] - one.answered) * 1e3 for name, one in measured.items())
        answers = sorted((one.answered - one.sent) * 1e3 for one in measured.values())
        for share, at_most in ((0.5, 10), (0.99, 50)):
            self.report.rows.append(Row(
                f"POST sent to push received, {rate}/s, p{share * 100:g}", f"from the answer {percentile(from_answer, share):.1f} ms",
                f"POST answered after {percentile(answers, share):.1f} ms", Figures([percentile(from_sent, share)]), 1, " ms",
                at_most=at_most))
        self.report.notes.append(
            f"latency: {len(measured):,} POST in {seconds} s after 2 s of warming up, from the moment the request is written, by "
            f"one clock; {COUNTED_MILLISECONDS} ms is added because the simulator notes whole milliseconds; longest "
            f"{from_sent[-1]:.1f} ms; a push may arrive before its POST is answered")

    def _register(self, port: int, names: list[str]) -> None:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for name in names:
            link.request("POST", "/device_tokens", json.dumps({"token": secrets.token_hex(32), "platform": "ios"}),
                         {"Content-Type": "application/json", "Authorization": f"Bearer {user_token(self.programs.secret, name)}"})
            answer = link.getresponse()
            answer.read()
            if answer.status != 201:
                raise BenchError(f"POST /device_tokens → {answer.status}")
        link.close()

    @staticmethod
    def _arrived(record: Path) -> dict[str, float]:
        """Notification → when its first push came, in seconds since 1970."""
        found: dict[str, float] = {}
        with record.open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if row["service"] == "apns" and row["status"] == 200:
                    at = datetime.datetime.fromisoformat(row["at"]).timestamp()
                    found.setdefault(json.loads(row["payload"]).get("id", ""), at + COUNTED_MILLISECONDS / 1e3)
        return found

    # ---- memory ----

    def memory(self) -> None:
        count, seconds = self.options.backlog, self.options.memory_seconds
        simulator = self.programs.simulator("--fast", "--strict")
        database = self.programs.owing("backlog.sqlite", count)
        server = self.programs.server(database, simulator)
        try:
            deadline, largest, own = time.monotonic() + seconds, 0.0, 0.0
            while time.monotonic() < deadline:
                memory = server.memory_mib()
                largest, own = max(largest, memory["resident"]), max(own, memory["anonymous"])
                time.sleep(0.1)
            largest = max(largest, server.resident_mib(peak=True))
            pushed = self._wait_for(simulator, 1)
        finally:
            server.stop()
            simulator.stop()
        self.report.rows.append(Row(
            f"resident memory with {count:,} alerts owed, at most", f"{pushed:,} sent",
            f"of it anonymous {own:.1f} MiB", Figures([largest]), 1, " MiB", at_most=80))
        self.report.notes.append(f"memory: the database takes {database.stat().st_size >> 20} MiB; the peak is the kernel's (VmHWM)")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{database}{suffix}").unlink(missing_ok=True)


MEASURES = {"throughput": Bench.throughput, "latency": Bench.latency, "memory": Bench.memory}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="campanile's program (default: .build/release/campanile, with --short .build/debug)")
    parser.add_argument("--only", action="append", choices=sorted(MEASURES), metavar="NAME", help=f"only this measure; may be repeated: {', '.join(MEASURES)}")
    parser.add_argument("--rounds", type=int, help="throughput: rounds (default 5)")
    parser.add_argument("--deliveries", type=int, help="throughput: alerts in a round (default 20,000)")
    parser.add_argument("--rate", type=int, help="latency: POST a second (default 500)")
    parser.add_argument("--seconds", type=int, help="latency: how long (default 20)")
    parser.add_argument("--backlog", type=int, help="memory: alerts owed (default 1,000,000)")
    parser.add_argument("--memory-seconds", type=int, help="memory: how long it is watched (default 60)")
    parser.add_argument("--without-aioapns", action="store_true", help="leave aioapns out: nothing comes from PyPI")
    parser.add_argument("--short", action="store_true", help="small and quick: shows that everything runs; no figure is judged")
    parser.add_argument("--results", type=Path, default=HERE / "push-results.md", help="where the table is written (default bench/push-results.md)")
    parser.add_argument("--work", type=Path, default=PROJECT / ".build", help="databases are made in a folder in here, and removed (default .build)")
    parser.add_argument("--venv", type=Path, default=PROJECT / ".build" / "bench-venv", help="where aioapns is installed (default .build/bench-venv)")
    parser.add_argument("--log", type=Path, help="append the programs' log lines to this file (default: they are thrown away)")
    options = parser.parse_args()
    short = {"rounds": 1, "deliveries": 1000, "rate": 100, "seconds": 2, "backlog": 5000, "memory_seconds": 2}
    usual = {"rounds": 5, "deliveries": 20_000, "rate": 500, "seconds": 20, "backlog": 1_000_000, "memory_seconds": 60}
    for name, value in (short if options.short else usual).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.without_aioapns = options.without_aioapns or options.short
    return options


def measure(options: argparse.Namespace, folder: Path) -> int:
    started, facts, report = time.monotonic(), machine_facts(folder), Report()
    bench = Bench(options, PushPrograms(options.binary.resolve(), folder, options.log and options.log.resolve()), report)
    for name in options.only or MEASURES:
        print(f"pushes: {name} …", file=sys.stderr, flush=True)
        MEASURES[name](bench)
    facts.append(f"campanile simulator stands for APNs, on the same machine; whole run {time.monotonic() - started:.0f} s")
    return report.publish("Benchmark of pushes", facts, options.results, judged=not options.short)


def main() -> int:
    return run("pushes", arguments(), measure, ("h2load", "nghttp2-client"), ("openssl", "openssl"))


if __name__ == "__main__":
    sys.exit(main())
