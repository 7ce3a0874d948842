"""What has to hold when all installations have changed their kind: push_judge.py's, with an installation as the device whatever a push
named it by, and that no notification went to both kinds of one without a reason, and that each has one row."""
import random
from collections import defaultdict
from dataclasses import dataclass, field, replace

from e2e import harness
from e2e.trust.installation_load import installation_of
from e2e.trust.push_judge import Evidence, Judge, icon, with_one_twice, without_one

BROKEN = "over a broken connection"
LATE_SECONDS = 20        # from a change's acknowledgement to a push that was claimed before it: the server waits no longer for an answer
CLOCK_SECONDS = 0.01     # times are written in milliseconds


def effect(request):
    """(did the phone get it, did the sender learn that), where connections are closed on command after a push has arrived."""
    return request.status == 200 or request.fault == "close", request.fault != "close"


@dataclass
class InstallationEvidence(Evidence):
    """Tokens are FIDs, wherever Evidence has tokens: a request still has what it named in `sent_to`."""
    installations: dict = field(default_factory=dict)    # FID → Installation
    rows: list = field(default_factory=list)             # (id, kind, identifier, user) of every row of device_tokens
    left: set = field(default_factory=set)               # the identifiers that count as left


class InstallationJudge(Judge):

    def __init__(self, evidence, report):
        super().__init__(evidence, report)
        self.both = []         # (a push, the same to the other kind, what explains it)
        self.former = 0        # pushes that came to the identifier of before: they were claimed before its change
        self.latest = 0.0      # seconds from a change's acknowledgement to the last of these
        self.amid = 0          # changes that were acknowledged while a push was under way

    def all(self):
        super().all()
        self.received()
        self.rows()
        for request in self.evidence.requests:
            self.addressed(request)
        return self

    # --- pushes

    def received(self):
        """What was acknowledged to a producer came to every phone of its user, whatever the server's table of deliveries says."""
        for notification, user in self.evidence.posted.items():
            for device in user.devices:
                copies = self.copies.get((device.token, notification.replace("-", "")), ())
                self.report.check("received", any(self.evidence.effect(one)[0] for one in copies),
                                  lambda: f"{notification} of {user.name} never came to {device.token}")

    def repeated(self, key, copies):
        super().repeated(key, copies)
        for before, after in zip(copies, copies[1:]):
            if before.sent_to[0] != after.sent_to[0]:
                explanation = self.explanation(key, before, after)
                self.both.append((before, after, explanation))
                self.report.check("both kinds", explanation is not None, lambda: f"{key[1]} went to {before.sent_to}, then to {after.sent_to}; the "
                                  f"server has {self.answers.get(key) or 'no other answer'}")

    def explanation(self, key, before, after):
        said = super().explanation(key, before, after)
        return BROKEN if said is not None and "kill" not in said else said

    def addressed(self, request):
        """A push names what its installation was registered by when it was claimed."""
        one = self.evidence.installations.get(request.token)
        changes = one.changes if one else []
        # From the acknowledgement of the change that followed to the push.
        late = min((request.at - (following.acknowledged if following else float("inf"))
                    for change, following in zip(changes, [*changes[1:], None])
                    if (change.kind, change.identifier) == request.sent_to and change.asked - CLOCK_SECONDS <= request.at), default=float("inf"))
        is_right = self.report.check("addressed", late <= LATE_SECONDS, lambda: f"a push to {request.sent_to} at {request.at:.3f}, registered: {changes}")
        if is_right and late > 0:
            self.former += 1
            self.latest = max(self.latest, late)

    def count_amid(self, seconds):
        """Counts the changes that were acknowledged while a push was under way: answers take so long at least."""
        for one in self.evidence.installations.values():
            times = [request.at for request in self.by_token[one.fid]]
            self.amid += sum(any(at < change.acknowledged < at + seconds for at in times) for change in one.changes[1:])

    # --- rows

    def rows(self):
        rows = defaultdict(list)
        for row in self.evidence.rows:
            rows[installation_of(row[2])].append(row)
        strangers = rows.keys() - self.evidence.installations.keys()
        self.report.check("one row", not strangers, lambda: f"{len(strangers)} rows of nobody's, such as {sorted(strangers)[:2]}")
        for one in self.evidence.installations.values():
            found = rows[one.fid]
            if not self.report.check("one row", len(found) == 1, lambda: f"{one.fid} has {len(found)} rows: {found}"):
                continue
            identifier, *rest = found[0]
            self.report.check("kind", (*rest,) == (*one.sent_to, one.user), lambda: f"{one.fid}'s row is {found[0]}, registered: {one.changes}")
            self.report.check("the same row", identifier == one.row, lambda: f"{one.fid}'s row was {one.row}, and is {identifier}")
            former = {change.identifier for change in one.changes} - {one.sent_to[1]}
            self.report.check("left", former <= self.evidence.left and one.sent_to[1] not in self.evidence.left,
                              lambda: f"{one.fid}: of {former} and not of {one.sent_to[1]} it has to be known that they left")

    def icons(self):
        """Of the phones that were asked. Nobody reads: the number is what was created."""
        for user in self.evidence.users:
            for device in user.devices:
                if device.token in self.evidence.phones:
                    shown, count = icon(self.evidence.phones, device), self.evidence.badges[user.app, user.name]
                    self.report.check("icon", shown == count, lambda: self._icon(user, device, shown, count))


# --- controls: what the checks must see

def once(evidence, rng):
    """A push that arrived once and was answered, of an installation that has changed its kind."""
    arrived = defaultdict(list)
    for one in evidence.requests:
        if one.notification:
            arrived[one.token, one.notification].append(one)
    answered = {(one.token, one.notification) for one in evidence.deliveries if one.state == "accepted" and one.answers is None}
    changed = {one.fid for one in evidence.installations.values() if len(one.changes) > 1}
    return rng.choice([copies[0] for key, copies in arrived.items()
                       if len(copies) == 1 and key in answered and key[0] in changed and evidence.effect(copies[0]) == (True, True)])


def other_kind(installation, sent_to):
    return ("token", installation.token) if sent_to[0] == "fid" else ("fid", installation.fid)


def with_one_to_both(evidence, rng):
    """A push is entered once more, to the other kind."""
    one = once(evidence, rng)
    again = replace(one, sent_to=other_kind(evidence.installations[one.token], one.sent_to), at=one.at + 1)
    return replace(evidence, requests=[*evidence.requests, again])


def with_one_to_the_former(evidence, rng):
    """A push is entered that goes to what its installation left long before; without a notification, so that nothing else is wrong."""
    request = once(evidence, rng)
    one = evidence.installations[request.token]
    late = replace(request, sent_to=other_kind(one, one.sent_to), at=one.changes[-1].acknowledged + 2 * LATE_SECONDS, notification="")
    return replace(evidence, requests=[*evidence.requests, late])


def with_two_rows(evidence, rng):
    """The row of before is there beside the new one."""
    one = rng.choice(list(evidence.installations.values()))
    return replace(evidence, rows=[*evidence.rows, (one.row + 1_000_000, "token", f"{one.fid}:another", one.user)])


def with_another_kind(evidence, rng):
    """One row says that its identifier is of the other kind."""
    place = rng.randrange(len(evidence.rows))
    identifier, kind, *rest = evidence.rows[place]
    changed = (identifier, "token" if kind == "fid" else "fid", *rest)
    return replace(evidence, rows=[*evidence.rows[:place], changed, *evidence.rows[place + 1:]])


def with_a_new_row(evidence, rng):
    """One row was made anew instead of being changed: what it was told and owed would be gone."""
    place = rng.randrange(len(evidence.rows))
    identifier, *rest = evidence.rows[place]
    return replace(evidence, rows=[*evidence.rows[:place], (identifier + 1_000_000, *rest), *evidence.rows[place + 1:]])


def with_another_number(evidence, rng):
    """One icon shows another number."""
    chosen = rng.choice(sorted(evidence.phones))
    return replace(evidence, phones={**evidence.phones, chosen: {**evidence.phones[chosen], "badge": -1}})


CONTROLS = (
    (without_one, {"lost", "received"}), (with_one_twice, {"duplicate"}), (with_one_to_both, {"duplicate", "both kinds"}),
    (with_one_to_the_former, {"addressed"}), (with_two_rows, {"one row"}), (with_another_kind, {"kind"}), (with_a_new_row, {"the same row"}),
    (with_another_number, {"icon"}),
)


def unseen(evidence, seed):
    """The checks that don't see a fault planted in the evidence."""
    rng, missed = random.Random(seed), []
    for plant, kinds in CONTROLS:
        report = harness.Report()
        InstallationJudge(plant(evidence, rng), report).all()
        missed += [f"{kind} ({plant.__name__})" for kind in sorted(kinds - report.kinds())]
    return missed
