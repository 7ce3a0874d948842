"""A real campanile process, and connections to it.

Every process started here dies with the script (`e2e.harness.children`).
"""
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from email.message import Message
from typing import Any

from e2e.harness import stores
from e2e.harness.children import HarnessError, children, die_with_parent, forget, free_port, temporary_folder

JWT_SECRET = "trust-harness-secret-that-is-long-enough-0123456789"
METRICS_TOKEN = "trust-harness-metrics-token"   # is told why /readyz is 503
START_SECONDS = 120      # until /healthz answers; a debug binary on a busy machine is slow
STOP_SECONDS = 15        # the contract says 10 s after SIGTERM
REQUEST_SECONDS = 30     # no answer within this is a failure, not a slow machine


def user_token(secret: str, user: str, lifetime: int = 6 * 3600, **claims: str) -> str:
    """A user token: a JWT signed with HS256 (RFC 7519) that lives `lifetime` seconds."""

    def encoded(raw: bytes) -> bytes:
        return base64.urlsafe_b64encode(raw).rstrip(b"=")

    content = {"sub": user, **claims, "exp": int(time.time()) + lifetime}
    signed = encoded(b'{"alg":"HS256","typ":"JWT"}') + b"." + encoded(json.dumps(content).encode())
    return (signed + b"." + encoded(hmac.new(secret.encode(), signed, hashlib.sha256).digest())).decode()


class Answer:
    """One HTTP answer, read to its end."""

    def __init__(self, status: int, headers: Message, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return self.headers.get(name)

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:300]!r}"


class Connection:
    """One keep-alive connection. A request whose answer doesn't arrive whole raises OSError or HTTPException."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port, self.host = port, host
        self.http: http.client.HTTPConnection | None = None

    def request(
            self, method: str, path: str, *, credential: str | None = None, body: Any = None, headers: dict[str, str] | None = None,
    ) -> Answer:
        if self.http is None:
            self.http = http.client.HTTPConnection(self.host, self.port, timeout=REQUEST_SECONDS)
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

    def close(self) -> None:
        if self.http is not None:
            self.http.close()
            self.http = None


class Campanile:
    """One database, a file or an address, and the programs that use it: `campanile serve` and the commands."""

    def __init__(
            self, binary: str, database: str, folder: str, environment: dict[str, str] | None = None, preload: str | None = None,
    ) -> None:
        self.binary, self.database, self.folder = os.path.realpath(binary), database, folder
        self.preload = preload
        self.preexec: Callable[[], None] | None = None   # called in the child before the program is started
        self.listener: socket.socket | None = None       # a listening socket that is handed down to the server, as systemd does it
        self.host, self.prefix = "127.0.0.1", list[str]()   # where it listens; a command that runs the server, as in a network namespace
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": folder, "LC_ALL": "C.UTF-8",
            "CAMPANILE_JWT_SECRET": JWT_SECRET, "CAMPANILE_METRICS_TOKEN": METRICS_TOKEN,
            **stores.environment(database), **(environment or {})}
        self.port = free_port()
        self.process: subprocess.Popen[bytes]   # since the first start
        self.log = os.path.join(folder, "server.log")

    # --- commands

    def _environment(self) -> dict[str, str]:
        return {**self.environment, **({"LD_PRELOAD": self.preload} if self.preload else {})}

    def command(self, *arguments: str, check: bool = True) -> tuple[int, str, str]:
        """Runs `campanile ARGUMENTS --database FILE` and gives (exit code, stdout, stderr)."""
        done = subprocess.run(
            [self.binary, *arguments, "--database", self.database], cwd=self.folder, env=self._environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise HarnessError(f"campanile {' '.join(arguments)} exited {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def producer_key(self, name: str) -> str:
        return self.command("keys", "create", name)[1]

    def user_token(self, user: str) -> str:
        return self.command("token", user)[1]

    def badge_audit(self) -> tuple[bool, str]:
        """True if every badge equals a recount, and what the command said."""
        code, out, err = self.command("badge", "audit", check=False)
        return code == 0, f"exit {code}: {out} {err}"[:2000].replace("\n", " | ")

    # --- the server

    def start(self, wait: bool = True) -> None:
        command = [*self.prefix, self.binary, "serve", "--host", self.host, "--port", str(self.port), "--database", self.database]

        def prepare() -> None:
            die_with_parent()
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
        children.append(self.process)
        if wait:
            self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise HarnessError(f"the server exited {self.process.returncode} at its start:\n{self.log_tail()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.connection().request("GET", "/healthz").status == 200:
                    return
            time.sleep(0.02)
        raise HarnessError(f"the server did not answer /healthz within {START_SECONDS} s:\n{self.log_tail()}")

    def connection(self) -> Connection:
        return Connection(self.port, self.host)

    def kill(self) -> None:
        """SIGKILL, as at a crash of the process. The page cache survives it."""
        self.process.kill()
        self.process.wait()
        forget(self.process)

    def stop(self) -> None:
        """SIGTERM; the exit code must be 0."""
        self.process.terminate()
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise HarnessError(f"the server did not stop within {STOP_SECONDS} s of SIGTERM") from None
        forget(self.process)
        if code != 0:
            raise HarnessError(f"the server exited {code} after SIGTERM:\n{self.log_tail()}")

    @property
    def has_died(self) -> bool:
        """Whether it ended and nobody here ended it."""
        return self.process in children and self.process.poll() is not None

    def log_tail(self, size: int = 3000) -> str:
        with contextlib.suppress(OSError):
            with open(self.log, "rb") as log:
                return log.read()[-size:].decode(errors="replace")
        return "(no log)"


# What `serving` has started, for reports of failed tests.
servers: list[Campanile] = []


@contextlib.contextmanager
def serving(binary: str, environment: dict[str, str] | None = None, configuration: str = "") -> Iterator[Campanile]:
    """A server with an empty database, in a file or in PostgreSQL (`e2e.harness.stores`), and, if it is given, a campanile.yaml, in a folder
    that is gone afterwards. For pytest's fixtures, and an error if it died meanwhile; what it logged stands in the report of a test that
    fails (conftest.py)."""
    with temporary_folder("campanile-test-") as folder:
        if configuration:
            with open(os.path.join(folder, "campanile.yaml"), "w", encoding="utf-8") as file:
                file.write(configuration)
        server = Campanile(binary, stores.new_database(folder), folder, environment)
        server.start()
        servers.append(server)
        try:
            yield server
        finally:
            servers.remove(server)
            if server.process in children:
                server.stop()
