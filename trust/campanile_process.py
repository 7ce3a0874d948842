"""Starting, stopping and talking to a real campanile process: shared by crash.py, powerloss.py and faults.py.

Standard library only (Python 3.11, as in Debian 12). Every process started here dies with the script, also when the
script itself is killed (PR_SET_PDEATHSIG); every temporary folder goes with it, unless it was killed with SIGKILL.
"""
import argparse
import atexit
import contextlib
import ctypes
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

JWT_SECRET = "trust-harness-secret-that-is-long-enough-0123456789"
METRICS_TOKEN = "trust-harness-metrics-token"   # is told why /readyz is 503
START_SECONDS = 30       # until /healthz answers; a debug binary on a busy machine is slow
STOP_SECONDS = 15        # the contract says 10 s after SIGTERM
REQUEST_SECONDS = 30     # no answer within this is a failure, not a slow machine
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)
_children = []


class TrustError(Exception):
    """The harness itself can't go on: the server didn't start, a command failed. Not a finding about data."""


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _kill_children():
    for process in _children:
        if process.poll() is None:
            process.kill()
            process.wait()


def _leave(number, _frame):
    sys.exit(128 + number)  # runs atexit and the context managers


atexit.register(_kill_children)


@contextlib.contextmanager
def temporary_folder(prefix, parent=None):
    """A folder that is gone afterwards. Its path is free of links, as the recorder compares paths by their text."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def build_library(source, folder):
    """Compiles one of the LD_PRELOAD libraries of this folder; gives its path."""
    name = os.path.splitext(os.path.basename(source))[0]
    library = os.path.join(folder, name + ".so")
    compiler = next((one for one in (os.environ.get("CC"), "cc", "gcc", "clang") if one and shutil.which(one)), None)
    if compiler is None:
        raise TrustError("no C compiler found: apt install gcc libc6-dev")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", library,
         os.path.join(os.path.dirname(os.path.abspath(__file__)), source), "-ldl", "-pthread"],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise TrustError(f"{source} doesn't compile: {done.stderr}")
    return library


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Answer:
    """One HTTP answer, read to its end."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def header(self, name):
        return self.headers.get(name)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Connection:
    """One keep-alive connection. A request whose answer doesn't arrive whole raises OSError or HTTPException."""

    def __init__(self, port):
        self.port = port
        self.http = None

    def request(self, method, path, *, credential=None, body=None, headers=None):
        if self.http is None:
            self.http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_SECONDS)
        sent = dict(headers or {})
        if credential:
            sent["Authorization"] = f"Bearer {credential}"
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            body = json.dumps(body).encode() if not isinstance(body, bytes) else body
        try:
            self.http.request(method, path, body=body, headers=sent)
            response = self.http.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        return answer

    def close(self):
        if self.http is not None:
            self.http.close()
            self.http = None


class Campanile:
    """One database file and the programs that use it: `campanile serve` and the commands."""

    def __init__(self, binary, database, folder, environment=None, preload=None):
        self.binary, self.database, self.folder = os.path.realpath(binary), database, folder
        self.preload = preload
        self.preexec = None      # called in the child before the program is started
        self.listener = None     # a listening socket that is handed down to the server, as systemd does it
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": folder, "LC_ALL": "C.UTF-8",
            "CAMPANILE_JWT_SECRET": JWT_SECRET, "CAMPANILE_METRICS_TOKEN": METRICS_TOKEN, **(environment or {})}
        self.port = free_port()
        self.process = None
        self.log = os.path.join(folder, "server.log")

    # --- commands

    def _environment(self):
        return {**self.environment, **({"LD_PRELOAD": self.preload} if self.preload else {})}

    def command(self, *arguments, check=True):
        """Runs `campanile ARGUMENTS --database FILE` and gives (exit code, stdout, stderr)."""
        done = subprocess.run(
            [self.binary, *arguments, "--database", self.database], cwd=self.folder, env=self._environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise TrustError(f"campanile {' '.join(arguments)} exited {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def producer_key(self, name):
        return self.command("keys", "create", name)[1]

    def user_token(self, user):
        return self.command("token", user)[1]

    def badge_audit(self):
        """True if every badge equals a recount, and what the command said."""
        code, out, err = self.command("badge", "audit", check=False)
        return code == 0, f"exit {code}: {out} {err}"[:2000].replace("\n", " | ")

    # --- the server

    def start(self, wait=True):
        command = [self.binary, "serve", "--host", "127.0.0.1", "--port", str(self.port), "--database", self.database]

        def prepare():
            _die_with_parent()
            if self.preexec:
                self.preexec()
            if self.listener:
                # sd_listen_fds(3): descriptor 3, and the number of the process that is meant. That is known only in it.
                os.dup2(self.listener.fileno(), 3)
                os.set_inheritable(3, True)
                os.execve(command[0], command, {**self._environment(), "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"})
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=prepare)
        _children.append(self.process)
        if wait:
            self.wait_until_healthy()

    def wait_until_healthy(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise TrustError(f"the server exited {self.process.returncode} at its start:\n{self.log_tail()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.connection().request("GET", "/healthz").status == 200:
                    return
            time.sleep(0.02)
        raise TrustError(f"the server did not answer /healthz within {START_SECONDS} s:\n{self.log_tail()}")

    def connection(self):
        return Connection(self.port)

    def kill(self):
        """SIGKILL, as at a crash of the process. The page cache survives it."""
        self.process.kill()
        self.process.wait()
        _children.remove(self.process)

    def stop(self):
        """SIGTERM; the exit code must be 0."""
        self.process.terminate()
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TrustError(f"the server did not stop within {STOP_SECONDS} s of SIGTERM") from None
        _children.remove(self.process)
        if code != 0:
            raise TrustError(f"the server exited {code} after SIGTERM:\n{self.log_tail()}")

    def log_tail(self, size=3000):
        with contextlib.suppress(OSError):
            with open(self.log, "rb") as log:
                return log.read()[-size:].decode(errors="replace")
        return "(no log)"


def arguments(description, *, short):
    """The arguments all scripts share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--binary", required=True, help="the campanile program to test")
    parser.add_argument("--seed", type=int, default=None, help="repeats the random choices of a run (printed)")
    parser.add_argument("--short", action="store_true", help=short)
    return parser


def begin(parser):
    """Parses, prints the seed, and makes the script leave nothing behind when it is interrupted."""
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    if not os.access(options.binary, os.X_OK):
        parser.error(f"{options.binary} is not a program; build it first")
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)
    print(f"{os.path.basename(sys.argv[0])}: seed {options.seed}", flush=True)
    return options


class Report:
    """What a run found. `wrong` keeps the kinds of findings apart, so that a control can say which check saw it."""

    def __init__(self):
        self.checked, self.wrong = {}, []

    def count(self, kind, number=1):
        self.checked[kind] = self.checked.get(kind, 0) + number

    def check(self, kind, holds, what):
        """`what` is a text or a function that gives one; it is asked for only if the check failed."""
        self.count(kind)
        if not holds:
            self.wrong.append((kind, what() if callable(what) else what))
        return holds

    def kinds(self):
        return {kind for kind, _ in self.wrong}

    def print_wrong(self, limit=20):
        for kind, what in self.wrong[:limit]:
            print(f"  WRONG ({kind}): {what}", flush=True)
        if len(self.wrong) > limit:
            print(f"  … and {len(self.wrong) - limit} more", flush=True)
