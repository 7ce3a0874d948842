"""The far measures of cluster.py: a node whose database is some milliseconds away, and one whose database says nothing for a while."""
from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from bench.cluster_scene import Scene
from bench.load import HERE, BenchError, Load, request, write_requests
from bench.stream_programs import stream_request
from bench.table import Figures, Report, Row
from e2e.harness import c_compiler, children, free_port

CONNECTIONS = 16             # with which a node reads: PostgresOptions.readConnections
FEW, MANY = 8, (32, 64)      # of wrk
MILLISECONDS = (0, 0.5, 2)   # each way
SILENCE_SECONDS = 25         # longer than the longest time between two heartbeats of a stream
HEARTBEAT_SECONDS = 20
DEADLINE_SECONDS = 2.0       # database_read_timeout


class Relay:
    """The program of relay.c before a server; `with` ends it."""

    def __init__(self, folder: Path, host: str, port: int, milliseconds: float) -> None:
        binary = folder / "relay"
        if not binary.exists():
            done = subprocess.run([c_compiler(), "-O2", "-std=gnu11", "-o", str(binary), str(HERE / "relay.c")], capture_output=True, text=True)
            if done.returncode:
                raise BenchError(f"relay.c doesn't compile:\n{done.stderr}")
        self.port = free_port()
        self.process = subprocess.Popen([str(binary), str(self.port), host, str(port), str(round(milliseconds * 1000))], stdout=subprocess.PIPE,
                                        text=True)
        children.append(self.process)
        wait_until_open(self.port)

    def hold(self) -> None:
        """Nothing gets through, and nothing is lost."""
        self.process.send_signal(signal.SIGSTOP)

    def let_go(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """Ends it. Returns how often was asked."""
        self.let_go()
        self.process.terminate()
        return int(self.process.communicate(timeout=10)[0])

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def wait_until_open(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise BenchError(f"nobody listens at port {port}")


def far(scene: Scene, report: Report, names: list[str], rounds: int, seconds: int) -> None:
    """Badge reads over a line that takes time. The bound: as many reads at once as there are connections, and each takes its round trips."""
    scene.synchronous(False)
    requests = write_requests(scene.folder / "far.requests", [request("GET", "/badge", scene.programs.token(user)) for user in names])
    found = {milliseconds: _rates(scene, requests, milliseconds, rounds, seconds) for milliseconds in MILLISECONDS}
    near, trips = found[0][0], found[0][1]
    for milliseconds in MILLISECONDS:
        for connections, measured in found[milliseconds][0].items():
            base = Figures([load.per_second for load in near[connections]]).median
            if milliseconds == 0:
                bound, words = base, "the same line"
            elif connections < CONNECTIONS:
                bound = connections / (trips * 2 * milliseconds / 1000 + connections / base)
                words = f"bound {bound:.0f}/s"
            else:
                bound = min(base, CONNECTIONS / (trips * 2 * milliseconds / 1000))
                words = f"bound {bound:.0f}/s"
            report.rows.append(Row(
                f"GET /badge, 1 node, database {milliseconds:g} ms away each way, {connections} connections",
                Figures([load.per_second for load in measured]).text(0, "/s"), words, Figures([load.per_second / bound for load in measured]),
                at_least=None if milliseconds == 0 else 0.8, cpu=f"{Figures([load.cpu_us for load in measured]).median:.1f}"))
    report.notes.append(f"far: a badge read makes {trips:.2f} round trips, counted by the relay; the bound is {CONNECTIONS} connections ÷ (round "
                        "trips × both ways), or what the relay at 0 ms gives, and below 16 connections those ÷ (that time + loopback's)")


def _rates(scene: Scene, requests: Path, milliseconds: float, rounds: int, seconds: int) -> tuple[dict[int, list[Load]], float]:
    with Relay(scene.folder, scene.primary.host, scene.primary.port, milliseconds) as relay:
        scene.start(1, relay.port)
        loads: dict[int, list[Load]] = {connections: [] for connections in (FEW, *MANY)}
        reads = 0.0
        for number in range(rounds + 1):
            for connections, measured in loads.items():
                load = scene.load(requests, connections, seconds)
                reads += load.per_second * seconds
                if number:      # the first warms up
                    measured.append(load)
        scene.stop()
        return loads, relay.end() / reads


def silent(scene: Scene, report: Report, names: list[str]) -> None:
    """The database says nothing while clients read, look whether the process lives, and listen."""
    scene.synchronous(False)
    with Relay(scene.folder, scene.primary.host, scene.primary.port, 0) as relay:
        node = scene.start(1, relay.port)[0]
        node.call("GET", "/badge", scene.programs.token(names[0]))
        streams = [_listen(node.port, scene.programs.token(user)) for user in names[:8]]
        relay.hold()
        began, results = time.monotonic(), _Silence(node.port, scene.programs.token(names[1]))
        threads = [threading.Thread(target=work) for work in [results.probe] + [results.read] * 16]
        for thread in threads:
            thread.start()
        beats = [_hears(stream, began + HEARTBEAT_SECONDS + 3) for stream in streams]
        time.sleep(max(0.0, began + SILENCE_SECONDS - time.monotonic()))
        results.is_over.set()
        for thread in threads:
            thread.join()
        relay.let_go()
        back = time.monotonic()
        _all_is_right(node.port, scene, names[2])
        took = time.monotonic() - back
        for stream in streams:
            stream.close()
        scene.stop()
    if results.other or not results.refused:
        raise BenchError(f"while the database said nothing, reads were answered {results.other[:5]}, and 503 {len(results.refused)} times")
    rows = [("/healthz, the longest", [1000 * max(results.alive)], 50.0, " ms"),
            ("a read's 503, the longest", [max(results.refused)], DEADLINE_SECONDS + 0.5, " s"),
            ("heartbeats that streams missed", [float(beats.count(False))], 0.0, ""), ("until all is right after it", [took], 3.0, " s")]
    for words, value, at_most, unit in rows:
        report.rows.append(Row(f"the database says nothing for {SILENCE_SECONDS} s: {words}", "", "", Figures(value), 1, unit, at_most=at_most))
    report.notes.append(f"silent: {len(results.alive):,} answers of /healthz beside 16 clients that read, {len(results.refused):,} reads answered "
                        f"503 after {min(results.refused):.1f} to {max(results.refused):.1f} s, whose deadline is {DEADLINE_SECONDS:g} s; "
                        f"{len(streams)} open streams")


class _Silence:
    """What clients are answered meanwhile."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token, self.is_over = port, token, threading.Event()
        self.alive: list[float] = []         # seconds
        self.refused: list[float] = []
        self.other: list[int] = []

    def _ask(self, target: str) -> tuple[int, float]:
        """The status, 0 for no answer, and the seconds until then."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        start = time.monotonic()
        try:
            link.request("GET", target, headers={"Authorization": f"Bearer {self.token}"} if target == "/badge" else {})
            answer = link.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return 0, time.monotonic() - start
        finally:
            link.close()
        return answer.status, time.monotonic() - start

    def probe(self) -> None:
        while not self.is_over.wait(0.02):
            status, took = self._ask("/healthz")
            if status == 200:
                self.alive.append(took)
            else:
                self.other.append(status)

    def read(self) -> None:
        while not self.is_over.is_set():
            status, took = self._ask("/badge")
            if status == 503:
                self.refused.append(took)
            else:
                self.other.append(status)


def _listen(port: int, token: str) -> socket.socket:
    """An open stream that has told its first badge."""
    link = socket.create_connection(("127.0.0.1", port), 10)
    link.sendall(stream_request("/badge/stream", token))
    text = b""
    while b"event: badge" not in text:
        more = link.recv(65536)
        if not more:
            raise BenchError(f"a stream ended: {text[:300]!r}")
        text += more
    return link


def _hears(link: socket.socket, deadline: float) -> bool:
    """Whether the stream says anything by then, and stays open."""
    link.settimeout(max(0.01, deadline - time.monotonic()))
    try:
        return bool(link.recv(65536))
    except TimeoutError:
        return False


def _all_is_right(port: int, scene: Scene, user: str) -> None:
    """Until a read, a create and a stream that opens are answered, one after the other."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            node = scene.nodes[0]
            node.call("GET", "/badge", scene.programs.token(user))
            node.call("POST", "/notifications", scene.key, b'{"user_id": "%s", "title": "Back"}' % user.encode())
            _listen(port, scene.programs.token(user)).close()
            return
        except (BenchError, OSError):
            time.sleep(0.02)
    raise BenchError("a minute after the database came back not all was right")
