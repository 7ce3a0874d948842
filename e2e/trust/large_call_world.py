"""Calls for many users, and the servers that get them: what large_calls.py and faults.py work with."""
import contextlib
import http.client
import json
import os
import random
import socket
import threading
import time
from collections.abc import Iterator

from e2e import harness
from e2e.harness import stores
from e2e.harness.postgres import PASSWORD, Pair, PostgreSQL, server_folder
from e2e.trust import schema

USERS, DEVICES = 1_000, 2
SMALL = 100              # users of a call that is one transaction
ANSWER_SECONDS = 180     # of repeating; a debug binary on a busy machine is slow
NAMES = [f"many-{one:04d}" for one in range(USERS)]


class Call:
    """One call, in the hands of a producer that may repeat it."""

    def __init__(self, number: int, users: list[str] | None = None, has_key: bool = True) -> None:
        self.title, self.users = f"For many {number}", users or NAMES
        self.key = f"many-{number}" if has_key else None
        self.body = json.dumps({"user_ids": self.users, "title": self.title, "body": "To all of you"}).encode()

    @property
    def headers(self) -> dict[str, str]:
        return {"Idempotency-Key": self.key} if self.key else {}

    def send(self, node: harness.Campanile, credential: str) -> harness.Answer:
        with contextlib.closing(node.connection()) as connection:
            return connection.request("POST", "/notifications", credential=credential, body=self.body, headers=self.headers)


class Sender(threading.Thread):
    """Sends a call in a thread of its own: once, or until it is answered with 201."""

    def __init__(self, call: Call, nodes: list[harness.Campanile], credential: str, repeats: bool = False) -> None:
        super().__init__(daemon=True)
        self.call, self.nodes, self.credential, self.repeats = call, nodes, credential, repeats
        self.answer: harness.Answer | None = None
        self.refusals: list[harness.Answer] = []
        self.start()

    def run(self) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        for number in range(1 << 30):
            with contextlib.suppress(OSError, http.client.HTTPException):   # the server is killed, or about to start
                answer = self.call.send(self.nodes[number % len(self.nodes)], self.credential)
                if answer.status == 201 or not self.repeats:
                    self.answer = answer
                    return
                self.refusals.append(answer)
            if not self.repeats or time.monotonic() > deadline:
                return
            time.sleep(0.02)


class HungUp:
    """Sends a call and hangs up when it is told to, without waiting for the answer."""

    def __init__(self, call: Call, node: harness.Campanile, credential: str) -> None:
        self.socket = socket.create_connection((node.host, node.port), timeout=harness.REQUEST_SECONDS)
        lines = ["POST /notifications HTTP/1.1", "Host: a", f"Authorization: Bearer {credential}", "Content-Type: application/json",
                 f"Content-Length: {len(call.body)}", *(f"{name}: {value}" for name, value in call.headers.items())]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + call.body)

    def hang_up(self) -> None:
        self.socket.close()


class World:
    """One server on a SQLite file, or two nodes on PostgreSQL, with a standby if `standby`."""

    def __init__(self, binary: str, folder: str, rng: random.Random, standby: bool) -> None:
        self.rng, self.has_standby = rng, standby
        self.pair: Pair | None = None
        if stores.is_postgres():
            servers = [PostgreSQL(folder, name) for name in ("one", "two")]
            self.pair = Pair(servers[0], servers[1])
            address = self.pair.address if standby else servers[0].address
            self.nodes = [self._node(binary, address, os.path.join(folder, name)) for name in ("node-1", "node-2")]
        else:
            self.nodes = [harness.Campanile(binary, os.path.join(folder, "campanile.sqlite"), folder)]
        self.credential, self.number = "", 0

    @staticmethod
    def _node(binary: str, address: str, folder: str) -> harness.Campanile:
        os.makedirs(folder)
        return harness.Campanile(binary, address, folder, {"PGPASSWORD": PASSWORD})

    def begin(self) -> None:
        """Starts everything."""
        if self.pair is not None and self.has_standby:
            self.pair.create()
        elif self.pair is not None:
            self.pair.primary.create()
        fill(self.nodes[0], self.execute)
        self.credential = self.nodes[0].producer_key("many")
        for node in self.nodes:
            node.start()

    def end(self) -> None:
        for node in self.nodes:
            if getattr(node, "process", None) in harness.children:
                node.kill()
        if self.pair is not None:
            self.pair.stop()

    def next_call(self, **more) -> Call:
        self.number += 1
        return Call(self.number, **more)

    # --- questions

    def rows(self, sql: str) -> list[list[str]]:
        return self.pair.primary.rows(sql) if self.pair is not None else stores.rows(self.nodes[0].database, sql)

    def execute(self, sql: str) -> None:
        if self.pair is not None:
            self.pair.primary.execute(f"SET ROLE campanile; {sql}", "campanile")
            return
        with contextlib.closing(schema.connect(self.nodes[0].database)) as file:
            file.executescript(f"BEGIN; {sql}; COMMIT;")

    def made(self, call: Call) -> dict[str, list[str]]:
        """{user: ids} of what a call has made."""
        name = stores.hexadecimal(self.nodes[0].database, "n.id")
        found: dict[str, list[str]] = {}
        for user, one in self.rows(f"SELECT i.user_id, {name} FROM notifications n JOIN inboxes i ON i.id = n.inbox_id "
                                   f"WHERE n.title = '{call.title}'"):
            found.setdefault(user, []).append(one)
        return found

    def has_ended(self, call: Call) -> bool:
        return self.rows(f"SELECT count(*) FROM idempotency_keys WHERE key = '{call.key}' AND made IS NULL") == [["1"]]

    # --- what must hold

    def finish(self, call: Call, report: harness.Report, was_ended: bool | None = None) -> None:
        """Repeats an interrupted call until it is answered, and checks what came of it. `was_ended`: what is known of the attempts
        before; None: nothing."""
        sender = Sender(call, self.nodes, self.credential, repeats=True)
        sender.join()
        odd = [answer for answer in sender.refusals if answer.status not in (409, 503)]
        report.check("large call's refusals", not odd, lambda: f"{call.title}: {odd[0]!r}")
        report.count("409 and 503 before the answer", len(sender.refusals))
        if not report.check("large call answered", sender.answer is not None,
                            lambda: f"{call.title}: never; at last {sender.refusals[-1:]}"):
            return
        replayed = sender.answer.header("Idempotency-Replayed") == "true"
        report.check("large call's replay header", was_ended is None or replayed == was_ended,
                     lambda: f"{call.title}: Idempotency-Replayed {replayed}, and had it ended: {was_ended}")
        self.check(call, sender.answer, report)

    def check(self, call: Call, answer: harness.Answer, report: harness.Report) -> None:
        """Every user has exactly one entry, the answer names them, and every node gives it again."""
        for node in self.nodes:
            again = call.send(node, self.credential)
            is_equal = (again.status, again.header("Idempotency-Replayed"), again.body) == (201, "true", answer.body)
            report.check("large call replayed", is_equal, lambda: f"{call.title}: {again!r}")
        told = {one["user_id"]: [one["id"].replace("-", "")] for one in answer.json()["notifications"]}
        made = self.made(call)
        wrong = {user: len(made.get(user, [])) for user in call.users if len(made.get(user, [])) != 1}
        report.check("large call whole", not wrong,
                     lambda: f"{call.title}: {len(wrong)} users with another number than one, {list(wrong.items())[:3]}")
        report.check("large call's ids", list(told) == call.users and told == made,
                     f"{call.title}: the answer names other ids than were made")
        short = self.rows(
            "SELECT count(*) FROM (SELECT n.id FROM notifications n LEFT JOIN deliveries d ON d.notification_id = n.id "
            f"AND d.device_id <> 0 WHERE n.title = '{call.title}' GROUP BY n.id HAVING count(d.id) <> {DEVICES}) AS x")[0][0]
        report.check("large call's deliveries", short == "0", f"{call.title}: {short} notifications without one for each device")
        report.count("large calls")

    def check_small(self, call: Call, answer: harness.Answer | None, report: harness.Report) -> None:
        """A call without a key is whole or not at all."""
        made = self.made(call)
        numbers = {len(ids) for ids in made.values()}
        report.check("call without a key", len(made) in (0, len(call.users)) and numbers <= {1},
                     lambda: f"{call.title}: {len(made)} of {len(call.users)} users, {numbers} each")
        if answer is not None and answer.status == 201:
            report.check("call without a key kept", len(made) == len(call.users), f"{call.title} was answered and isn't there")

    def check_badges(self, report: harness.Report) -> None:
        clean, said = self.nodes[0].badge_audit()
        report.check("badge audit", clean, said)


@contextlib.contextmanager
def world(binary: str, rng: random.Random, standby: bool = False) -> Iterator[World]:
    with server_folder("campanile-large-") as folder:
        made = World(binary, folder, rng, standby)
        try:
            made.begin()
            yield made
        except BaseException:
            for node in made.nodes:
                print(f"--- a node's log ends:\n{node.log_tail(1500)}", flush=True)
            raise
        finally:
            made.end()


def fill(server: harness.Campanile, execute) -> None:
    """The users' devices, by SQL, on the schema of the program."""
    server.command("migrate")
    now = int(time.time() * 1000)   # devices that weren't seen for long would be removed
    tokens = [(number * DEVICES + device, name) for number, name in enumerate(NAMES) for device in range(DEVICES)]
    is_file = not server.database.startswith("postgres:")
    shard = "" if is_file else ", shard"
    values = ", ".join(
        f"('default', '{number:064x}', (SELECT id FROM inboxes WHERE user_id = '{name}'), 'ios', 'apns', 'production', {now}, {now}"
        + ("" if is_file else f", get_byte(sha256('default'::bytea || '\\000'::bytea || '{number:064x}'::bytea), 0)") + ")"
        for number, name in tokens)
    execute("INSERT INTO inboxes (app, user_id) VALUES " + ", ".join(f"('default', '{name}')" for name in NAMES) + "; "
            f"INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at{shard}) "
            f"VALUES {values}")
