"""Calls for many users, killed or held up in the middle: the part of crash.py and of faults.py that asks whether they happen whole,
and once.

One call is for 1,000 users with ten devices each, so that the server makes it in many transactions. It gets SIGKILL at a random
moment after the call was sent, or the disk fails when the file shows the call. When some of the users have their notification and
others don't, that came amid the call.
"""
import contextlib
import json
import os
import random
import threading
import time

import harness
import schema

USERS, DEVICES = 1_000, 10
TRIES = 40               # of kills, until one comes amid a call
FINISH_SECONDS = 120     # a debug binary on a busy machine is slow
UNANSWERED_SECONDS = 20  # by then a call that can't go on has ended its request; the server waits 5 to 10 s


class Call:
    """One call, in the hands of a producer that repeats it."""

    def __init__(self, number, key):
        self.title, self.credential, self.answer = f"For many {number}", key, None
        self.users = [f"many-{one:04d}" for one in range(USERS)]
        self.body = json.dumps({"user_ids": self.users, "title": self.title, "body": "To all of you"}).encode()
        self.headers = {"Idempotency-Key": f"many-{number}"}

    def send(self, connection):
        return connection.request("POST", "/notifications", credential=self.credential, body=self.body, headers=self.headers)

    def send_and_lose(self, connection):
        with contextlib.suppress(Exception):   # the server is killed meanwhile, or ends the connection
            self.answer = self.send(connection)

    def made(self, file):
        """{user: [ids]} as the file has it."""
        found = {}
        for user, one in file.execute(
                "SELECT i.user_id, n.id FROM notifications n JOIN inboxes i ON i.id = n.inbox_id WHERE n.title = ?", (self.title,)):
            found.setdefault(user, []).append(one)
        return found


def fill(server):
    """The users' devices, by SQL, on the schema of the program."""
    server.command("migrate")
    now = int(time.time() * 1000)   # devices that weren't seen for long would be removed
    with contextlib.closing(schema.connect(server.database)) as file:
        file.execute("BEGIN")
        for number in range(USERS):
            inbox = file.execute("INSERT INTO inboxes (app, user_id) VALUES ('default', ?)", (f"many-{number:04d}",)).lastrowid
            file.executemany(
                "INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at) "
                "VALUES ('default', ?, ?, 'ios', 'apns', 'production', ?, ?)",
                [(f"{number * DEVICES + device:064x}", inbox, now, now) for device in range(DEVICES)])
        file.execute("COMMIT")


def kill_amid(server, key, rng, first):
    """Sends calls until a kill comes amid one. Gives that call and what was made of it; the server is down."""
    for number in range(first, first + TRIES):
        server.start()
        call = Call(number, key)
        sender = threading.Thread(target=call.send_and_lose, args=(server.connection(),))
        sender.start()
        # Later and later: on a busy machine the call may only begin after a while.
        time.sleep(rng.uniform(0.01, min(20, 0.5 * 1.15 ** (number - first))))
        server.kill()
        sender.join()
        with contextlib.closing(schema.connect(server.database)) as file:
            made = call.made(file)
        if 0 < len(made) < USERS:
            return call, made, number + 1
    raise harness.HarnessError(f"none of {TRIES} kills came amid a call for {USERS} users")


def begun(file):
    """Whether the file shows a call that isn't done."""
    return file.execute("SELECT EXISTS (SELECT 1 FROM large_calls)").fetchone()[0] == 1


def held_up(server, key, lasting, is_stopped, report):
    """The disk fails amid a call. Its request must end without an answer, whether the server waits for the disk or is told to stop;
    its key must be 409 until the disk works; then it must be made whole, by this server or by the next."""
    server.start()
    for number in range(TRIES):
        call = Call(f"held-{number}", key)
        sender = threading.Thread(target=call.send_and_lose, args=(server.connection(),))
        with contextlib.closing(schema.connect(server.database)) as file:
            sender.start()
            while not begun(file) and sender.is_alive():
                time.sleep(0.002)
            with lasting(server):
                made = call.made(file)
                if 0 < len(made) < USERS and sender.is_alive():
                    stay_away(server, call, sender, is_stopped, report)
                    break
        sender.join()
    else:
        raise harness.HarnessError(f"in none of {TRIES} tries did the disk fail amid a call for {USERS} users")
    if is_stopped:
        server.start()
    check(server, call, report)
    return len(made)


def amid_a_call(fault, binary, is_stopped, report):
    """A fault of faults.py."""
    server = fault.server(binary)
    fill(server)
    made = held_up(server, server.producer_key("many"), fault.lasting, is_stopped, report)
    return f"{made} of {USERS} users were served before"


def stay_away(server, call, sender, is_stopped, report):
    """What must hold while the disk fails."""
    if is_stopped:
        server.stop()
    sender.join(UNANSWERED_SECONDS)
    report.check("large call held up", not sender.is_alive(), f"{call.title}: its request hangs for {UNANSWERED_SECONDS} s")
    report.check("large call held up", call.answer is None, lambda: f"{call.title}, which was begun: {call.answer!r}")
    said = server.log_tail(1 << 20).count("Calls for many users can't go on now")
    report.check("large call held up", said == 1, f"{call.title}: the log says {said} times, not once, that it can't go on")
    if not is_stopped:
        again = call.send(server.connection())
        report.check("large call's key", again.status == 409, lambda: f"{call.title}, repeated while it is held up: {again!r}")


def finished(server, call, report):
    """Repeats a call until it is answered; what is said meanwhile must be 409."""
    connection, deadline = server.connection(), time.monotonic() + FINISH_SECONDS
    while True:
        answer = call.send(connection)
        if answer.status != 409 or time.monotonic() > deadline:
            return answer
        report.count("409 while it is finished")
        time.sleep(0.01)


def check(server, call, report):
    """After the restart: whole, once, and one answer."""
    first = finished(server, call, report)
    again = call.send(server.connection())
    replayed = first.status == 201 and first.header("Idempotency-Replayed") == "true"
    report.check("large call answered", replayed, lambda: f"{call.title}: {first!r}")
    report.check("large call replayed", again.status == 201 and again.body == first.body, lambda: f"{call.title}: {again!r}")
    told = {one["user_id"]: schema.identifier(one["id"]) for one in first.json().get("notifications", [])}
    server.stop()
    with contextlib.closing(schema.connect(server.database)) as file:
        made = call.made(file)
        wrong = {user: len(made.get(user, [])) for user in call.users if len(made.get(user, [])) != 1}
        report.check("large call whole", not wrong, lambda: f"{call.title}: {len(wrong)} users with another number than one, {list(wrong.items())[:3]}")
        report.check("large call's ids", list(told) == call.users and all([one] == made.get(user) for user, one in told.items()),
                     lambda: f"{call.title}: the answer names other ids than were made")
        short = file.execute(
            "SELECT count(*) FROM (SELECT n.id FROM notifications n LEFT JOIN deliveries d ON d.notification_id = n.id "
            "AND d.device_id <> 0 WHERE n.title = ? GROUP BY n.id HAVING count(d.id) <> ?)", (call.title, DEVICES)).fetchone()[0]
        report.check("large call's deliveries", short == 0, lambda: f"{call.title}: {short} notifications without one for each device")
        left = file.execute("SELECT (SELECT count(*) FROM large_calls) + (SELECT count(*) FROM large_call_parts)").fetchone()[0]
        report.check("large call written off", left == 0, lambda: f"{left} rows are left of calls")
    clean, said = server.badge_audit()
    report.check("badge audit", clean, said)
    report.count("large calls")


def forget(server):
    """What the server wrote down of its calls; without it a program would be one that doesn't write anything down."""
    with contextlib.closing(schema.connect(server.database)) as file:
        file.execute("DELETE FROM large_call_parts")
        if file.execute("DELETE FROM large_calls").rowcount < 1:
            raise harness.HarnessError("the sabotage found no call to forget")


def run(options, rounds, rng, report):
    """Gives the checks that didn't see the sabotage."""
    with harness.temporary_folder("campanile-large-") as folder:
        server = harness.Campanile(options.binary, os.path.join(folder, "campanile.sqlite"), folder)
        fill(server)
        key, number = server.producer_key("many"), 0
        for _ in range(rounds):
            call, made, number = kill_amid(server, key, rng, number)
            report.count("users served before the kill", len(made))
            server.start()
            check(server, call, report)
        call, _, number = kill_amid(server, key, rng, number)
        forget(server)
        seen = harness.Report()
        server.start()
        check(server, call, seen)
        return sorted({"large call whole", "large call answered"} - seen.kinds())


if __name__ == "__main__":
    import sys

    chosen = harness.begin(harness.arguments(__doc__, short="1 round"))
    findings = harness.Report()
    unseen = run(chosen, 1 if chosen.short else 5, random.Random(chosen.seed), findings)
    findings.print_wrong()
    print(f"large calls: {dict(findings.checked)}, unseen: {unseen}")
    sys.exit(1 if findings.wrong or unseen else 0)
