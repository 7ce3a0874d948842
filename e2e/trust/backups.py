"""Backups under load, one after the other: each is whole, and nothing that was acknowledged before it began is missing.

Several clients create, read, delete, clear and register at random (load.py). Meanwhile `campanile backup` runs again and again
beside the server. Each backup is opened: SQLite's integrity_check finds nothing, every badge is a recount, and every notification
that was acknowledged before the command started is in it, unless its client has deleted it since. The server makes one itself at its
start (`backup.directory`), which is checked too.

Then the server is lost, and the backup in the middle is restored to another folder. No id, version or sequence of an event that the
lost server gave out may come from the restored one, for users that the backup has and for one that only the lost server knew; also
not if the lost machine's clock was an hour ahead.

The control: a notification deleted from a backup and a wrong count must be seen; and a backup put in place by hand, without the
restore, must give out versions and sequences again, and ids if the lost machine's clock was ahead.
"""
import contextlib
import glob
import http.client
import os
import random
import shutil
import time

from e2e import harness
from e2e.trust import load, schema

LATE_USER = "only-the-lost-server-knew"
AHEAD = 3_600_000   # milliseconds that the lost machine's clock may have been ahead of the one that restores


def acknowledged(clients):
    """What each client has been promised by now: the ids of its notifications."""
    return {client.name: {key[1] for call in client.calls[:] for key in call.effect if key[0] == "notification"}
            for client in clients}


def deleted(clients):
    """What may be missing: all that a client has deleted, or may have, because the call is still under way."""
    gone = {key[1] for client in clients for call in client.calls[:] for key, value in call.effect.items()
            if key[0] == "notification" and value is None}
    return gone | {call.target for client in clients if (call := client.in_flight) is not None and call.kind == "delete"}


def check(report, path, promised, clients):
    """One backup. `promised`: what was acknowledged before it began."""
    with contextlib.closing(schema.connect(path)) as file:
        damage = schema.integrity(file)
        report.check("integrity", damage is None, str(damage))
        wrong, _ = schema.badge_mismatches(file)
        report.check("badges", not wrong, lambda: f"{path}: {wrong[:3]}")
        found = {key[1] for key in schema.contents(file) if key[0] == "notification"}
    expected = {schema.identifier(one) for ones in promised.values() for one in ones}
    missing = expected - found
    if missing:
        # A client notes a deletion a moment after its answer.
        time.sleep(1)
        missing -= {schema.identifier(one) for one in deleted(clients)}
    report.check("complete", not missing, lambda: f"{path}: {len(missing)} of {len(expected)} are missing")
    report.count("notifications found", len(expected & found))


def back_up(server, folder, number, report, clients):
    promised = acknowledged(clients)
    began = time.monotonic()
    path = server.command("backup", os.path.join(folder, f"backup-{number}.sqlite"))[1]
    took = time.monotonic() - began
    check(report, path, promised, clients)
    return path, took


def given_out(server):
    """The greatest id, version and sequence that the server's file has: it gave out no greater one."""
    with contextlib.closing(schema.connect(server.database)) as file:
        newest = file.execute("SELECT max(id) FROM notifications").fetchone()[0]
        version = file.execute("SELECT max(version) FROM inboxes").fetchone()[0]
        sequence = file.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'events'").fetchone()[0]
    return newest, version, sequence or 0


def an_hour_later(one):
    """The id that the lost server gave out instead if its clock was ahead: a UUIDv7 begins with its milliseconds, in 48 bits."""
    return (int.from_bytes(one[:6], "big") + AHEAD).to_bytes(6, "big") + one[6:]


def listen(server, user):
    """Opens a stream, so that the user's events are recorded, and gives the id of its first event."""
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    link.request("GET", "/notifications/stream", headers={"Authorization": f"Bearer {server.user_token(user)}"})
    answer = link.getresponse()
    for line in answer.fp:
        if line.startswith(b"id:"):
            link.close()
            return int(line[3:])
    raise harness.HarnessError(f"the stream of {user} was answered {answer.status} and ended without an event")


def next_of(server, user):
    """What a server gives a user out: the badge's version before and after a new notification, its id, and a sequence."""
    connection, token = server.connection(), server.user_token(user)
    before = connection.request("GET", "/badge", credential=token).json()["version"]
    key = server.producer_key(f"after-{user[:8]}-{random.getrandbits(32):08x}")
    created = connection.request("POST", "/notifications", credential=key, body={"user_id": user, "title": "T", "body": "B"})
    after = connection.request("GET", "/badge", credential=token).json()["version"]
    return schema.identifier(created.json()["id"]), before, after, listen(server, user)


def check_restored(report, server, users, lost):
    newest, version, sequence = lost
    for user in users:
        one, before, after, event = next_of(server, user)
        report.check("ids", one > newest, lambda: f"{user}: {one.hex()} after {newest.hex()}")
        report.check("versions", min(before, after) > version, lambda: f"{user}: {before}, {after} after {version}")
        report.check("sequences", event > sequence, lambda: f"{user}: {event} after {sequence}")


def serve_from(options, folder, name):
    other = os.path.join(folder, name)
    os.mkdir(other)
    return harness.Campanile(options.binary, os.path.join(other, "campanile.sqlite"), other)


def restore(options, folder, server, path, users, report):
    connection, key = server.connection(), server.producer_key("late")
    for user in [LATE_USER, users[0]]:
        listen(server, user)
        connection.request("POST", "/notifications", credential=key, body={"user_id": user, "title": "Late", "body": "B"})
    server.kill()
    newest, version, sequence = given_out(server)
    restored = serve_from(options, folder, "restored")
    said = restored.command("restore", path)[2]
    report.check("report", "is restored to" in said and "owed" in said, said)
    restored.start()
    check_restored(report, restored, [*users[:3], LATE_USER, "somebody-new"], (an_hour_later(newest), version + AHEAD, sequence))
    clean, said = restored.badge_audit()
    report.check("badge audit", clean, said)
    restored.stop()
    # Put in place by hand, the backup gives out what the lost server gave out.
    by_hand, seen = serve_from(options, folder, "by-hand"), harness.Report()
    shutil.copy(path, by_hand.database)
    by_hand.start()
    check_restored(seen, by_hand, [LATE_USER, users[0]], (an_hour_later(newest), version, sequence))
    by_hand.stop()
    return sorted({"ids", "versions", "sequences"} - seen.kinds())


def control(path, promised, clients):
    """The checks that don't see a deleted notification and a wrong count in a backup."""
    report = harness.Report()
    with contextlib.closing(schema.connect(path)) as file:
        one = next(one for one in sorted(set.union(*promised.values())) if schema.plant_lost_notification(file, one))
        schema.plant_wrong_badge(file)
    check(report, path, {"one": {one}}, clients)
    return sorted({"complete", "badges"} - report.kinds())


def main():
    options = harness.begin(harness.arguments(__doc__, short="3 backups"))
    rng, report, started = random.Random(options.seed), harness.Report(), time.monotonic()
    rounds = 3 if options.short else 50
    with harness.temporary_folder("campanile-backups-") as folder:
        scheduled = os.path.join(folder, "scheduled")
        server = harness.Campanile(
            options.binary, os.path.join(folder, "campanile.sqlite"), folder,
            {"CAMPANILE_BACKUP_DIRECTORY": scheduled})
        clients = load.make_clients(server, [f"c{number}" for number in range(4)], 3, rng.random())
        server.start()
        for client in clients:
            client.start()
        time.sleep(1)
        longest, paths = 0.0, []
        for number in range(rounds):
            path, took = back_up(server, folder, number, report, clients)
            longest = max(longest, took)
            paths.append(path)
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join()
            for what in client.unexpected:
                report.check("answers under load", False, what)
        deadline = time.monotonic() + 60
        while not (own := glob.glob(os.path.join(scheduled, "campanile-*Z.sqlite"))) and time.monotonic() < deadline:
            time.sleep(0.1)
        report.check("scheduled", len(own) == 1, f"{os.listdir(folder)}")
        for path in own:
            check(report, path, {}, clients)
        unseen = control(paths[-1], acknowledged(clients), [])
        users = [user for client in clients for user in client.users]
        unseen += restore(options, folder, server, paths[rounds // 2], users, report)
    c = report.checked
    print(f"backups: {rounds} under load and {len(own)} of the server's own, the longest in {longest:.1f} s, "
          f"{c.get('notifications found', 0)} acknowledged notifications found, {c.get('ids', 0)} users after a restore: "
          f"{len(report.wrong)} wrong ({time.monotonic() - started:.0f} s)")
    return report.verdict(unseen)


if __name__ == "__main__":
    harness.run(main)
