"""A server for neighbours.py with the inboxes of the one and of the others, and what goes on beside: load on threads, the crowd."""

import contextlib
import itertools
import json
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.broadcast_programs import signed_identifier
from bench.load import BROWSER, HERE, BenchError, request, write_requests
from bench.neighbour_probes import Broadcasts
from bench.processes import Programs
from bench.seed import fill_inboxes, notification
from e2e.harness import user_token

OTHERS, OTHERS_ROWS = 50, 60
STREAM_KEY = "0123456789abcdef" * 4
BROADCASTS_PER_SECOND, BROADCAST_BYTES = 10, 2_000   # to one client's streams


@contextlib.contextmanager
def meanwhile(work: Callable) -> Iterator[list]:
    """Runs work on a thread beside the block; its result is in the list once the block has ended."""
    results, failures = [], []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield results
    finally:
        thread.join()
    if failures:
        raise failures[0]


class Crowd:
    """crowd.py with its connections open; `with` ends it."""

    def __init__(self, order: dict):
        self.process = subprocess.Popen([sys.executable, "-m", "bench.crowd"], cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        self.opened, self.ended = self._answer(), {}

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise BenchError(f"the crowd ended with {self.process.wait()}; see above")
        return json.loads(line)

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_) -> None:
        try:
            self.process.stdin.close()
            self.ended = self._answer()
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


class Scene:
    """A server of its own with a database of its own. The counts that are kept beside the inboxes must be right before and
    afterwards."""

    def __init__(self, binary: Path, folder: Path, log: Path | None, owners: dict[str, tuple[int, int]], settings: dict[str, str],
                 fill: Callable[[Path], object] | None = None):
        """`owners`: rows, and how many of the oldest are unread. The first of them is the one whose client does the big thing.
        `fill` gets the database with the inboxes in it."""
        self.programs = Programs(binary.resolve(), folder, None, log and log.resolve())
        self.programs.environment.update(settings)
        self.database, self.owner = folder / "neighbours.sqlite", next(iter(owners))
        self.others = [f"other-{number:02d}" for number in range(OTHERS)]
        self._tokens: dict[str, str] = {}
        self.command("migrate")
        fill_inboxes(self.database, {**owners, **{other: (OTHERS_ROWS, OTHERS_ROWS) for other in self.others}})
        if fill:
            fill(self.database)

    def __enter__(self) -> "Scene":
        self.command("badge", "audit")   # fails if a count is wrong
        self.server = self.programs.campanile(self.database)
        self.key = self.programs.producer_key(self.database)
        return self

    def __exit__(self, kind, *_) -> None:
        self.server.stop()
        if kind is None:
            self.command("badge", "audit")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.database}{suffix}").unlink(missing_ok=True)

    def command(self, *words: str) -> str:
        return self.programs.command(*words, "--database", str(self.database))

    def token(self, user: str) -> str:
        return self._tokens.setdefault(user, user_token(self.programs.secret, user))

    def ask(self, method: str, target: str, user: str | None = None, body: bytes | None = None) -> dict:
        return json.loads(self.server.call(method, target, self.token(user or self.owner), body))

    def request(self, method: str, target: str, user: str | None = None, body: bytes | None = None, agent: str = BROWSER) -> bytes:
        return request(method, target, self.token(user or self.owner), body, agent)

    def create(self, idempotency_key: str | None = None, **content) -> bytes:
        return request("POST", "/notifications", self.key, self.content(**content), idempotency_key=idempotency_key)

    @staticmethod
    def content(**more) -> bytes:
        return json.dumps({**notification(4711, 100), **more}).encode()

    def restart(self, **settings: str) -> None:
        self.server.stop()
        self.programs.environment.update(settings)
        self.server = self.programs.campanile(self.database)

    def write(self, name: str, requests: list[bytes]) -> Path:
        return write_requests(self.programs.folder / f"{name}.requests", requests)

    def ids(self) -> list[str]:
        """The owner's notifications, the oldest first."""
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as db:
            return [str(uuid.UUID(bytes=row[0])) for row in db.execute(
                "SELECT id FROM notifications WHERE inbox_id = (SELECT id FROM inboxes WHERE user_id = ?) ORDER BY id", (self.owner,))]


class App:
    """An app of a scene that broadcasts to streams of its own: one of each of the others, and those of the one client."""

    def __init__(self, scene: Scene, streams: list[str]):
        self.scene, self.streams = scene, streams
        self.key = scene.command("keys", "create", "pages", "--broadcast")

    def _body(self, messages: list[tuple[str, str]]) -> bytes:
        return json.dumps([{"stream": stream, "data": data} for stream, data in messages]).encode()

    def fill(self, messages: int, size: int) -> None:
        """Broadcasts so many messages to each of the one client's streams, which are kept, and so may be asked for."""
        for stream in self.streams:
            self.scene.server.call("POST", "/broadcasts", self.key, self._body([(stream, "x" * size)] * messages))

    def to_others(self, others: int, count: int) -> Broadcasts:
        return Broadcasts(
            [signed_identifier(STREAM_KEY, f"other:{number}") for number in range(others)],
            [request("POST", "/broadcasts", self.key, self._body([(f"other:{number % others}", f"change {number}")])) for number in range(count)])

    def broadcast(self, over: threading.Event) -> None:
        """Broadcasts to the one client's streams in turn."""
        for stream in itertools.cycle(self.streams):
            if over.wait(1 / BROADCASTS_PER_SECOND):
                return
            self.scene.server.call("POST", "/broadcasts", self.key, self._body([(stream, "y" * BROADCAST_BYTES)]))
