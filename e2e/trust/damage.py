"""A database whose pages are destroyed: each page of a small one, whole and each half, by zeros and by noise, before a start and
under a running server.

The server may refuse to start, with a sentence that says what to do; it may answer calls with 500 and 503, and goes on answering
others. It must never end by itself, nor may `badge audit` or `doctor`; after a 500 `/readyz` is 503; the log doesn't repeat
itself without end.

The controls: without damage every call is answered, and `/readyz` is 200; a server that ended and a `/readyz` that stays 200 after
a 500 must be reported; and damage must have met something, or the calls look at too little.
"""
import contextlib
import email.message
import http.client
import json
import os
import random
import shutil
import sqlite3
import time

from e2e import harness
from e2e.trust import load

USERS = ("alice", "bob", "carol")
NOTIFICATIONS = 30
CROWD = [f"member-{number:03}" for number in range(100)]     # so that their inboxes fill pages, as those of a real server do
LOG_LINES = 100         # of level warning and error, of one server's short life; its own bounds are below
REQUEST_SECONDS = 30
SHORT = 6               # pages of the short form, all ways of destroying dealt out over them


def new(user, number):
    """The body of a user's notification with this number: some are long, some have data that stands aside."""
    return {"user_id": user, "title": f"Title {number}", "body": "words " * (number % 5 * 60),
            "data": {"long": "x" * (1_900 if number % 10 == 0 else 10)}}


class World:
    """The database that is destroyed, over and over, and the calls that are made."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        server = self.server(folder)
        self.database = server.database
        server.start()
        self.producer = server.producer_key("damage")
        self.operator = server.command("keys", "create", "watch", "--operate")[1]
        self.tokens = {user: server.user_token(user) for user in USERS}
        self.member = server.user_token(CROWD[50])
        self.ids = {user: [] for user in USERS}
        with contextlib.closing(server.connection()) as connection:
            self._fill(connection)
        server.stop()
        with contextlib.closing(sqlite3.connect(self.database)) as file:
            self.page_size = file.execute("PRAGMA page_size").fetchone()[0]
            self.pages = file.execute("PRAGMA page_count").fetchone()[0]

    def server(self, folder):
        return harness.Campanile(self.binary, os.path.join(folder, "campanile.sqlite"), folder)

    def _fill(self, connection):
        def done(*arguments, **more):
            answer = connection.request(*arguments, **more)
            if answer.status not in (200, 201):
                raise harness.HarnessError(f"{arguments} got {answer!r}")
            return answer.json()
        for user, digit in zip(USERS, "abc"):
            done("POST", "/device_tokens", credential=self.tokens[user], body={"token": digit * 64, "platform": "ios"})
            for number in range(NOTIFICATIONS):
                made = done("POST", "/notifications", credential=self.producer, body=new(user, number),
                            headers={"Idempotency-Key": f"{user}-{number}"})
                self.ids[user].append(made["id"])
        done("POST", "/notifications", credential=self.producer, body={"user_ids": CROWD, "title": "To all"})
        done("PATCH", f"/notifications/{self.ids['alice'][3]}", credential=self.tokens["alice"], body={"read": True})

    def calls(self):
        """(method, path, credential, body, headers): reads first, so that they meet the damage before a write mends it."""
        for user, token in self.tokens.items():
            one, other = self.ids[user][0], self.ids[user][7]
            for path in ("/badge", "/notifications", f"/notifications/{one}", "/notifications?status=unread", "/device_tokens"):
                yield "GET", path, token, None, {}
            yield "GET", f"/notifications/{other}/deliveries", self.producer, None, {}
            yield "GET", f"/operate/users/{user}", self.operator, None, {}
            yield "GET", f"/operate/users/{user}/notifications", self.operator, None, {}
        for path in ("/badge", "/notifications"):
            yield "GET", path, self.member, None, {}
        for path in ("/operate/overview", "/operate/deliveries", "/operate/deliveries?state=accepted", "/metrics"):
            yield "GET", path, self.operator, None, {}
        for user, token in self.tokens.items():
            for number in (0, NOTIFICATIONS):
                yield "POST", "/notifications", self.producer, new(user, number), {"Idempotency-Key": f"{user}-{number}"}
            yield "PATCH", f"/notifications/{self.ids[user][5]}", token, {"read": True}, {}
            yield "DELETE", f"/notifications/{self.ids[user][6]}", token, None, {}
            yield "POST", "/device_tokens", token, {"token": user.encode().hex() * 4, "platform": "android"}, {}
            yield "GET", "/notifications", token, None, {"User-Agent": load.NATIVE}
            yield "POST", "/notifications/mark_all_read", token, {}, {}
            yield "DELETE", "/badge", token, None, {}


def destroyed(page, kind, dice):
    """Zeros or noise in the place of a page or a half of it: (offset in the page, bytes)."""
    how, part = kind
    size = page if part == "whole" else page // 2
    return (page // 2 if part == "second half" else 0), bytes(size) if how == "zeros" else dice.randbytes(size)


KINDS = [(how, part) for how in ("zeros", "noise") for part in ("whole", "first half", "second half")]


def destroy(path, world, page, kind, dice):
    offset, content = destroyed(world.page_size, kind, dice)
    with open(path, "r+b") as file:
        file.seek((page - 1) * world.page_size + offset)
        file.write(content)


def ask(connection, method, path, credential, body, headers):
    try:
        return connection.request(method, path, credential=credential, body=body, headers=headers)
    except (OSError, http.client.HTTPException) as error:
        return harness.Answer(0, email.message.Message(), f"no answer: {error!r}".encode())


def stream(server, token, last):
    """Opens a stream and reads what it says first; whatever it answers is right, if it answers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=REQUEST_SECONDS)
    try:
        connection.request("GET", "/notifications/stream", headers={"Authorization": f"Bearer {token}", "Last-Event-ID": last})
        response = connection.getresponse()
        if response.status == 200:
            response.read1(100)
        return response.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def judge(server, statuses, ready, report, what):
    """What must hold of a server that was asked. `statuses`: (call, status)."""
    code = server.process.poll()
    report.check("it lives", code is None, lambda: f"{what}: the server ended with {code}: {server.log_tail(1500)}")
    if code is not None:
        return
    silent = [call for call, status in statuses if status == 0]
    report.check("answers", not silent, lambda: f"{what}: no answer to {silent}")
    failed = [call for call, status in statuses if status == 500]
    report.check("readyz", not failed or ready == 503, lambda: f"{what}: /readyz is {ready} after 500 to {failed}")


def lines(server):
    """How many lines the log has that somebody has to look at."""
    count = 0
    for line in server.log_tail(1 << 24).splitlines():
        with contextlib.suppress(ValueError):
            count += json.loads(line).get("level") in ("warning", "error", "critical")
    return count


def use(server, world, report, what):
    """Makes all calls. - Returns: (call, status) of each."""
    statuses = []
    with contextlib.closing(server.connection()) as connection:
        for method, path, credential, body, headers in world.calls():
            answer = ask(connection, method, path, credential, body, headers)
            statuses.append((f"{method} {path}", answer.status))
            if answer.status == 0 and server.process.poll() is not None:
                break
        for user in USERS:
            statuses.append((f"stream of {user}", stream(server, world.tokens[user], "1")))
        ready = ask(connection, "GET", "/readyz", None, None, {})
    judge(server, statuses, ready.status, report, what)
    return statuses, ready.status


def commands(server, report, what):
    for command in (("badge", "audit"), ("doctor",)):
        code, out, err = server.command(*command, check=False)
        report.check("commands", code in (0, 1), lambda: f"{what}: {' '.join(command)} exited {code}: {out} {err}"[:2000])


def suffer(world, page, kind, is_running, seed, report):
    """One damage. - Returns: whether anything was refused because of it."""
    what = f"page {page}, {' '.join(kind)}, {'under a server' if is_running else 'before a start'} (seed {seed})"
    with harness.temporary_folder("campanile-damage-") as folder:
        server = world.server(folder)
        shutil.copyfile(world.database, server.database)
        if is_running:
            server.start()
        destroy(server.database, world, page, kind, random.Random(seed))
        met = False
        if not is_running:
            server.start(wait=False)
            with contextlib.suppress(harness.HarnessError):
                server.wait_until_healthy()
        if server.process.poll() is None:
            statuses, ready = use(server, world, report, what)
            met = any(status >= 500 for _, status in statuses) or ready != 200
            if server.process.poll() is None:
                stopped(server, report, what)
        else:
            met = True
            code, said = server.process.poll(), server.log_tail()
            report.check("start", code > 0 and "restore a backup" in said, lambda: f"{what}: exit code {code}: {said[-1500:]}")
        count = lines(server)
        report.check("log", count <= LOG_LINES, lambda: f"{what}: {count} lines of level warning and above")
        commands(server, report, what)
        return met


def stopped(server, report, what):
    try:
        server.stop()
    except harness.HarnessError as trouble:
        report.check("stop", False, f"{what}: {trouble}")
    else:
        report.count("stop")


def controls(world, report):
    """Gives what the checks should have seen and didn't."""
    unseen = []
    with harness.temporary_folder("campanile-damage-") as folder:
        server = world.server(folder)
        shutil.copyfile(world.database, server.database)
        server.start()
        own = harness.Report()
        statuses, ready = use(server, world, own, "no damage")
        bad = [(call, status) for call, status in statuses if not 200 <= status < 300]
        if own.wrong or bad or ready != 200:
            unseen.append(f"without damage: {own.wrong} {bad} /readyz {ready}")
        judge(server, [("GET /badge", 500)], 200, own, "a 500 beside a 200 of /readyz")
        server.kill()
        judge(server, [], 200, own, "a server that ended")
        if own.kinds() != {"readyz", "it lives"}:
            unseen.append(f"a server that ended and a /readyz that lies gave {sorted(own.kinds())}")
    report.count("controls", 2)
    return unseen


def cases(world, is_short, dice):
    everything = [(page, kind, is_running) for page in range(1, world.pages + 1) for kind in KINDS for is_running in (False, True)]
    if not is_short:
        return everything
    # Every way once, on pages that differ, half of them under a server.
    pages = dice.sample(range(1, world.pages + 1), SHORT)
    return [(page, kind, number % 2 == 1) for number, (page, kind) in enumerate(zip(pages, dice.sample(KINDS, len(KINDS))))]


def main():
    parser = harness.arguments(__doc__, short="six pages, each destroyed in another way")
    parser.add_argument("--page", type=int, default=None, help="only this page")
    options = harness.begin(parser)
    dice, report, started = random.Random(options.seed), harness.Report(), time.monotonic()
    with harness.temporary_folder("campanile-damaged-") as folder:
        world = World(options.binary, folder)
        unseen = controls(world, report)
        wanted = [case for case in cases(world, options.short and options.page is None, dice) if options.page in (None, case[0])]
        met = sum(in_turn(world, wanted, options.seed, report))
        if wanted and not met:
            unseen.append("no damage was met by any call")
    report.print_wrong()
    for what in unseen:
        print(f"  WRONG (control): {what}")
    print(f"damage: {len(wanted)} times damaged of {world.pages} pages, {met} met, {sum(report.checked.values())} checks, "
          f"{len(report.wrong) + len(unseen)} wrong, {time.monotonic() - started:.0f} s")
    return 1 if report.wrong or unseen else 0


def in_turn(world, wanted, seed, report):
    """The cases, one after the other, so that a child dies with this thread, the script's main one."""
    for number, (page, kind, is_running) in enumerate(wanted):
        yield suffer(world, page, kind, is_running, seed + number, report)
        if (number + 1) % 50 == 0:
            print(f"damage: {number + 1} of {len(wanted)}, {len(report.wrong)} wrong", flush=True)


if __name__ == "__main__":
    harness.run(main)
