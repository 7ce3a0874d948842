"""kill -9 of everything around an outbox of clients/ruby: the server, the processes that write orders, those that drain, and a whole Puma.

An order that was committed in the app's database has exactly one notification, one that was rolled back has none, and each user's are in the
order of the orders. At the end the control: an app that calls the server after its commit must lose some.
"""
import contextlib
import http.client
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

from e2e import ROOT, harness
from e2e.harness import children, die_with_parent, free_port

HERE = pathlib.Path(__file__).resolve().parent
GEM = ROOT / "clients/ruby/lib"
MIGRATION = GEM / "generators/campanile/outbox/templates/create_campanile_outbox.rb.tt"
USERS = [f"user-{number}" for number in range(20)]
FINISH_SECONDS = 300
PUMA_SECONDS = 60


class App:
    """The app's database, the loaded process, and the processes that it forked."""

    def __init__(self, folder, server, name):
        self.server, self.database = server, f"{folder}/{name}.sqlite"
        migration = pathlib.Path(folder, "create_campanile_outbox.rb")
        migration.write_text(MIGRATION.read_text().replace("<%= ActiveRecord::Migration.current_version %>", "6.1"))
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8", "APP_DATABASE": self.database, "MIGRATION": str(migration),
            "CAMPANILE_URL": f"http://127.0.0.1:{server.port}", "CAMPANILE_KEY": server.producer_key(name)}
        self.log = open(f"{folder}/{name}.log", "ab")  # noqa: SIM115 – until the end
        self.loaded = self.begin(["ruby", f"-I{GEM}", str(HERE / "outbox_app.rb")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask(None, "ready")

    def begin(self, command, **more):
        process = subprocess.Popen(command, env=self.environment, stderr=self.log, preexec_fn=die_with_parent, **more)
        children.append(process)
        return process

    def ask(self, line, expected=None):
        if line:
            self.loaded.stdin.write(line + "\n")
            self.loaded.stdin.flush()
        answer = self.loaded.stdout.readline().strip()
        if not answer or (expected and answer != expected):
            raise harness.HarnessError(f"the app says {answer!r}:\n{self.log_tail()}")
        return answer

    def log_tail(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")[-3000:]

    def fork(self, verb):
        return int(self.ask(f"{verb} {' '.join(USERS)}"))

    def finish(self):
        """Sends all that is there."""
        process = self.fork("finish")
        deadline = time.monotonic() + FINISH_SECONDS
        while is_alive(process):
            if time.monotonic() > deadline:
                raise harness.HarnessError("the outbox isn't emptied")
            time.sleep(0.02)
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            left = database.execute("SELECT count(*), max(problem) FROM campanile_outbox").fetchone()
        if left[0]:
            raise harness.HarnessError(f"{left[0]} are left in the outbox: {left[1]}")

    def orders(self):
        """user → the names of their orders, the oldest first."""
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            rows = database.execute("SELECT user, name FROM orders ORDER BY id").fetchall()
        return {user: [name for owner, name in rows if owner == user] for user in USERS}

    def close(self):
        self.loaded.kill()
        self.loaded.wait()
        children.remove(self.loaded)
        self.log.close()


def is_alive(process):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def titles(server, user):
    """Of a user's notifications, the oldest first."""
    token = harness.user_token(harness.JWT_SECRET, user)
    connection, found, cursor = server.connection(), [], None
    while True:
        answer = connection.request("GET", "/notifications?limit=100" + (f"&cursor={cursor}" if cursor else ""), credential=token)
        page = answer.json()
        found += [one["title"] for one in page["notifications"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return found[::-1]


def judge(server, orders):
    """A report of what orders have and don't have."""
    report = harness.Report()
    for user, ordered in orders.items():
        made = titles(server, user)
        lost, extra = set(ordered) - set(made), set(made) - set(ordered)
        report.count("orders", len(ordered))
        report.check("lost", not lost, lambda: f"{user}: {len(lost)} committed orders have no notification")
        report.check("doubled", len(made) == len(set(made)), lambda: f"{user}: {len(made) - len(set(made))} came twice")
        report.check("rolled back", not extra, lambda: f"{user}: {len(extra)} are of orders that were rolled back")
        first = list(dict.fromkeys(made))
        report.check("order", [one for one in first if one in set(ordered)] == [one for one in ordered if one in set(made)], f"{user}: another order")
    return report


def unseen(server, orders):
    """The checks that don't see a fault planted for them."""
    user, names = next((user, names) for user, names in orders.items() if len(names) > 1)
    planted = {"lost": [*names, "committed and not sent"], "rolled back": names[:-1], "order": [names[1], names[0], *names[2:]], "doubled": names}
    for kind, ordered in planted.items():
        if kind == "doubled":
            server.command("notify", user, names[0], "again")
        if kind not in judge(server, {user: ordered}).kinds():
            yield kind


def points(server, app, rng, number, verb="work"):
    """Kills one of them at a time, at so many moments."""
    verbs = {app.fork(one): one for one in (verb, verb, *(["drain"] * 2 if verb == "work" else []))}
    for _ in range(number):
        time.sleep(rng.uniform(0, 0.2))
        victim = rng.choice([*verbs, None])
        if victim is None:
            server.kill()
            server.start()
        else:
            kill(victim)
            job = verbs.pop(victim)
            verbs[app.fork(job)] = job
    for process in verbs:
        kill(process)
    while any(is_alive(process) for process in verbs):
        time.sleep(0.005)


class Puma:
    """The app in a Puma of two workers, which is started again when it was killed, under requests."""

    def __init__(self, app):
        self.app, self.port, self.over, self.answered = app, free_port(), threading.Event(), 0

    def start(self):
        command = ["puma", "--config", "-", "--workers", "2", "--preload", "--threads", "2:2", "--quiet", "--bind", f"tcp://127.0.0.1:{self.port}",
                   str(HERE / "outbox_puma.ru")]
        self.app.environment["RUBYLIB"] = str(GEM)
        self.process = self.app.begin(command, stdin=subprocess.DEVNULL, stdout=self.app.log, start_new_session=True)
        deadline = time.monotonic() + PUMA_SECONDS
        while not self.post("user-0"):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise harness.HarnessError(f"Puma doesn't answer: exit {self.process.poll()}\n{self.app.log_tail()}")
            time.sleep(0.02)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        children.remove(self.process)

    def post(self, user):
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("POST", f"/?user={user}")
            return connection.getresponse().status == 201
        return False

    def ask(self, rng):
        while not self.over.is_set():
            self.answered += self.post(rng.choice(USERS))
            time.sleep(0.002)


def whole_pumas(server, app, rng, number):
    puma = Puma(app)
    askers = [threading.Thread(target=puma.ask, args=(random.Random(rng.random()),), daemon=True) for _ in range(3)]
    puma.start()
    for asker in askers:
        asker.start()
    for _ in range(number):
        time.sleep(rng.uniform(0.05, 0.4))
        puma.kill()
        puma.start()
    puma.over.set()
    for asker in askers:
        asker.join()
    puma.kill()
    return puma.answered


def outbox(server, options, rng):
    """What was wrong, and the checks that see nothing."""
    began, app = time.monotonic(), App(server.folder, server, "outbox")
    points(server, app, rng, options.points or (40 if options.short else 2000))
    answered = whole_pumas(server, app, rng, options.pumas or (2 if options.short else 50))
    app.finish()
    report = judge(server, app.orders())
    report.check("requests", answered > 0, "Puma took no order")
    print(f"outbox: {report.checked['orders']:,} orders, {answered:,} of them by requests that were answered: {len(report.wrong)} wrong "
          f"({time.monotonic() - began:.0f} s)", flush=True)
    app.close()
    return report, list(unseen(server, app.orders()))


def control(server, rng):
    """Whether an app loses something that calls the server after its commits."""
    app = App(server.folder, server, "control")
    for _ in range(20):
        points(server, app, rng, 20, verb="commit")
        orders = app.orders()
        lost = sum(len(set(names) - set(titles(server, user))) for user, names in orders.items())
        if lost:
            break
    app.close()
    print(f"outbox control: {sum(map(len, orders.values())):,} orders with the call after their commit: {lost} lost", flush=True)
    return lost > 0


def main():
    parser = harness.arguments(__doc__, short="40 kills of a process, 2 of a Puma and the control, for `make test`")
    parser.add_argument("--points", type=int, help="kills of one process: 2,000")
    parser.add_argument("--pumas", type=int, help="kills of a whole Puma: 50")
    options = harness.begin(parser)
    if missing := [program for program in ("ruby", "puma") if not shutil.which(program)]:
        raise harness.HarnessError(f"missing programs: apt-get install {' '.join(missing)}")
    rng = random.Random(options.seed)
    with harness.serving(options.binary) as server:
        report, blind = outbox(server, options, rng)
        if not control(server, rng):
            blind.append("lost by calls after the commit")
    return report.verdict(blind)


if __name__ == "__main__":
    harness.run(main)
