"""The servers as child processes: started on free ports, measured through /proc, killed in every case; and the run of a whole benchmark."""

import argparse
import http.client
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.load import HERE, BenchError
from e2e.harness import HarnessError, c_compiler, children, free_port, leave_when_told


def need(*programs: tuple[str, str]) -> None:
    """Every (program, Debian package) must be there; else one sentence names all that is missing."""
    missing = [package for program, package in programs if not shutil.which(program)]
    if missing:
        raise BenchError(f"missing programs: apt-get install {' '.join(sorted(set(missing)))}")


def run(name: str, options: argparse.Namespace, measure: Callable[[argparse.Namespace, Path], int], *programs: tuple[str, str]) -> int:
    """A benchmark from its arguments to its exit status, in a folder that is removed: the measure's own, 2 when something doesn't work."""
    options.binary = options.binary or HERE.parent / ".build" / ("debug" if options.short else "release") / "campanile"
    try:
        need(*programs)
        if not options.binary.is_file():
            raise BenchError(f"{options.binary} isn't there: swift build {'' if options.short else '-c release '}first, or name it with --binary")
        leave_when_told()
        options.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir=options.work.resolve(), ignore_cleanup_errors=True) as folder:
            return measure(options, Path(folder))
    except (HarnessError, OSError, subprocess.SubprocessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def virtual_environment(venv: Path, requirements: Path, without: str) -> Path:
    """The python of a virtual environment with what is required in it, made if it isn't there. `without`: the option that does without it."""
    python, stamp, wanted = venv / "bin" / "python", venv / "requirements.txt", requirements.read_text()
    if not python.exists() or not stamp.exists() or stamp.read_text() != wanted:
        for command in (["python3", "-m", "venv", "--clear", str(venv)],
                        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise BenchError(f"{' '.join(command)} failed ({without} does without it): {done.stderr.strip()[-500:]}")
        stamp.write_text(wanted)
    return python


def build_floor(folder: Path) -> Path:
    """Compiles the floor with the C compiler's full optimisation."""
    binary = folder / "floor"
    done = subprocess.run([c_compiler(), "-O3", "-std=gnu11", "-o", str(binary), str(HERE / "floor.c"),
                           "-lmicrohttpd", "-lsqlite3", "-lpthread"], capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"floor.c doesn't compile (apt-get install libmicrohttpd-dev libsqlite3-dev):\n{done.stderr}")
    return binary


class Server:
    """A running server. `start_ms` is the time from spawning to the first 200 on /healthz."""

    def __init__(self, label: str, command: list[str], port: int, environment: dict[str, str], folder: Path,
                 cpus: set[int] | None, log: Path | None, patience: float = 60):
        self.label, self.port = label, port
        output = open(log, "ab") if log else subprocess.DEVNULL
        bind = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
        start = time.perf_counter()
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                        stderr=output, preexec_fn=bind)
        children.append(self.process)
        if log:
            output.close()
        while not self._healthy():
            if self.process.poll() is not None:
                raise BenchError(f"{label} ended with {self.process.returncode} at its start; see it with --log FILE: "
                                 + " ".join(command))
            if time.perf_counter() - start > patience:
                self.kill()
                raise BenchError(f"{label} didn't answer /healthz within {patience:.0f} s")
            time.sleep(0.0005)
        self.start_ms = (time.perf_counter() - start) * 1e3

    def _healthy(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                return s.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    def cpu_seconds(self) -> float:
        """User and system time of all the server's threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self, peak: bool = False) -> float:
        """Resident memory: now, or the most since the start or since `forget_peak`."""
        wanted = "VmHWM:" if peak else "VmRSS:"
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(wanted):
                return int(line.split()[1]) / 1024
        raise BenchError(f"{self.label} has no {wanted[:-1]}")

    def memory_mib(self) -> dict[str, float]:
        """Resident, proportional and anonymous memory. Proportional: a page that several processes use is divided among them.
        Anonymous: what the program itself wrote; the other resident pages are files', which the system takes when it needs room."""
        names, found = {"Rss:": "resident", "Pss:": "proportional", "Anonymous:": "anonymous"}, {}
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
            name, *rest = line.split()
            if name in names:
                found[names[name]] = int(rest[0]) / 1024
        return found

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def wait_until_quiet(self, at_most_seconds: float = 20) -> float:
        """Waits until the server has caught up with what it still owes; seconds that took."""
        start = time.monotonic()
        while time.monotonic() - start < at_most_seconds:
            before = self.cpu_seconds()
            time.sleep(0.25)
            if self.cpu_seconds() - before < 0.02:
                break
        return time.monotonic() - start

    def call(self, method: str, target: str, authorization: str | None = None, body: bytes | None = None,
             connection: http.client.HTTPConnection | None = None, idempotency_key: str | None = None) -> bytes:
        """One request, answered with 2xx or BenchError."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if authorization:
            headers["Authorization"] = f"Bearer {authorization}"
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        link = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        link.request(method, target, body, headers)
        answer = link.getresponse()
        content = answer.read()
        if connection is None:
            link.close()
        if not 200 <= answer.status < 300:
            raise BenchError(f"{self.label}: {method} {target} → {answer.status} {content[:300]!r}")
        return content

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Programs:
    """How the two programs are started."""

    def __init__(self, campanile: Path | None, folder: Path, server_cpus: set[int] | None, log: Path | None):
        self.folder, self.cpus, self.log = folder, server_cpus, log
        self.secret = secrets.token_hex(32)
        self.campanile_binary = campanile
        self.floor_binary: Path | None = None
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
        self.environment = {**keep, "CAMPANILE_JWT_SECRET": self.secret}
        self.floor_environment = {**keep, **{n: v for n, v in os.environ.items() if n.startswith("FLOOR_")}}

    def build_floor(self) -> None:
        self.floor_binary = build_floor(self.folder)

    def floor(self, database: Path, synchronous: str = "full", label: str = "floor", pinned: bool = True, groups: bool = False) -> Server:
        port = free_port()
        return Server(label, [str(self.floor_binary), *(["--groups"] if groups else []), str(port), str(database), synchronous], port,
                      self.floor_environment, self.folder, self.cpus if pinned else None, self.log)

    def init_floor(self, database: Path) -> None:
        subprocess.run([str(self.floor_binary), "--init", str(database)], check=True, env=self.floor_environment)

    def campanile(self, database: Path, synchronous: str = "full", label: str = "campanile", pinned: bool = True) -> Server:
        port = free_port()
        environment = dict(self.environment)
        if synchronous != "full":
            environment["CAMPANILE_UNSAFE_SYNCHRONOUS"] = synchronous
        command = [str(self.campanile_binary), "serve", "--host", "127.0.0.1", "--port", str(port), "--database", str(database)]
        return Server(label, command, port, environment, self.folder, self.cpus if pinned else None, self.log)

    def command(self, *arguments: str) -> str:
        """Runs one of campanile's commands; its standard output without the last newline."""
        done = subprocess.run([str(self.campanile_binary), *arguments], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise BenchError(f"campanile {' '.join(arguments)} → {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}")
        return done.stdout.strip()

    def producer_key(self, database: Path) -> str:
        return self.command("keys", "create", f"bench-{secrets.token_hex(4)}", "--database", str(database))
