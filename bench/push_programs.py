"""What bench/pushes.py runs: the simulator, a server that pushes to it, and databases in which much is owed."""

import http.client
import json
import os
import secrets
import shutil
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

from bench.load import HERE, BenchError
from bench.processes import Server, virtual_environment
from bench.seed import identifier
from e2e.harness import free_port

APP, TITLE = "default", "Sendung 4711 ist unterwegs"
BODY = "Voraussichtliche Ankunft morgen zwischen 9 und 12 Uhr."


class Simulator(Server):
    """`campanile simulator` on free ports, with keys that stay from one start to the next."""

    def __init__(self, programs: "PushPrograms", *more: str):
        self.page = free_port()
        self.tls = free_port()
        command = [str(programs.binary), "simulator", "--port", str(self.tls), "--page", str(self.page), "--make-keys",
                   str(programs.keys), *more]
        super().__init__("simulator", command, self.page, programs.environment, programs.folder, None, programs.log)

    def _healthy(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.page), timeout=5) as s:
                s.sendall(b"GET /counters HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                return s.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    def ask(self, target: str, link: http.client.HTTPConnection | None = None) -> dict:
        return json.loads(self.call("GET", target, connection=link))

    def counters(self, link: http.client.HTTPConnection | None = None) -> dict:
        return self.ask("/counters", link)

    def link(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.page, timeout=60)


class PushPrograms:
    """How the programs are started. Every start of the simulator knows the same key."""

    def __init__(self, binary: Path, folder: Path, log: Path | None):
        self.binary, self.folder, self.log = binary, folder, log
        self.keys = folder / "keys"
        self.secret = secrets.token_hex(32)
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
        self.environment = {**keep, "CAMPANILE_JWT_SECRET": self.secret}

    def simulator(self, *more: str) -> Simulator:
        return Simulator(self, *more)

    def names(self) -> dict:
        """The key's and the team's id and the topic."""
        return json.loads((self.keys / "simulator.json").read_text())

    @property
    def key_file(self) -> Path:
        return self.keys / f"AuthKey_{self.names()['key_id']}.p8"

    @property
    def authority(self) -> Path:
        return self.keys / "simulator-ca.pem"

    def server(self, database: Path, simulator: Simulator) -> Server:
        names, url = self.names(), f"https://127.0.0.1:{simulator.tls}"
        settings = {"apps": {APP: {"apns": {"key_file": str(self.key_file), "key_id": names["key_id"],
                                            "team_id": names["team_id"], "topic": names["topic"], "url": url}}},
                    "push": {"ca_file": str(self.authority)}}
        file = self.folder / "pushes.yaml"
        file.write_text(json.dumps(settings))  # JSON is YAML
        port = free_port()
        command = [str(self.binary), "serve", "--host", "127.0.0.1", "--port", str(port), "--database", str(database),
                   "--config", str(file)]
        return Server("campanile", command, port, self.environment, self.folder, None, self.log)

    def command(self, *arguments: str) -> str:
        done = subprocess.run([str(self.binary), *arguments], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, timeout=300)
        if done.returncode:
            raise BenchError(f"campanile {' '.join(arguments)} → {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip()

    # ---- databases ----

    def owing(self, name: str, count: int) -> Path:
        """A database in which an alert is owed to each of `count` devices of as many users: written in the schema of
        migrations/sqlite/, as a server that stopped would have left it."""
        path = self.folder / name
        self.command("migrate", "--database", str(path))
        now = int(time.time() * 1000)
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA synchronous=OFF")
        db.execute("BEGIN")
        numbers = range(1, count + 1)
        db.executemany("INSERT INTO inboxes (id, app, user_id, unread_count, unread_since_cleared, armed, newest_id, version,"
                       f" updated_at) VALUES (?, '{APP}', ?, 1, 1, 1, ?, {now}, {now})",
                       ((n, f"user-{n:07d}", identifier(now, n)) for n in numbers))
        db.executemany("INSERT INTO notifications (inbox_id, id, created_at, title, body, sound)"
                       f" VALUES (?, ?, {now}, ?, ?, 'default')",
                       ((n, identifier(now, n), TITLE, BODY) for n in numbers))
        db.executemany("INSERT INTO device_tokens (id, app, token, inbox_id, platform, provider, environment, created_at,"
                       f" last_registered_at, due_at) VALUES (?, '{APP}', ?, ?, 'ios', 'apns', 'production', {now}, {now}, {now})",
                       ((n, token(n), n) for n in numbers))
        db.executemany("INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, due_at)"
                       f" VALUES (?, ?, ?, ?, 'owed', {now})",
                       ((identifier(now, n), n, identifier(now, n + count), n) for n in numbers))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        return path

    def copy(self, database: Path, name: str) -> Path:
        path = self.folder / name
        shutil.copyfile(database, path)
        return path

    def aioapns(self, venv: Path) -> Path:
        """The python of a virtual environment with aioapns in it, made if it isn't there."""
        return virtual_environment(venv, HERE / "push_requirements.txt", "--without-aioapns")


def token(number: int) -> str:
    return f"{number:064x}"


def left(database: Path) -> int:
    """Whether anything is still owed or in flight: 1 or 0."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)
    try:
        return db.execute("SELECT EXISTS (SELECT 1 FROM device_tokens WHERE lease <> 0 OR due_at IS NOT NULL)").fetchone()[0]
    finally:
        db.close()


def accepted(database: Path) -> int:
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)
    try:
        return db.execute("SELECT count(*) FROM deliveries WHERE state = 'accepted'").fetchone()[0]
    finally:
        db.close()
