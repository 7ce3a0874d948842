"""Realtime: what streams cost and how fast they are, beside nchan (nginx), in one run and in turns.

- idle: memory of an idle stream at 9,000 connections, processor time of one a second; also with 8 KB of request headers;
- fanout: one change of the badge to 5,000 subscribers of one user, from the request until the last has it;
- latency: 200 changes a second to random ones of 1,000 connected users, from the moment each was to be sent until its page has it;
- cable: memory and processor time of an idle ActionCable connection;
- subscriptions: the same with many subscriptions;
- broadcast: an app's own broadcasts to 5,000 WebSockets of one stream, also beside uWebSockets.

Ends with 1 when a figure misses what it must be, with 2 when something doesn't work. See README.md.
"""

import argparse
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.load import HERE, BenchError
from bench.processes import run
from bench.stream_broadcasts import broadcast, subscriptions
from bench.stream_programs import (
    MODULE,
    NEEDED_FILES,
    Campanile,
    Nchan,
    StreamPrograms,
    Subscribers,
    cable_request,
    raise_files,
    stream_request,
    subscribe_frame,
)
from bench.table import Figures, Report, Row, machine_facts, percentile

PROJECT = HERE.parent
FEW_WORKERS, MANY_WORKERS = 1, 2   # of nginx: one takes less memory, two send faster
WARM_SECONDS = 2
POSTERS = 32                       # connections for POST in the latency measure
HEADER_BYTES = 8192


@dataclass
class Idle:
    """What one connection that waits costs."""

    pss: float          # bytes
    rss: float          # bytes
    cpu_us: float       # a second


class Bench:
    def __init__(self, options: argparse.Namespace, programs: StreamPrograms, report: Report):
        self.options, self.programs, self.report = options, programs, report
        self.nchan = not options.without_nchan
        # Each by the number of nginx' workers, which is nothing to Campanile.
        self.servers = {"campanile": lambda workers: programs.campanile()}
        if self.nchan:
            self.servers["nchan"] = programs.nchan

    def _against(self, text: str, *values: float) -> tuple[str, Figures]:
        """The reference and the ratio of a line; without nchan the figure alone."""
        return (f"nchan {text}", Figures([values[0] / values[1]])) if self.nchan else ("", Figures([values[0]]))

    # ---- idle ----

    def idle(self) -> None:
        count = self.options.connections
        own = [f"user-{number:06d}" for number in range(count)]
        long = [f"X-Long-{number}: {'x' * 2000}" for number in range(HEADER_BYTES // 2000)]
        few = min(count, 2000)
        for title, users, number, more, at_most in (
                ("memory of an idle stream, each of another user", own, count, None, 0.9),
                ("memory of an idle stream, all of one user", own[:1], count, None, None),
                (f"the same with {HEADER_BYTES // 1024} KB of request headers, each of another user", own[:few], few, long, None)):
            found = {name: self._idle(start(FEW_WORKERS), users, number, more) for name, start in self.servers.items()}
            prices = [found[name].pss for name in found]
            self.report.rows.append(Row(
                f"{title}, {number:,} connections", f"{prices[0]:,.0f} B", *self._against(f"{prices[-1]:,.0f} B", *prices),
                at_most=at_most if self.nchan else None,
                cpu=" / ".join(f"{one.cpu_us:.2f}" for one in found.values()) + " a second"))
            self._say(f"{title}: {found}")
        self.report.notes.append(
            f"idle: proportional set size of all processes of a server, after minus before, by the number of connections; the "
            f"kernel's socket buffers are in neither; nginx has {FEW_WORKERS} worker, which takes less than {MANY_WORKERS}, and "
            f"its table of connections is there before and so not counted; processor time over {self.options.idle_seconds} s, a "
            f"heartbeat every 20 s on both; heads of {self._head_bytes()} bytes; aim 0.5")
        self.report.notes.append(f"idle: both servers accept {HEADER_BYTES // 1024} KB of request headers: the third line")

    def _head_bytes(self) -> int:
        return len(stream_request("/badge/stream", self.programs.token("user-000000")))

    def _idle(self, server: Campanile | Nchan, users: list[str], count: int, more: list[str] | None) -> Idle:
        try:
            # What is made once, at the first connections, isn't a connection's price.
            with self.programs.listening(server, users[:50], min(50, count), more):
                pass
            before = server.settled_memory()
            with self.programs.listening(server, users, count, more) as subscribers:
                return self.price(server, subscribers, before, count)
        finally:
            server.stop()

    def price(self, server: Campanile | Nchan, subscribers: Subscribers, before: tuple[int, int], count: int) -> Idle:
        after, used = server.settled_memory(), server.cpu_seconds()
        time.sleep(self.options.idle_seconds)
        used = server.cpu_seconds() - used
        subscribers.state()   # nobody may have been closed meanwhile
        return Idle((after[0] - before[0]) / count, (after[1] - before[1]) / count,
                    used * 1e6 / count / self.options.idle_seconds)

    # ---- fan-out ----

    def fanout(self) -> None:
        count, user = self.options.subscribers, "user-000000"
        servers = {name: start(MANY_WORKERS) for name, start in self.servers.items()}
        listening: dict[str, Subscribers] = {}
        found: dict[str, list[dict]] = {name: [] for name in servers}
        used: dict[str, float] = dict.fromkeys(servers, 0.0)
        try:
            for name, server in servers.items():
                listening[name] = self.programs.listening(server, [user], count)
            read = sum(one.cpu_seconds() for one in listening.values())
            for number in range(self.options.rounds + 1):
                for name in sorted(servers, reverse=number % 2 == 1):
                    before = servers[name].cpu_seconds()
                    answer = self._round(servers[name], listening[name], user, number + 1)
                    time.sleep(0.2)   # what the server owes after it, and what its neighbour may coalesce with
                    if number:        # the first warms up
                        found[name].append(answer)
                        used[name] += servers[name].cpu_seconds() - before
            read = sum(one.cpu_seconds() for one in listening.values()) - read
        finally:
            for one in listening.values():
                one.__exit__()
            for server in servers.values():
                server.stop()
        self._tell_fanout(found, used, read / (count * len(servers) * (self.options.rounds + 1)))

    def _round(self, server: Campanile | Nchan, subscribers: Subscribers, user: str, number: int) -> dict:
        file = self.programs.folder / "change.request"
        file.write_bytes(server.change_request(user, number))
        answer = subscribers.ask(f"round {file}")
        if answer["received"] != subscribers.count or answer["closed"]:
            raise BenchError(f"{server.label}: of {subscribers.count} subscribers only {answer['received']} received the change, "
                             f"{answer['closed']} were closed")
        return answer

    def _tell_fanout(self, found: dict[str, list[dict]], used: dict[str, float], read: float) -> None:
        count, rounds = self.options.subscribers, self.options.rounds
        def rates(name: str, start: str) -> Figures:
            return Figures([count * 1e9 / (one["last"] - one[start]) for one in found[name]])
        for title, start, at_least in (("from POST to the last", "sent", 1.0), ("from the first to the last", "first", None)):
            ours, theirs = (rates(name, start) for name in ("campanile", list(found)[-1]))
            # Neighbouring rounds are compared, so that a slow moment of the machine hits both.
            ratios = Figures([a / b for a, b in zip(ours.values, theirs.values)])
            self.report.rows.append(Row(
                f"one change to {count:,} subscribers, {title}", ours.text(0, "/s"),
                "nchan " + theirs.text(0, "/s") if self.nchan else "", ratios, at_least=at_least if self.nchan else None,
                cpu=" / ".join(f"{seconds * 1e6 / count / rounds:.1f}" for seconds in used.values()) + " a delivery"))
        durable = Figures([(one["first"] - one["sent"]) / 1e6 for one in found["campanile"]])
        self.report.notes.append(
            f"fan-out: campanile's POST is a notification that is durable (fsync) before anybody hears of it: {durable.text(1, ' ms')} "
            f"from the POST to the first delivery, which the second line leaves out; nchan keeps its messages in memory, and nginx "
            f"has {MANY_WORKERS} workers, which together send faster than {FEW_WORKERS}")
        self.report.notes.append(
            f"fan-out: the receiver takes {read * 1e6:.1f} µs of processor time a delivery, opening included; "
            f"{self._bare(count).text(0, '/s')} is what it receives from a bare C loop of one thread that only calls send")

    def _bare(self, count: int) -> Figures:
        """The receiver held against the barest sender, to show that it isn't what is measured."""
        with self.programs.bare_sender(count, 110) as port:
            with Subscribers(self.programs, port, count, [stream_request("/", "none")]) as subscribers:
                file = self.programs.folder / "change.request"
                file.write_bytes(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
                answers = [subscribers.ask(f"round {file}") for _ in range(self.options.rounds)]
        return Figures([count * 1e9 / (one["last"] - one["sent"]) for one in answers])

    # ---- latency ----

    def latency(self) -> None:
        rate, seconds, count = self.options.rate, self.options.seconds, self.options.pages
        users = [f"user-{number:06d}" for number in range(count)]
        choose = random.Random(4711)
        who = [choose.randrange(count) for _ in range(rate * (seconds + WARM_SECONDS))]
        found = {name: self._paced(start(MANY_WORKERS), users, who) for name, start in self.servers.items()}
        for share, at_most in ((0.5, None), (0.99, 50)):
            ours, theirs = (percentile(found[name]["seen"], share) / 1e3 for name in ("campanile", list(found)[-1]))
            answered = percentile(found["campanile"]["answered"], share) / 1e3
            self.report.rows.append(Row(
                f"POST to page, {rate}/s at {count:,} connections, p{share * 100:g}", f"POST answered after {answered:.1f} ms",
                f"nchan {theirs:.1f} ms" if self.nchan else "", Figures([ours]), 1, " ms", at_most=at_most))
        self.report.notes.append(
            f"latency: {rate * seconds:,} POST in {seconds} s after {WARM_SECONDS} s of warming up, one user a connection, from the "
            "moment each was to be sent; longest: " + ", ".join(f"{name} {one['seen'][-1] / 1e3:.1f} ms" for name, one in found.items())
            + "; campanile's are durable")

    def _paced(self, server: Campanile | Nchan, users: list[str], who: list[int]) -> dict:
        counts, requests, targets = [0] * len(users), [], []
        for number in who:
            counts[number] += 1
            requests.append(server.change_request(users[number], counts[number]) + b"\0")
            targets.append(f"{number} {counts[number]}\n")
        posts, goals = self.programs.folder / "paced.requests", self.programs.folder / "paced.targets"
        posts.write_bytes(b"".join(requests))
        goals.write_text("".join(targets))
        try:
            with self.programs.listening(server, users, len(users)) as subscribers:
                server.wait_until_quiet()
                answer = subscribers.ask(f"paced {self.options.rate} {self.options.rate * WARM_SECONDS} {POSTERS} {posts} {goals}")
        finally:
            server.stop()
        if answer["missing"] or answer["closed"]:
            raise BenchError(f"{server.label}: {answer['missing']} changes were never seen, {answer['closed']} streams closed")
        return {name: sorted(answer[name]) for name in ("seen", "answered")}

    # ---- cable ----

    def cable(self) -> None:
        count = self.options.cables
        users = [f"user-{number:06d}" for number in range(count)]
        server = self.programs.campanile()
        try:
            with self._cables(server, users[:50]):
                pass
            before = server.settled_memory()
            with self._cables(server, users) as subscribers:
                price = self.price(server, subscribers, before, count)
        finally:
            server.stop()
        self.report.rows.append(Row(f"memory of an idle cable connection, {count:,} connections", "", "", Figures([price.pss]), 0, " B",
                                    cpu=f"{price.cpu_us:.2f} a second"))
        self.report.notes.append("cable: subscribed to NotificationsChannel, each of another user; a ping every 3 s, as the protocol wants")

    def _cables(self, server: Campanile, users: list[str]) -> Subscribers:
        file, frame = self.programs.folder / "subscribe.frames", subscribe_frame()
        file.write_bytes(len(frame).to_bytes(4, "little") + frame)
        requests = [cable_request(self.programs.token(user)) for user in users]
        return Subscribers(self.programs, server.port, len(users), requests, "--socket", "1", "--subscribe", str(file))

    @staticmethod
    def _say(text: str) -> None:
        print(f"streams: {text}", file=sys.stderr, flush=True)


MEASURES = {"idle": Bench.idle, "fanout": Bench.fanout, "latency": Bench.latency, "cable": Bench.cable,
            "subscriptions": subscriptions, "broadcast": broadcast}
SHORT = {"connections": 200, "idle_seconds": 1, "subscribers": 200, "rounds": 2, "pages": 50, "rate": 50, "seconds": 2, "cables": 100}
USUAL = {"connections": 9000, "idle_seconds": 30, "subscribers": 5000, "rounds": 20, "pages": 1000, "rate": 200, "seconds": 30,
         "cables": 2000}
WORDS = {"connections": "idle: streams", "idle_seconds": "idle, cable: how long they are watched", "subscribers": "fanout, broadcast: subscribers",
         "rounds": "fanout, broadcast: rounds", "pages": "latency: streams", "rate": "latency: POST a second", "seconds": "latency: how long",
         "cables": "cable, subscriptions: connections"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="campanile's program (default: .build/release/campanile, with --short .build/debug)")
    parser.add_argument("--only", action="append", choices=sorted(MEASURES), metavar="NAME", help=f"only this measure; may be repeated: {', '.join(MEASURES)}")
    for name, words in WORDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"{words} (default {USUAL[name]:,})")
    parser.add_argument("--without-nchan", action="store_true", help="leave nchan out; --short does so where it isn't installed")
    parser.add_argument("--without-uwebsockets", action="store_true", help="leave uWebSockets out: nothing comes from PyPI; --short does so")
    parser.add_argument("--venv", type=Path, default=PROJECT / ".build" / "bench-sockets-venv", help="where socketify is (default .build/bench-sockets-venv)")
    parser.add_argument("--short", action="store_true", help="small and quick: shows that everything runs; no figure is judged")
    parser.add_argument("--results", type=Path, default=HERE / "results-streams.md", help="where the table is written (default bench/results-streams.md)")
    parser.add_argument("--work", type=Path, default=PROJECT / ".build", help="databases are made in a folder in here, and removed (default .build)")
    parser.add_argument("--log", type=Path, help="append the programs' log lines to this file (default: they are thrown away)")
    options = parser.parse_args()
    for name, value in (SHORT if options.short else USUAL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.without_uwebsockets = options.without_uwebsockets or options.short
    options.without_nchan = options.without_nchan or (options.short and not MODULE.exists())
    return options


def measure(options: argparse.Namespace, folder: Path) -> int:
    if raise_files() < NEEDED_FILES and not options.short:
        raise BenchError(f"at least {NEEDED_FILES:,} open files must be allowed: ulimit -Hn {NEEDED_FILES}")
    started, facts, report = time.monotonic(), machine_facts(folder), Report()
    bench = Bench(options, StreamPrograms(options.binary.resolve(), folder, options.log and options.log.resolve()), report)
    for name in options.only or MEASURES:
        print(f"streams: {name} …", file=sys.stderr, flush=True)
        MEASURES[name](bench)
    facts.append(f"beside {bench.programs.nchan_version() if bench.nchan else 'nothing'}; whole run {time.monotonic() - started:.0f} s")
    return report.publish("Benchmark of streams", facts, options.results, judged=not options.short)


def main() -> int:
    options = arguments()
    nchan = () if options.without_nchan else (("nginx", "nginx libnginx-mod-nchan"),)
    return run("streams", options, measure, *nchan)


if __name__ == "__main__":
    sys.exit(main())
