"""An import of 100,000 devices and 1,000,000 notifications: how fast, how much memory, and whether it may be repeated.

Two files are made, CSV for the devices and NDJSON for the notifications, with quotes, line breaks and every kind of field. They are
imported into an empty database without a server. Then every list must have the order of the file, every badge must be a recount and
show 0, no push may be owed, and a second run of both must change nothing, to the byte of every row.

Then a part of the file is imported beside a server, which creates notifications meanwhile, and the import is killed (kill -9) three
times, each time when it has done some of what was left and not all, and then run to its end. The icons that showed a number before must
show it afterwards, but for what the server created.

The control: a notification that is gone and a wrong count must be seen.
"""
import contextlib
import csv
import datetime
import hashlib
import json
import os
import random
import subprocess
import threading
import time

from e2e import harness
from e2e.trust import schema

BEGIN = datetime.datetime(2024, 11, 1, tzinfo=datetime.UTC)
MUST_MEBIBYTES = 100
KILLS = 3


def text_time(milliseconds):
    return (BEGIN + datetime.timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")


def write_devices(path, users, count):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["user_id", "token", "platform", "environment", "app_version", "locale", "last_registered_at"])
        for number in range(count):
            ios = number % 3 != 0
            token = hashlib.sha256(str(number).encode()).hexdigest()
            writer.writerow([f"user{number % users}", token if ios else f"fcm:{token}", "ios" if ios else "android", "",
                             "2.1.0", "de-DE", text_time(number * 1000)])


def write_notifications(path, users, count, rng, first=0):
    """As an export by the time of creation writes them. Several have the same millisecond."""
    with open(path, "w", encoding="utf-8") as file:
        for number in range(first, first + count):
            entry = {"user_id": f"user{rng.randrange(users)}", "title": f"{number} “Order” shipped",
                     "body": "Two\nlines, and a \"quote\"." if number % 7 == 0 else "Your order is on its way to you.",
                     "created_at": text_time(number // 3 * 60_000 % 60_000_000_000), "external_id": str(number)}
            if number % 2:
                entry["read_at"] = text_time(number // 3 * 60_000 % 60_000_000_000 + 5_000)
            if number % 5 == 0:
                entry.update(category="NOTICE", deep_link=f"orders/{number}?tab=parcels", data={"order": number, "new": True})
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def digest(database):
    """Everything that an import could change."""
    found = hashlib.sha256()
    with contextlib.closing(schema.connect(database)) as file:
        for query in ("SELECT * FROM inboxes ORDER BY id", "SELECT * FROM notifications ORDER BY inbox_id, id",
                      "SELECT * FROM imported_entries ORDER BY app, external_id", "SELECT * FROM device_tokens ORDER BY id"):
            for row in file.execute(query):
                found.update(repr(row).encode())
    return found.hexdigest()


class Run:
    """`campanile import`, with its time and its largest memory."""

    def __init__(self, server, kind, path):
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [server.binary, "import", kind, path, "--database", server.database], cwd=server.folder, env=server.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=harness.die_with_parent)

    def end(self):
        said = self.process.stdout.read().decode()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - self.began
        self.mebibytes = usage.ru_maxrss / 1024
        self.said = said.strip().replace("\n", " ")
        if self.process.returncode != 0:
            raise harness.HarnessError(f"import ended with {self.process.returncode}: {said[-2000:]}")
        return self


def lists_differ(database, path):
    """Users whose list isn't in the file's order of creation."""
    expected = {}
    with open(path, encoding="utf-8") as file:
        for place, line in enumerate(file):
            entry = json.loads(line)
            expected.setdefault(entry["user_id"], []).append((entry["created_at"], place, entry["title"], "read_at" in entry))
    wrong = []
    with contextlib.closing(schema.connect(database)) as file:
        for user, entries in expected.items():
            found = file.execute(
                "SELECT title, read_at IS NOT NULL FROM notifications WHERE inbox_id = "
                "(SELECT id FROM inboxes WHERE app = 'default' AND user_id = ?) ORDER BY id", (user,)).fetchall()
            if [(title, bool(is_read)) for title, is_read in found] != [entry[2:] for entry in sorted(entries)]:
                wrong.append(user)
    return wrong


def alone(server, files, counts, report):
    for kind in ("devices", "notifications"):
        run = Run(server, kind, files[kind]).end()
        report.check("memory", run.mebibytes <= MUST_MEBIBYTES, f"{kind}: {run.mebibytes:.0f} MiB")
        print(f"imports: {counts[kind]:,} {kind} in {run.seconds:.1f} s, {counts[kind] / run.seconds:,.0f} a second, at most "
              f"{run.mebibytes:.0f} MiB; file {os.path.getsize(files[kind]) / 2**20:.0f} MiB: {run.said}", flush=True)
    right, said = server.badge_audit()
    report.check("badges", right, said)
    wrong = lists_differ(server.database, files["notifications"])
    report.check("order", not wrong, lambda: f"{len(wrong)} users, such as {wrong[:3]}")
    with contextlib.closing(schema.connect(server.database)) as file:
        owed = file.execute("SELECT count(*) FROM device_tokens WHERE due_at IS NOT NULL OR badge_due_at IS NOT NULL OR told_count "
                            "IS NOT NULL").fetchone()[0]
        armed = file.execute("SELECT count(*) FROM inboxes WHERE armed OR unread_since_cleared").fetchone()[0]
        found = (file.execute("SELECT count(*) FROM device_tokens").fetchone()[0],
                 file.execute("SELECT count(*) FROM notifications").fetchone()[0])
    report.check("silent", owed == 0 and armed == 0, f"{owed} devices are owed something, {armed} icons show a number")
    report.check("complete", found == (counts["devices"], counts["notifications"]), f"{found}")
    before = digest(server.database)
    for kind in ("devices", "notifications"):
        run = Run(server, kind, files[kind]).end()
        print(f"imports: the second run over the {kind}: {run.seconds:.1f} s: {run.said}", flush=True)
    report.check("second run", digest(server.database) == before, "it changed something")


class Creator(threading.Thread):
    """A producer that creates one notification after the other."""

    def __init__(self, server, users):
        super().__init__(daemon=True)
        self.server, self.users, self.stopping = server, users, threading.Event()
        self.key = server.producer_key("creator")
        self.created, self.milliseconds, self.trouble = {}, [], None

    def create(self, connection, user):
        began = time.monotonic()
        answer = connection.request("POST", "/notifications", credential=self.key, body={"user_id": user, "title": "New"})
        self.milliseconds.append((time.monotonic() - began) * 1000)
        if answer.status != 201:
            self.trouble = f"a create was answered {answer.status}"
        self.created[user] = self.created.get(user, 0) + 1

    def run(self):
        connection, number = self.server.connection(), 0
        while not self.stopping.is_set():
            self.create(connection, self.users[number % len(self.users)])
            number += 1
            time.sleep(0.005)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def imported(database):
    with contextlib.closing(schema.connect(database)) as file:
        return file.execute("SELECT count(*) FROM imported_entries").fetchone()[0]


def killed(server, path, share):
    """Starts an import and kills it when it has brought in this many. Gives how many were in before, and afterwards."""
    before = imported(server.database)
    run = Run(server, "notifications", path)
    while run.process.poll() is None and imported(server.database) < before + share:
        time.sleep(0.02)
    run.process.kill()
    run.process.wait()
    run.process.stdout.close()
    return before, imported(server.database)


def beside(server, path, count, rng, report):
    users = [f"user{number}" for number in range(20)]
    creator = Creator(server, users)
    for user in users[:10]:
        creator.create(server.connection(), user)
    creator.start()
    time.sleep(2)
    idle, creator.milliseconds = creator.milliseconds, []
    began = time.monotonic()
    amid = 0
    for _ in range(KILLS):
        earlier, now = killed(server, path, rng.randrange(1, count // (KILLS + 2)))
        amid += earlier < now < count
        report.check("killed", earlier < now <= count or earlier == count, f"of {count} there were {earlier} before an import that was killed, {now} after it")
    # A short import may be through before a busy machine looks.
    report.check("killed", amid >= (KILLS if count >= 100_000 else 1), f"{amid} of {KILLS} kills came amid an import of {count}")
    Run(server, "notifications", path).end()
    took = time.monotonic() - began
    busy = creator.milliseconds
    creator.stopping.set()
    creator.join()
    report.check("beside", creator.trouble is None, str(creator.trouble))
    wrong = []
    for user in users:
        badge = server.connection().request("GET", "/badge", credential=server.user_token(user)).json()
        created = creator.created.get(user, 0)
        # Who had a number before the import has that number, and what was created since. The others had 0 until then.
        if badge["count"] != created if user in users[:10] else badge["count"] < created:
            wrong.append((user, badge, created))
    report.check("icons", not wrong, f"{wrong[:3]}")
    right, said = server.badge_audit()
    report.check("badges", right, said)
    found = imported(server.database)
    report.check("complete", found == count, f"{found} of {count}")
    size = os.path.getsize(server.database + "-wal") / 2**20
    report.check("log", size < 512, f"the log has {size:.0f} MiB")
    print(f"imports: {count:,} notifications beside a server in {took:.1f} s with {KILLS} kills; a create meanwhile took "
          f"{percentile(busy, .5):.1f} ms (p99 {percentile(busy, .99):.1f}), before {percentile(idle, .5):.1f} ms "
          f"(p99 {percentile(idle, .99):.1f}); the log ended at {size:.0f} MiB", flush=True)


def control(server):
    """The checks that don't see what they are for."""
    report, before = harness.Report(), digest(server.database)
    with contextlib.closing(schema.connect(server.database)) as file:
        file.execute("DELETE FROM notifications WHERE id = (SELECT id FROM notifications LIMIT 1)")
        file.commit()
        schema.plant_wrong_badge(file)
    report.check("second run", digest(server.database) == before, "")
    report.check("badges", server.badge_audit()[0], "")
    return sorted({"second run", "badges"} - report.kinds())


def main():
    options = harness.begin(harness.arguments(__doc__, short="2,000 devices and 20,000 notifications"))
    rng, report, started = random.Random(options.seed), harness.Report(), time.monotonic()
    counts = {"devices": 2_000, "notifications": 20_000} if options.short else {"devices": 100_000, "notifications": 1_000_000}
    users = counts["devices"] // 2
    with harness.temporary_folder("campanile-imports-") as folder:
        files = {"devices": os.path.join(folder, "devices.csv"), "notifications": os.path.join(folder, "notifications.ndjson")}
        write_devices(files["devices"], users, counts["devices"])
        write_notifications(files["notifications"], users, counts["notifications"], rng)
        alone(harness.Campanile(options.binary, os.path.join(folder, "campanile.sqlite"), folder), files, counts, report)
        unseen = control(harness.Campanile(options.binary, os.path.join(folder, "campanile.sqlite"), folder))
        server = harness.Campanile(options.binary, os.path.join(folder, "beside.sqlite"), folder)
        count = 10_000 if options.short else 200_000
        part = os.path.join(folder, "part.ndjson")
        write_notifications(part, users, count, rng)
        server.start()
        beside(server, part, count, rng, report)
        server.stop()
    print(f"imports: {len(report.wrong)} wrong ({time.monotonic() - started:.0f} s)")
    return report.verdict(unseen)


if __name__ == "__main__":
    harness.run(main)
