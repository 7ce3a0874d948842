"""Power loss: is everything that was acknowledged still there when the disk keeps only what was synced?

SIGKILL proves nothing about that, as the page cache survives it. So the server runs under recorder.c, which writes down
every change of the database files, every sync and every 2xx answer in one order. Then the disk is rebuilt at many
random points of that log (disk.py): what was synced, and a random part of the rest, torn at 512 bytes. Each rebuilt
disk is opened with SQLite and compared with the ledger of the clients (load.py): all acknowledged notifications with
their state, device tokens, idempotency keys, deliveries and producer keys, each call whole or not at all; badge
versions that didn't go back; every badge equal to a recount; integrity_check. A few are opened by the program itself.

Checkpoints happen within the run: SQLite makes one every 1,000 WAL pages, and the server is stopped with SIGTERM and
started again in the middle, which checkpoints and removes the WAL. The figures say how many there were.

Controls: with synchronous NORMAL and OFF (CAMPANILE_UNSAFE_SYNCHRONOUS, honoured for this test only) rows must be lost,
and faults planted in a rebuilt disk must be seen; else the run is worth nothing and fails.

Needs a C compiler (Debian: apt install gcc libc6-dev).
"""
import collections
import contextlib
import os
import random
import shutil
import sqlite3
import sys
import time

from e2e import harness
from e2e.trust import disk, load, schema
from e2e.trust.preload import build_library

# --- 1. the recorded run

def run_clients(clients):
    for client in clients:
        client.start()
    for client in clients:
        client.join()
        if client.unexpected:
            raise harness.HarnessError(f"an unexpected answer: {client.unexpected[0]}")
        if client.in_flight:
            raise harness.HarnessError(f"no answer to {client.in_flight!r}")


def record_run(server, seed, log, names, writes):
    """The load, in two halves with a restart between. Gives the clients and what `keys create` acknowledged:
    (size of the log when it was printed, name)."""
    keys = []
    clients = load.make_clients(server, names, 5, seed, writes // len(names) // 2)
    keys.append((os.path.getsize(log), "trust"))
    server.start()
    for client in clients:
        client.connect(server.port)
    run_clients(clients)
    server.producer_key("second")    # another process writes the file while the server has it open
    keys.append((os.path.getsize(log), "second"))
    server.stop()
    server.start()
    clients = [client.again(server.port, client.limit) for client in clients]
    run_clients(clients)
    server.stop()
    return clients, keys


# --- 2. the ledger along the log

def in_database_form(effect):
    """The ledger's keys with ids as the file holds them."""
    return {(key[0], schema.identifier(key[1]), *key[2:]) if key[0] in ("notification", "title", "delivery") else key: value
            for key, value in effect.items()}


class Ledger:
    """What must be on the disk at each point of the log."""

    def __init__(self, clients, keys, log, database):
        self.expected, self.versions = {}, {}
        self.owner = {}                  # key → client that changes it
        self.queues = {}                 # client → its acknowledged writes that the log hasn't reached, in order
        self.by_request, self.acknowledged_at, self.checkpoints_at, self.checkpoints = {}, [], [], 0
        for client in clients:
            self.queues[client.name] = collections.deque(client.calls)
            for call in client.calls:
                self._add_deliveries_of_deleted(call, client)
                call.effect = in_database_form(call.effect)
                self.by_request[call.request_id] = (client.name, call)
                for key in call.effect:
                    self.owner[key] = client.name
        self.keys = collections.deque(keys)
        self.asked = {}                  # (pid, socket) → X-Request-Id of the request that it waits for
        self._find_acknowledgements(log)
        self._find_checkpoints(log, database)

    @staticmethod
    def _add_deliveries_of_deleted(call, client):
        """A deleted notification's deliveries may be kept or not."""
        if call.kind == "delete":
            for other in client.calls:
                for key in other.effect:
                    if key[0] == "delivery" and key[1] in (call.target, schema.identifier(call.target)):
                        call.effect[("delivery", call.target, key[2])] = None

    def _find_acknowledgements(self, log):
        missing = set(self.by_request)
        for index, record in enumerate(log):
            name = self.answered(record)
            if name in missing:
                missing.discard(name)
                self.acknowledged_at.append(index)
        if missing:
            raise disk.LogError(f"{len(missing)} answers that clients got aren't in the log, as that of "
                                f"{self.by_request[min(missing)][1]!r}")

    def _find_checkpoints(self, log, database):
        """A checkpoint is a run of writes to the main file, the first acknowledgement being past."""
        of_main, writing = set(), False
        for index, record in enumerate(log):
            if record.type == disk.OPEN and bytes(record.payload) == database.encode():
                of_main.add((record.pid, record.handle))
            elif record.type == disk.WRITE:
                is_main = (record.pid, record.handle) in of_main
                if is_main and index > self.acknowledged_at[0]:
                    self.checkpoints += not writing
                    self.checkpoints_at.append(index)
                writing = is_main

    @staticmethod
    def request_of(record):
        """The X-Request-Id of a recorded request."""
        head = bytes(record.payload).split(b"\r\n\r\n", 1)[0]
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"x-request-id":
                return value.strip().decode("latin-1")
        return None

    def answered(self, record):
        """The request that a 2xx answer belongs to: the last one on its socket, as clients here don't pipeline."""
        socket = (record.pid, record.handle)
        if record.type == disk.RECEIVE:
            self.asked[socket] = self.request_of(record)
        elif record.type == disk.SEND:
            return self.asked.pop(socket, None)
        return None

    def advance(self, record, position):
        while self.keys and self.keys[0][0] <= position:
            self.expected[("key", self.keys.popleft()[1])] = True
        name, call = self.by_request.get(self.answered(record), (None, None))
        if call is None or not self.queues[name] or self.queues[name][0] is not call:
            return
        self.queues[name].popleft()
        for key, value in call.effect.items():
            if value is None:
                self.expected.pop(key, None)
            else:
                self.expected[key] = value
        self.versions.update(call.versions)

    def judge(self, found, versions):
        """(lost, phantoms): acknowledged things that aren't as acknowledged; things that no call explains."""
        differing, unnamed = collections.defaultdict(set), {}
        for key, _ in self.expected.items() - found.items():
            if key[0] == "delivery":            # it may be one of those that no longer name their device
                unnamed[key[1]] = unnamed.get(key[1], 0) + 1
                if unnamed[key[1]] <= found.get(("unnamed deliveries", key[1]), 0):
                    continue
            differing[self.owner.get(key)].add(key)
        for key, _ in found.items() - self.expected.items():
            if key[0] not in ("delivery", "unnamed deliveries", "key"):
                differing[self.owner.get(key)].add(key)
        lost, phantoms = [], []
        for name, keys in differing.items():
            queue = self.queues.get(name)
            after = queue[0].effect if queue else {}
            whole = all(found.get(key) == value for key, value in after.items() if value or key[0] != "delivery")
            for key in keys:
                if whole and key in after and (found.get(key) == after[key] or key[0] == "delivery"):
                    continue                        # the call in flight happened, as a whole
                (lost if key in self.expected else phantoms).append(f"{key}: {found.get(key)}")
        lost += [f"badge version of {user} went back to {versions.get(user)} from {version}"
                 for user, version in self.versions.items() if versions.get(user, 0) < version]
        return lost, phantoms


# --- 3. the points

class Figures(collections.Counter):
    """points, rows, lost, phantoms, corrupt, badges (mismatches), audits; and the first texts of each finding."""

    def __init__(self):
        super().__init__()
        self.texts = collections.defaultdict(list)

    def find(self, kind, texts):
        self[kind] += len(texts)
        self.texts[kind] += list(texts)[:3]

    def line(self):
        return (f"{self['points']} points, {self['rows']} acknowledged rows checked, {self['lost']} lost "
                f"(at {self['points_lost']} points), {self['phantoms']} unexplained, {self['corrupt']} corrupt, "
                f"{self['badges']} badge mismatches")


def check_point(path, ledger, figures):
    """Opens one rebuilt disk and compares it with the ledger."""
    figures["points"] += 1
    figures["rows"] += len(ledger.expected)
    if not os.path.exists(path):
        lost = [str(key) for key in ledger.expected]
        figures["points_lost"] += bool(lost)
        figures.find("lost", lost)
        return
    try:
        with contextlib.closing(schema.connect(path)) as connection:
            damage = schema.integrity(connection)
            if damage:
                figures.find("corrupt", [damage])
                return
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                found, mismatches, versions = {}, [], {}    # the migration hadn't reached the disk
            else:
                found = schema.contents(connection)
                mismatches, versions = schema.badge_mismatches(connection)
    except sqlite3.DatabaseError as error:
        figures.find("corrupt", [str(error)])
        return
    lost, phantoms = ledger.judge(found, versions)
    figures["points_lost"] += bool(lost)
    figures.find("lost", lost)
    figures.find("phantoms", phantoms)
    figures.find("badges", mismatches)


def choose_points(rng, log, ledger, count):
    """Two in five right after an acknowledgement, where a missing sync shows; one in five in a checkpoint, where the
    main file is rewritten; the rest anywhere."""
    after = rng.choices(ledger.acknowledged_at, k=count * 2 // 5)
    within = rng.choices(ledger.checkpoints_at, k=count // 5) if ledger.checkpoints_at else []
    anywhere = rng.choices(range(len(log)), k=count - len(after) - len(within))
    return sorted(after + within + anywhere)


def audit_with_program(plain_server, path, figures):
    """The program itself must start on the rebuilt disk and find its badges right."""
    plain_server.database = path
    clean, said = plain_server.badge_audit()
    figures["audits"] += 1
    if not clean:
        figures.find("badges", [f"campanile badge audit: {said}"])


def replay(log, ledger, points, audits, rng, folder, server):
    """Brings the disk forward and checks it at the points. Gives the figures and the disk at the end."""
    figures, state = Figures(), disk.Disk(folder)
    path = os.path.join(folder, "rebuilt", os.path.basename(server.database))
    os.mkdir(os.path.dirname(path))
    wanted = collections.Counter(points)
    audited = set(rng.sample(points[len(points) // 10:], min(audits, len(points) * 9 // 10)))
    for index, record in enumerate(log):
        state.apply(index, record)
        ledger.advance(record, log.positions[index] + disk.HEADER.size + len(record.payload))
        for turn in range(wanted.get(index, 0)):
            state.write_after_power_cut(rng, os.path.dirname(path))
            if index in audited and turn == 0 and os.path.exists(path):
                audit_with_program(server, path, figures)
            check_point(path, ledger, figures)
    figures["records"], figures["syncs"], figures["checkpoints"] = len(log), state.syncs, ledger.checkpoints
    return figures, state, path


def planted_faults_seen(path, ledger, original):
    """Plants one fault of each kind in a sound disk; gives the kinds that the checks didn't see."""
    unread = [key for key, value in ledger.expected.items() if key[0] == "notification" and not value[1]]
    plants = {
        "lost": lambda c: c.execute("DELETE FROM notifications WHERE id = ?", (unread[0][1],)),
        "badges": schema.plant_wrong_badge,
        "phantoms": lambda c: c.execute("UPDATE notifications SET id = zeroblob(16) WHERE id = ?", (unread[-1][1],)),
    }
    unseen = []
    for kind in [*plants, "corrupt"]:
        shutil.copyfile(original, path)
        if kind == "corrupt":
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) // 2)
                file.write(b"\xff" * 4096)
        else:
            with contextlib.closing(schema.connect(path)) as connection:
                plants[kind](connection)
        figures = Figures()
        check_point(path, ledger, figures)
        if not figures[kind]:
            unseen.append(kind)
    return unseen


# --- the runs

def one_run(options, library, synchronous, points, writes):
    """Records and replays with one setting of synchronous. Gives figures and complaints about the harness itself."""
    rng = random.Random(f"{options.seed}/{synchronous}")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(harness.temporary_folder("campanile-powerloss-"))
        fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 1 << 28 else None
        rebuilt = stack.enter_context(harness.temporary_folder("campanile-rebuilt-", fast))
        log_path, database = os.path.join(folder, "log"), os.path.join(folder, "campanile.sqlite")
        unsafe = {} if synchronous == "full" else {"CAMPANILE_UNSAFE_SYNCHRONOUS": synchronous}
        server = harness.Campanile(options.binary, database, folder, preload=library, environment={
            "RECORDER_LOG": log_path, "RECORDER_PREFIX": database, **unsafe})
        started = time.monotonic()
        names = [f"{synchronous}{number}" for number in range(options.clients)]
        clients, keys = record_run(server, options.seed, log_path, names, writes)
        recorded = time.monotonic() - started
        log = disk.Log(log_path)
        ledger = Ledger(clients, keys, log, database)
        chosen = choose_points(rng, log, ledger, points)
        plain = harness.Campanile(options.binary, database, rebuilt)
        plain.database = database
        audits = 0 if synchronous == "off" else options.audits
        figures, state, path = replay(log, ledger, chosen, audits, rng, rebuilt, plain)
        complaints = state.differences_from_reality()
        figures["writes"] = sum(len(client.calls) for client in clients)
        if synchronous == "full":
            unseen = planted_faults_seen(path, ledger, database)
            complaints += [f"a planted fault of the kind '{kind}' was not seen" for kind in unseen]
            if figures["checkpoints"] < 2:
                complaints.append("no checkpoint happened within the run")
        print(f"powerloss {synchronous.upper()}: {figures.line()}\n"
              f"  ({figures['writes']} acknowledged writes in {recorded:.0f} s; {figures['records']} records, "
              f"{figures['syncs']} syncs, {figures['checkpoints']} checkpoints; program's own audit of "
              f"{figures['audits']} disks; replay {time.monotonic() - started - recorded:.0f} s)", flush=True)
        return figures, complaints


def verdict(synchronous, figures, complaints):
    """Prints what is wrong with one run; true if it is as it must be."""
    right = not complaints
    for complaint in complaints:
        print(f"  WRONG (harness): {complaint}")
    if synchronous == "full":
        for kind in ("lost", "phantoms", "corrupt", "badges"):
            right = right and not figures[kind]
            for text in figures.texts[kind][:5]:
                print(f"  WRONG ({kind}): {text}")
    elif not figures["lost"]:
        right = False
        print(f"  WRONG (control): with synchronous {synchronous.upper()} nothing was lost, so FULL proves nothing")
    return right


def main():
    parser = harness.arguments(__doc__, short="about 60 points and the controls, for `make test`")
    parser.add_argument("--points", type=int, default=None, help="points with FULL (2000)")
    parser.add_argument("--control-points", type=int, default=None, help="points with NORMAL and OFF each (200)")
    parser.add_argument("--writes", type=int, default=None, help="acknowledged writes with FULL (6000)")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--audits", type=int, default=None, help="rebuilt disks opened by the program itself (20)")
    parser.add_argument("--synchronous", choices=("full", "normal", "off", "all"), default="all")
    options = harness.begin(parser)
    default = (60, 20, 420, 3) if options.short else (2000, 200, 6000, 20)
    options.points, options.control_points, options.writes, options.audits = (
        given if given is not None else usual for given, usual in zip(
            (options.points, options.control_points, options.writes, options.audits), default))
    right = True
    with harness.temporary_folder("campanile-recorder-") as folder:
        library = build_library("recorder.c", folder)
        for synchronous in ("full", "normal", "off") if options.synchronous == "all" else (options.synchronous,):
            full = synchronous == "full"
            figures, complaints = one_run(
                options, library, synchronous, options.points if full else options.control_points,
                options.writes if full else max(options.writes // 10, 120))
            right = verdict(synchronous, figures, complaints) and right
    print(f"powerloss: {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (harness.HarnessError, disk.LogError) as trouble:
        print(f"powerloss: WRONG: {trouble}")
        sys.exit(1)
