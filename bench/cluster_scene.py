"""The servers of cluster.py: PostgreSQL with a standby, filled; nodes on it; pgbench beside them, on the same server."""
import os
import re
import secrets
import subprocess
import threading
from pathlib import Path

from bench.load import BenchError, Load, Target, run_wrk
from bench.processes import Server
from bench.stream_programs import StreamPrograms
from e2e.harness import free_port
from e2e.harness.postgres import DATABASE, PASSWORD, ROLE, Pair, PostgreSQL

REFERENCE = "reference"      # the database that pgbench works on: the same rows
PROBED = 1000                # inboxes with a list
ROWS = 60                    # of a list
SETTINGS = {"max_connections": "200", "shared_buffers": "2GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
# A UUIDv7 of a time in milliseconds and a number.
IDENTIFIER = "(lpad(to_hex({0}), 12, '0') || '70008' || lpad(to_hex({1}), 15, '0'))::uuid"

FILL = f"""
INSERT INTO inboxes (id, app, user_id) SELECT n + 1, 'default', 'user-' || lpad(n::text, 6, '0') FROM generate_series(0, {{inboxes}} - 1) n;
INSERT INTO device_tokens (id, app, token, shard, inbox_id, platform, provider, environment, created_at, last_registered_at)
    SELECT n + 1, 'default', token, get_byte(sha256('default'::bytea || '\\x00'::bytea || token::bytea), 0), n + 1, 'ios', 'apns', 'production',
           {{now}} - 1000000, {{now}} - 1000000
    FROM (SELECT n, encode(sha256(n::text::bytea), 'hex') AS token FROM generate_series(0, {{inboxes}} - 1) n) one;
INSERT INTO notifications (inbox_id, id, created_at, title, body, category, deep_link, data)
    SELECT n + 1, {IDENTIFIER.format('{now} - 100000 + row', 'n')}, {{now}} - 100000 + row, 'Sendung ' || row || ' unterwegs',
           repeat('Paket 4711 ist unterwegs. ', 4), 'PARCEL', '/parcels/' || row, '{{{{"parcel": 4711, "state": "in_transit", "express": true}}}}'
    FROM generate_series(0, {PROBED} - 1) n, generate_series(1, {ROWS}) row;
UPDATE inboxes SET unread_count = {ROWS}, unread_since_cleared = {ROWS}, armed = true, version = {{now}} - 100000, updated_at = {{now}} - 100000,
    newest_id = {IDENTIFIER.format(f'{{now}} - 100000 + {ROWS}', 'id - 1')} WHERE id <= {PROBED};
SELECT setval(pg_get_serial_sequence('inboxes', 'id'), {{inboxes}}), setval(pg_get_serial_sequence('device_tokens', 'id'), {{inboxes}});
"""
# What a notification with its push must do at least: in one transaction, as a program with a connection for each request would.
SINGLE = f"""
\\set n random(1, :inboxes)
\\set r random(1, 1000000000000)
BEGIN;
UPDATE inboxes SET unread_count = unread_count + 1, unread_since_cleared = unread_since_cleared + 1, armed = true,
    version = greatest(version + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
    newest_id = {IDENTIFIER.format('(extract(epoch FROM clock_timestamp()) * 1000)::bigint', ':r::bigint')} WHERE id = :n RETURNING newest_id \\gset
INSERT INTO notifications (inbox_id, id, created_at, title, body, category, deep_link, data) VALUES (:n, :newest_id, 1767600000000,
    'Sendung 00001 unterwegs', 'Paket 4711 ist unterwegs – voraussichtliche Ankunft „morgen“ zwischen 9 und 12 Uhr.', 'PARCEL', '/parcels/1',
    '{{"parcel": 1, "state": "in_transit", "express": true}}');
INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state) VALUES (:newest_id, :n, gen_random_uuid(), :n, 'sending');
UPDATE device_tokens SET told_count = coalesce(told_count, 0) + 1, lease = lease + 1 WHERE id = :n;
COMMIT;
"""
BADGE = """
\\set n random(0, :inboxes - 1)
SELECT unread_count, unread_since_cleared, armed, version, updated_at FROM inboxes
WHERE app = 'default' AND user_id = 'user-' || lpad((:n)::text, 6, '0');
"""
LIST = f"""
\\set n random(1, {PROBED})
SELECT id, created_at, read_at, title, body, category, deep_link, data, payload FROM notifications WHERE inbox_id = :n ORDER BY id DESC LIMIT 50;
"""
# The same for 32 users by one statement: what groups gain on this server.
GROUP = 32
GROUPS = f"""
WITH picked AS (SELECT DISTINCT 1 + (random() * (:inboxes - 1))::bigint AS id FROM generate_series(1, {GROUP})),
locked AS (SELECT id FROM inboxes JOIN picked USING (id) ORDER BY id FOR UPDATE OF inboxes),
counted AS (UPDATE inboxes SET unread_count = unread_count + 1, unread_since_cleared = unread_since_cleared + 1, armed = true,
    version = greatest(version + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
    newest_id = {IDENTIFIER.format('(extract(epoch FROM clock_timestamp()) * 1000)::bigint', '(random() * 1000000000000)::bigint')}
    FROM locked WHERE inboxes.id = locked.id RETURNING inboxes.id, newest_id),
made AS (INSERT INTO notifications (inbox_id, id, created_at, title, body, category, deep_link, data)
    SELECT id, newest_id, 1767600000000, 'Sendung 00001 unterwegs',
        'Paket 4711 ist unterwegs – voraussichtliche Ankunft „morgen“ zwischen 9 und 12 Uhr.', 'PARCEL', '/parcels/1',
        '{{"parcel": 1, "state": "in_transit", "express": true}}' FROM counted),
owed AS (INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state)
    SELECT newest_id, id, gen_random_uuid(), id, 'sending' FROM counted)
UPDATE device_tokens SET told_count = coalesce(told_count, 0) + 1, lease = lease + 1 FROM counted WHERE device_tokens.id = counted.id;
"""
SCRIPTS = {"single": SINGLE, "groups": GROUPS, "badge": BADGE, "list": LIST}


class Scene:
    """A primary and a standby in a folder that PostgreSQL's user may go into; `folder` is the benchmark's."""

    def __init__(self, programs: StreamPrograms, servers: str, inboxes: int):
        self.programs, self.inboxes, self.folder = programs, inboxes, programs.folder
        one, two = (PostgreSQL(servers, name, settings=SETTINGS) for name in ("one", "two"))
        self.pair = Pair(one, two)
        self.pair.create()
        self.synchronous(False)      # while it is filled
        self.nodes: list[Server] = []
        self.environment = {**programs.environment, "PGPASSWORD": PASSWORD}
        self._command("migrate")
        self._fill()
        self.key = self._command("keys", "create", "bench")
        for name, text in SCRIPTS.items():
            (self.folder / f"{name}.pgbench").write_text(text, encoding="utf-8")

    @property
    def primary(self) -> PostgreSQL:
        return self.pair.primary

    def _command(self, *arguments: str) -> str:
        done = subprocess.run([str(self.programs.binary), *arguments, "--database", self.pair.address], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise BenchError(f"campanile {' '.join(arguments)} → {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}")
        return done.stdout.strip()

    def _fill(self) -> None:
        now = int(self.primary.value("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))
        self.primary.execute(FILL.format(inboxes=self.inboxes, now=now), DATABASE)
        self.primary.execute("VACUUM ANALYZE", DATABASE)
        self._command("badge", "audit")
        # Nobody may be connected to what is copied.
        self.primary.terminate_backends()
        self.primary.execute(f"CREATE DATABASE {REFERENCE} TEMPLATE {DATABASE} OWNER {ROLE} STRATEGY file_copy")
        self.primary.execute("VACUUM ANALYZE; CHECKPOINT", REFERENCE)

    def audit(self) -> None:
        self._command("badge", "audit")

    def synchronous(self, wanted: bool) -> None:
        """Whether a commit waits for the standby."""
        self.primary.set(synchronous_standby_names=self.pair.standby.name if wanted else "")
        if wanted:
            self.primary.wait_until_followed(self.pair.standby, sync="sync")

    # --- nodes

    def start(self, count: int, relay: int | None = None) -> list[Server]:
        """So many nodes in all. `relay`: the port by which they reach the primary; None: directly."""
        address = self.pair.address if relay is None else f"postgres://{ROLE}@127.0.0.1:{relay}/{DATABASE}"
        while len(self.nodes) < count:
            port, name = free_port(), f"node {len(self.nodes) + 1}"
            folder = self.folder / name.replace(" ", "-")
            folder.mkdir(exist_ok=True)
            command = [str(self.programs.binary), "serve", "--host", "127.0.0.1", "--port", str(port), "--database", address]
            self.nodes.append(Server(name, command, port, self.environment, folder, None, self.programs.log))
        return self.nodes

    def stop(self, count: int = 0) -> None:
        """All but so many."""
        while len(self.nodes) > count:
            self.nodes.pop().stop()

    def wait_until_quiet(self) -> float:
        return max(node.wait_until_quiet() for node in self.nodes)

    def close(self) -> None:
        self.stop()
        self.pair.stop()

    # --- load

    def load(self, requests: Path, connections: int, seconds: int, port: int | None = None) -> Load:
        """All nodes at once, the connections shared out among them. Each begins elsewhere: callers don't all write to the same user at
        the same moment."""
        targets = [Target(node.label, node, requests, max(1, connections // len(self.nodes))) for node in self.nodes]
        found: list[Load] = []
        troubles: list[Exception] = []

        def one(target: Target) -> None:
            try:
                found.append(run_wrk(target, seconds, None, secrets.randbelow(1 << 31)))
            except Exception as error:  # noqa: BLE001 – told below
                troubles.append(error)
        threads = [threading.Thread(target=one, args=(target,)) for target in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if troubles:
            raise troubles[0]
        total = sum(load.per_second for load in found)
        return Load(total, max(load.p50_ms for load in found), max(load.p99_ms for load in found),
                    sum(load.cpu_us * load.per_second for load in found) / total, sum(load.client_share for load in found), 0)

    def pgbench(self, script: str, clients: int, seconds: int) -> Load:
        """Transactions a second of prepared statements over its own sessions, over TCP like the nodes'."""
        done = subprocess.run(
            ["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", "1", "-T", str(seconds), "-D", f"inboxes={self.inboxes}",
             "--random-seed", str(secrets.randbelow(1 << 31)), "-f", str(self.folder / f"{script}.pgbench"), "-h", self.primary.host,
             "-p", str(self.primary.port), "-U", ROLE, REFERENCE],
            env={"PATH": os.environ["PATH"], "PGPASSWORD": PASSWORD}, capture_output=True, text=True, timeout=seconds + 120)
        rate = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
        failed = re.search(r"^number of failed transactions: (\d+)", done.stdout, re.MULTILINE)
        if done.returncode or not rate or (failed and failed.group(1) != "0"):
            raise BenchError(f"pgbench {script}: {done.stdout[-800:]} {done.stderr[-1500:]}")
        return Load(float(rate.group(1)), 0, 0, 0, 0, 0)
