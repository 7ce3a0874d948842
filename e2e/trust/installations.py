"""Android installations that change the kind of their identifier at Firebase, from a registration token to an installation ID (FID), under
load and kill -9, against `campanile simulator`.

100,000 installations are imported with their tokens; every tenth user has two. Then each app registers its FID, and some of them their
token again and once more the FID, while 300 notifications a second are created, a third of them for users whose installation changes about
then. Every answer of FCM takes a while, three of its connections are closed when a push has arrived, and the server gets SIGKILL three times.
Clients repeat what gets no answer until it is acknowledged. When nothing is owed any more:

- what was acknowledged to a producer came to every phone of its user;
- what came twice was in flight at a kill or on a broken connection, each is named; nothing else was sent to both kinds of an installation;
- a push names what its installation was registered by;
- an installation has one row, the same as after the import, under what it registered last; the rest counts as left, and importing the file
  again changes no row;
- `GET /device_tokens` says the kind; either identifier leads to the simulator's one phone, whose icon shows the number of notifications;
- `campanile badge audit` finds nothing.

At the end the control: a push that is missing, doubled, sent to both kinds or to what was left, a second row, one of the other kind, one
made anew and a wrong icon must be seen. `--control` takes one push from the record of the run itself, which must then exit 1.
"""
import csv
import datetime
import os
import random
import statistics
import time
from dataclasses import replace

from e2e import harness
from e2e.trust import imports
from e2e.trust.installation_judge import InstallationEvidence, InstallationJudge, effect, unseen
from e2e.trust.installation_load import InstallationLoad, installation_of, new_installation, plan
from e2e.trust.push_judge import without_one
from e2e.trust.push_record import Record
from e2e.trust.push_world import Device, User, World, world
from e2e.trust.pushes import kill_once

BACK_SHARE = 0.06          # of the installations register their token again after the FID
LATENCY_MILLISECONDS = (100, 300)
PACE_SHARE = 0.9           # of the notifications a second that are acknowledged, kills included
ASKED_PHONES = 2_000
ASKED_USERS = 200
SHOWN = 5                  # pushes that came twice, of each reason; --results has all
END_SECONDS = 600          # from the time in which all should change to the end of the load, and from that until nothing is owed


class InstallationWorld(World):
    """`installations`: FID → Installation. What the database knows by an identifier, is known by the FID here."""

    def __init__(self, options, folder, apps):
        super().__init__(options, folder, apps)
        self.file, self.installations, users = os.path.join(folder, "devices.csv"), {}, {}
        rng = random.Random(options.seed)
        for number in range(options.installations):
            user = f"user-{number - (number % 10 == 9):06d}"
            one = new_installation(rng, user)
            self.installations[one.fid] = one
            users.setdefault(user, User(user, "default", "", [])).devices.append(Device(one.fid, "android", "fcm"))
        with open(self.file, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["user_id", "token", "kind", "platform", "last_registered_at"])
            # Not so old that retention would take them.
            registered = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)).isoformat(timespec="milliseconds")
            writer.writerows([one.user, one.token, "token", "android", registered] for one in self.installations.values())
        self.users = list(users.values())
        seconds = self.import_file().seconds
        for row in self.rows():
            self.installations[installation_of(row[2])].row = row[0]
        print(f"installations: {options.installations:,} imported in {seconds:.1f} s", flush=True)

    def import_file(self):
        """All installations with their tokens; without a server, as it takes its time beside one."""
        return imports.Run(self.server, "devices", self.file).end()

    def rows(self):
        found = self.query("SELECT d.id, d.kind, d.token, i.user_id FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id ORDER BY d.id")
        return [(int(identifier), *rest) for identifier, *rest in found]

    def in_flight(self):
        return {(installation_of(token), one) for token, one in super().in_flight()}

    def deliveries(self):
        return [replace(one, token=one.token and installation_of(one.token)) for one in super().deliveries()]

    def phone(self, identifier):
        """What the simulator says of it; None for one that no push went to."""
        answer = self.simulator.connection.request("GET", f"/devices/{identifier}")
        return answer.json() if answer.status == 200 else None

    def evidence(self, record, load, kills, rng):
        requests = [replace(one, token=installation_of(one.token)) for one in record.complete()]
        by_name = {user.name: user for user in self.users}
        posted = {one: by_name[user] for user, one in load.ledger.created.values()}
        badges = {("default", user.name): 0 for user in self.users}
        for user in posted.values():
            badges["default", user.name] += 1
        asked = rng.sample(sorted({one.token for one in requests}), min(ASKED_PHONES, len({one.token for one in requests})))
        rows = self.rows()
        return InstallationEvidence(
            requests, self.deliveries(), posted, self.users, {installation_of(row[2]) for row in rows},
            {fid: self.phone(fid) or {"badge": 0} for fid in asked}, badges, self.simulator.counters(), effect, kills=kills,
            installations=self.installations, rows=rows, left={token for token, in self.query("SELECT token FROM left_tokens")})


# --- the run

def faults(notifications, broken):
    """Answers take their time, so that there is always a lot in flight; and some connections are closed."""
    shortest, longest = LATENCY_MILLISECONDS
    return [{"match": {"service": "fcm"}, "action": {"type": "latency", "from_ms": shortest, "to_ms": longest}},
            {"match": {"service": "fcm", "kind": "alert"}, "every": max(1, notifications // (broken + 1)), "times": broken,
             "action": {"type": "close", "applied": True}}]


def run(options, report):
    rng, kills, delays = random.Random(options.seed), [], []
    with world(options, "installations", make=InstallationWorld) as here:
        steps = plan(list(here.installations.values()), BACK_SHARE, rng)
        here.simulator.set_faults(faults(options.rate * options.seconds, options.broken))
        record = Record(here.simulator)
        record.start()
        load = InstallationLoad(here.server.port, here.keys["default"], list(here.installations.values()), steps, options.rate,
                                len(steps) / options.seconds, f"{options.seed}")
        load.begin()
        began = time.monotonic()
        for number in range(options.kills):
            time.sleep(max(0.0, began + options.seconds * (number + rng.uniform(0.2, 0.8)) / options.kills - time.monotonic()))
            kills.append(kill_once(here, record, delays))
        load.join(options.seconds + END_SECONDS)
        load.end()
        report.check("settled", here.wait_until_quiet(END_SECONDS), here.unsettled)
        evidence = here.evidence(record, load, kills, rng)
        answers(here, report, load, options)
        calls(here, report, evidence, rng)
        here.server.stop()
        old_file(here, report, evidence)
        report.check("badge audit", *here.server.badge_audit())
    return judged(evidence, report, options, load, delays)


def answers(here, report, load, options):
    """What the clients got."""
    ledger = load.ledger
    report.check("answers", not ledger.wrong, lambda: f"{len(ledger.wrong)} wrong answers: {ledger.wrong[:3]}")
    changes = (change for one in here.installations.values() for change in one.changes)
    report.check("acknowledged", not ledger.doubtful and all(change.acknowledged < float("inf") for change in changes), "a call was never acknowledged")
    identifiers = [one for _, one in ledger.created.values()]
    report.check("once", len(identifiers) == len(set(identifiers)), "two keys were answered with one id")
    pace = len(identifiers) / load.seconds
    report.check("pace", options.short or pace >= options.rate * PACE_SHARE, f"{pace:.0f} notifications a second were acknowledged, instead of {options.rate}")


def calls(here, report, evidence, rng):
    """What the API and the simulator say of some."""
    for user in rng.sample(here.users, min(ASKED_USERS, len(here.users))):
        credential = harness.user_token(harness.JWT_SECRET, user.name)
        found = here.ask("GET", "/device_tokens", credential=credential).json()["device_tokens"]
        wanted = sorted(here.installations[device.token].sent_to for device in user.devices)
        report.check("kind in the list", sorted((one["kind"], one["token"]) for one in found) == wanted, lambda: f"{user.name}: {found}, registered: {wanted}")
    for fid, phone in evidence.phones.items():
        other = here.phone(here.installations[fid].token)
        report.check("one phone", phone == other, lambda: f"{fid} leads to {phone}, its token to {other}")


def old_file(here, report, evidence):
    """The file of before, imported again, changes no row."""
    here.import_file()
    changed = set(here.rows()) ^ set(evidence.rows)
    report.check("the old file", not changed, lambda: f"{len(changed)} rows are others after importing it again: {sorted(changed)[:4]}")


def judged(evidence, report, options, load, delays):
    if options.control:
        evidence = without_one(evidence, random.Random(options.seed))
    judge = InstallationJudge(evidence, report).all()
    judge.count_amid(LATENCY_MILLISECONDS[0] / 1000)
    report.check("coverage", judge.amid + judge.former > 0, "no kind changed while a push was under way")
    report.check("coverage", all(in_flight for _, in_flight in evidence.kills), "nothing was in flight at a kill")
    report.check("coverage", evidence.counters["faults"].get("close", 0) == options.broken, lambda: f"connections were closed: {evidence.counters['faults']}")
    # The simulator counts for itself, by its phones.
    twice, found = evidence.counters["duplicates"], len(judge.twice)
    report.check("counted twice", options.control or twice == found, f"the simulator counts {twice} duplicates, the record has {found}")
    for check in [] if options.control else unseen(evidence, options.seed):
        report.check("control", False, f"the check '{check}' did not see a planted fault")
    return told(judge, evidence, report, options, load, delays)


# --- what is told

def told(judge, evidence, report, options, load, delays):
    """The text. All pushes that came twice are named in the file of --results, and some of each reason in the text."""
    lost = sum(kind == "received" for kind, _ in report.wrong)
    changes = [change for one in evidence.installations.values() for change in one.changes[1:]]
    fids = sum(one.sent_to[0] == "fid" for one in evidence.requests)
    named = {}
    for pushes in judge.twice:
        named.setdefault(reason(pushes), []).append(sentence(*pushes))
    lines = [
        f"{len(evidence.installations):,} installations, {len(changes):,} registrations in {load.seconds:.0f} s "
        f"({sum(change.kind == 'token' for change in changes):,} back to the token), beside them {len(evidence.posted):,} notifications, "
        f"{len(evidence.posted) / load.seconds:.0f} a second; {judge.amid:,} changed while a push was under way, {judge.former:,} pushes "
        f"came to the identifier of before after it had changed, at most {judge.latest:.2f} s.",
        f"{len(evidence.requests):,} pushes over {evidence.counters['connections']} connections, {fids:,} to a FID and "
        f"{len(evidence.requests) - fids:,} to a token; {lost} lost.",
        f"{len(evidence.kills)} times SIGKILL, with {', '.join(str(len(in_flight)) for _, in_flight in evidence.kills)} pushes in flight, "
        f"{options.broken} connections broken; the first push came {statistics.median(delays or [0.0]) * 1000:.0f} ms after a restart's first "
        f"answer (median).",
        f"{len(judge.twice)} came twice: {counted(judge.twice)}. To both kinds of one installation went {len(judge.both)}: {counted(judge.both)}.",
        f"{len(evidence.rows):,} rows, {sum(row[1] == 'fid' for row in evidence.rows):,} of kind fid; {len(evidence.left):,} identifiers left.",
    ]
    if options.results:
        with open(options.results, "w", encoding="utf-8") as file:
            file.write("\n\n".join(lines) + "\n\n" + "".join(f"- {one}\n" for found in named.values() for one in found))
    return "\n".join(lines + [f"  {one}" for found in named.values() for one in found[:SHOWN]])


def reason(pushes):
    return pushes[2] or "for no reason"


def counted(found):
    """How many of such pushes have each reason."""
    reasons = [reason(pushes) for pushes in found]
    return ", ".join(f"{reasons.count(one)} {one}" for one in sorted(set(reasons))) or "none"


def sentence(before, after, explanation):
    return (f"{before.notification} to {before.token}: as {before.sent_to[0]} over connection {before.connection}, as {after.sent_to[0]} over "
            f"connection {after.connection}, {after.at - before.at:.2f} s later: {explanation or 'for no reason'}")


def main():
    parser = harness.arguments(__doc__, short="500 installations, 30 notifications a second, 8 s, one kill; judges no time")
    parser.add_argument("--simulator", help="the program that has `simulator` (default: --binary)")
    parser.add_argument("--installations", type=int, help="100,000")
    parser.add_argument("--rate", type=int, help="notifications a second: 300")
    parser.add_argument("--seconds", type=int, help="the time in which all change: 240")
    parser.add_argument("--kills", type=int, help="3")
    parser.add_argument("--broken", type=int, help="connections that are closed: 3")
    parser.add_argument("--control", action="store_true", help="take one push from the record: must fail")
    parser.add_argument("--results", help="a file for the figures and the name of each push that came twice, in Markdown")
    options = harness.begin(parser)
    # In short so few notifications that a busy machine's simulator doesn't leave one for 20 s: then the server would rightly send it again.
    for option, long, short in (("installations", 100_000, 500), ("rate", 300, 30), ("seconds", 240, 8), ("kills", 3, 1), ("broken", 3, 1)):
        if getattr(options, option) is None:
            setattr(options, option, short if options.short else long)
    report, started = harness.Report(), time.monotonic()
    text = run(options, report)
    wrong = [kind for kind, _ in report.wrong]
    kinds = ", ".join(f"{wrong.count(kind):,} {kind}" for kind in sorted(set(wrong)))
    print(f"{text}\ninstallations: {sum(report.checked.values()):,} checks, {len(wrong)} wrong{f' ({kinds})' if kinds else ''} "
          f"({time.monotonic() - started:.0f} s)", flush=True)
    return report.verdict()


if __name__ == "__main__":
    harness.run(main)
