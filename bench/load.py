"""Load: prepared requests, wrk, interleaved rounds, and the probe of the disk."""

import json
import os
import resource
import select
import socket
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from e2e.harness import HarnessError

HERE = Path(__file__).resolve().parent
HOTWIRE = "Shop/1.0 Hotwire Native iOS; Turbo Native iOS; bridge-components: [badge]"
BROWSER = ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
           "Chrome/130.0.0.0 Safari/537.36")


class BenchError(HarnessError):
    """The benchmark can't go on; the text says why."""


def request(method: str, target: str, authorization: str | None = None, body: bytes | None = None, agent: str = BROWSER,
            idempotency_key: str | None = None) -> bytes:
    """A whole HTTP/1.1 request as a browser would send it."""
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", f"User-Agent: {agent}", "Accept: application/json"]
    if authorization:
        lines.append(f"Authorization: Bearer {authorization}")
    if idempotency_key:
        lines.append(f"Idempotency-Key: {idempotency_key}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def write_requests(path: Path, requests: list[bytes]) -> Path:
    path.write_bytes(b"".join(r + b"\0" for r in requests))
    return path


def at_once(port: int, requests: list[bytes]) -> float:
    """Sends each request over a connection of its own, all at the same time; milliseconds from before the first connects until
    the last answer is there. An answer that isn't 200 is a BenchError."""
    start = time.perf_counter()
    links = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in requests]
    try:
        for link, one in zip(links, requests):
            link.sendall(one)
        waiting, answers = {link: b"" for link in links}, []
        while waiting:
            for link in select.select(list(waiting), [], [], 10)[0] or [None]:
                if link is None:
                    raise BenchError("a request of several at once had no answer after 10 s")
                more = link.recv(65536)
                waiting[link] += more
                head, _, body = waiting[link].partition(b"\r\n\r\n")
                length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), None)
                if not more or length is not None and len(body) >= length:
                    answers.append(waiting.pop(link))
        took = (time.perf_counter() - start) * 1e3
    finally:
        for link in links:
            link.close()
    for answer in answers:
        if not answer.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"one request of several at once was answered {answer[:100]!r}")
    return took


@dataclass
class Target:
    """What one server is asked in one measure."""

    label: str
    server: "object"  # processes.Server
    requests: Path
    connections: int


@dataclass
class Load:
    """One round of one server."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float       # the server's processor time for one request
    client_share: float  # of one core, taken by wrk
    others_share: float  # of one core, taken by programs that have no part in the round


def machine_cpu_seconds() -> float:
    """Processor time of everything on the machine since its start: user, nice, system, interrupts."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(int(fields[number]) for number in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")


def run_wrk(target: Target, seconds: int, client_cpus: set[int] | None, start: int = 0) -> Load:
    """Loads a server for `seconds`, beginning at one of the requests. A single refused or broken request makes the round worthless: BenchError."""
    command = ["wrk", "-t1", f"-c{target.connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(HERE / "replay.lua"),
               f"http://127.0.0.1:{target.server.port}", "--", str(target.requests), str(start)]
    bind = (lambda: os.sched_setaffinity(0, client_cpus)) if client_cpus else None
    machine, before, client = machine_cpu_seconds(), target.server.cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, preexec_fn=bind)
    used, client_after = target.server.cpu_seconds() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    machine_used = machine_cpu_seconds() - machine
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise BenchError(f"wrk against {target.label} failed: {done.stderr.strip() or done.stdout.strip()}")
    figures = json.loads(lines[-1])
    if figures["refused"] or figures["broken"] or figures["timeouts"] or not figures["requests"]:
        raise BenchError(f"{target.label}: not every request was answered with success: {figures}")
    elapsed = figures["microseconds"] / 1e6
    client_used = (client_after.ru_utime + client_after.ru_stime) - (client.ru_utime + client.ru_stime)
    return Load(figures["requests"] / elapsed, figures["p50"] / 1e3, figures["p99"] / 1e3,
                used * 1e6 / figures["requests"], client_used / elapsed, max(0.0, machine_used - used - client_used) / elapsed)


def interleave(targets: list[Target], rounds: int, seconds: int, client_cpus: set[int] | None,
               each_round=lambda number: None, after=lambda target: None, warm_up: bool = True) -> dict[str, list[Load]]:
    """Rounds in which every target is loaded once, in turning order, so that the machine's moods hit all alike."""
    if warm_up:
        for target in targets:
            run_wrk(target, 1, client_cpus)
            after(target)
    loads: dict[str, list[Load]] = {target.label: [] for target in targets}
    for number in range(rounds):
        each_round(number)
        turn = number % len(targets)
        for target in targets[turn:] + targets[:turn]:
            loads[target.label].append(run_wrk(target, seconds, client_cpus))
            after(target)
    return loads


def probe(folder: Path, count: int = 100, at_most_seconds: float = 1.5) -> float:
    """The disk's honest price: p50 in ms of appending 4 KiB and fdatasync, beside the databases."""
    path, block, taken = folder / "probe", b"\xa5" * 4096, []
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        end = time.monotonic() + at_most_seconds
        while len(taken) < count and (time.monotonic() < end or len(taken) < 5):
            start = time.perf_counter_ns()
            os.write(descriptor, block)
            os.fdatasync(descriptor)
            taken.append((time.perf_counter_ns() - start) / 1e6)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(taken)
