"""What has to hold when all that was owed is settled: the database, the simulator's record and the phones agree."""
import datetime
import json
import random
from collections import defaultdict
from dataclasses import dataclass, field, replace

from e2e.trust import push_faults as faults

ATTEMPTS = 7             # after so many a delivery is given up (docs/capacity.md)
ENDING = ("close", "half_open", "goaway")   # end a connection, and with it answers that are still on their way
ENDING_SECONDS = 2       # from the end to an answer: a slow simulator judges what it has read already
UNREAD_SECONDS = 20      # from an answer to the end: a starved server may not have read it by then
CLOCK_SECONDS = 0.01     # times are written in milliseconds
UNCOUNTED = ("unprocessed", "misconfigured")   # what is noted of an attempt that doesn't count
CLOSING = ("close", "half_open", "certificate")   # end a connection under what it hasn't read yet; the last ends all of both services


def effect(request):
    """(did the phone get it, did the sender learn that) – where each device has its own fault."""
    fault = faults.group(request.token)
    if request.fault is None:
        return request.status == 200, True
    if request.fault == (fault.action(request.service) or {}).get("type"):
        return fault.applied, fault.answered
    return False, True       # an outage that was commanded for a whole service


def plain_effect(request):
    """The same, where no fault but latency is commanded."""
    return request.status == 200, True


def ends(requests, changes):
    """Connection → when it was ended on command, in seconds since 1970. Another certificate ends all connections.
    `changes`: when the certificate was changed by a control call."""
    found, last, changes = defaultdict(list), 0, sorted(changes)
    for request in requests:
        while changes and changes[0] <= request.at:
            for connection in range(1, last + 1):
                found[connection].append(changes[0])
            changes.pop(0)
        last = max(last, request.connection)
        if request.fault in ENDING:
            found[request.connection].append(request.at)
        elif request.fault == "certificate":
            for connection in range(1, last + 1):
                found[connection].append(request.at)
    return found


@dataclass
class Evidence:
    """Everything that is known at the end."""
    requests: list
    deliveries: list
    posted: dict             # notification id → user
    users: list
    living: set              # device tokens that the server still has
    phones: dict
    badges: dict
    counters: dict
    effect: object = effect
    changes: list = field(default_factory=list)     # of the certificate
    # Of each kill of the server: its last connection, and the (token, notification) in flight.
    kills: list = field(default_factory=list)


@dataclass
class Line:
    """One fault and one kind of push."""
    sent: int = 0
    met: int = 0
    applied: int = 0
    again: int = 0
    duplicates: int = 0
    lost: int = 0


class Judge:
    """Goes through the evidence once. `lines`: (the token's first two digits, kind) → what was counted."""

    def __init__(self, evidence, report):
        self.evidence, self.report = evidence, report
        self.lines = defaultdict(Line)
        self.copies = defaultdict(list)     # (token, notification) → its requests
        self.by_token = defaultdict(list)
        self.services = {device.token: device.provider for user in evidence.users for device in user.devices}
        self.duplicates = 0
        self.twice = []     # (a push that arrived, the same once more, what explains it)
        self.ends = ends(evidence.requests, evidence.changes)
        self.answers = {(one.token, one.notification): one.answers or "" for one in evidence.deliveries}
        for request in evidence.requests:
            self.by_token[request.token].append(request)
            if request.notification:
                self.copies[request.token, request.notification].append(request)

    def all(self):
        self.count()
        self.refused_for_no_reason()
        for delivery in self.evidence.deliveries:
            self.delivery(delivery)
        self.missing()
        for key, copies in self.copies.items():
            self.repeated(key, copies)
        self.icons()
        violations = self.evidence.counters["stream_limit_violations"]
        self.report.check("stream limit", violations == 0, f"{violations} streams above the limit")
        return self

    def line(self, token, kind):
        return self.lines[token[:2], kind]

    # --- what was sent

    def count(self):
        seen = set()
        for request in self.evidence.requests:
            line, arrived = self.line(request.token, request.kind), self.evidence.effect(request)
            line.sent += 1
            line.met += request.fault is not None
            line.applied += arrived[0]
            # An alert has an identity; a badge push is again one if the one before it failed.
            name = request.token, request.kind, request.notification
            line.again += name in seen
            if arrived == (True, True) and not request.notification:
                seen.discard(name)
            else:
                seen.add(name)

    def refused_for_no_reason(self):
        """The simulator is strict: what it refuses without a command was sent wrongly."""
        for request in self.evidence.requests:
            self.report.check("as the provider asks", request.fault is not None or request.status == 200,
                              lambda: f"a push was answered {request.status} {request.reason}, with no fault commanded")

    # --- what was owed

    def delivery(self, delivery):
        copies = self._copies(delivery)
        arrived = sum(self.evidence.effect(one)[0] for one in copies)
        last = copies[-1] if copies else None
        check, said = self.report.check, lambda: self._said(delivery, copies)
        if delivery.state == "accepted":
            if not check("lost", arrived >= 1, said):
                self._lost(delivery, copies)
        elif delivery.state == "superseded":
            check("superseded", delivery.attempts == 0, said)
        elif delivery.state in ("rejected", "gone"):
            token = delivery.token or (last and last.token)
            explained = any(self._ended_by_fault(one, delivery.state) for one in
                            (copies if delivery.state == "rejected" else self.by_token.get(token, copies)))
            if not check(f"{delivery.state} for a reason", explained, said):
                self._lost(delivery, copies)
        elif delivery.state == "failed":
            enough = delivery.attempts >= ATTEMPTS and (copies or self._never_read(delivery))
            if not check("given up for a reason", enough, said):
                self._lost(delivery, copies)
        else:
            check("settled", False, said)
            self._lost(delivery, copies)
        identifiers = {one.apns_id for one in copies if one.service == "apns"}
        check("the same apns-id", identifiers <= {delivery.id}, lambda: f"{delivery.id} went with {identifiers}")

    def _never_read(self, delivery):
        """Whether each attempt was under way over a connection that was ended on command before it read so far. Alerts that lose one
        attempt so come again together, behind those that end the next connection: on a busy machine that happens seven times. Such an
        end costs an alert one attempt, so each attempt needs one of its own."""
        answers = [one for one in json.loads(delivery.answers or "[]") if one["outcome"] not in UNCOUNTED]
        service = self.services.get(delivery.token)
        ended = sorted(self.evidence.changes + [
            one.at for one in self.evidence.requests
            if one.fault in CLOSING and (one.service == service or one.fault == "certificate")])
        for answer in answers:
            at = datetime.datetime.fromisoformat(answer["at"]).timestamp()
            end = next((when for when in ended if at - UNREAD_SECONDS <= when <= at + CLOCK_SECONDS), None)
            if answer["outcome"] != "unanswered" or end is None:
                return False
            ended.remove(end)
        return bool(answers)

    def _copies(self, delivery):
        if delivery.token is not None:
            return self.copies.get((delivery.token, delivery.notification), [])
        # Its device has left: the row no longer says which it was.
        found = [one for one in self.copies_of(delivery.notification) if one.token not in self.evidence.living]
        return [one for one in found if one.service == "fcm" or one.apns_id == delivery.id]

    def copies_of(self, notification):
        for token in self._tokens(notification):
            yield from self.copies.get((token, notification), ())

    def _tokens(self, notification):
        if not hasattr(self, "_posted"):
            self._posted = {one.replace("-", ""): user for one, user in self.evidence.posted.items()}
        user = self._posted.get(notification)
        return [device.token for device in user.devices] if user else []

    @staticmethod
    def _ended_by_fault(request, state):
        """A dead token is believed only as long as few die; else its push is refused."""
        ends_as = faults.group(request.token).ends
        return request.fault == "status" and (ends_as == state or (ends_as, state) == (faults.DEAD, faults.REFUSED))

    def _said(self, delivery, copies):
        return (f"{delivery.id} to {delivery.token or 'a device that left'} is {delivery.state} after {delivery.attempts} attempts "
                f"({delivery.answers or 'no answer noted'}), {self._told(copies)}")

    def _told(self, copies):
        return "the record has " + (", ".join(f"{one.status or 'no answer'} {one.reason or one.fault or ''}".strip()
                                              for one in copies) or "nothing of it")

    def _lost(self, delivery, copies):
        token = delivery.token or (copies[-1].token if copies else "??")
        self.line(token, "alert").lost += 1

    def missing(self):
        """What was acknowledged to the producer stands in the database, for each device that lived then."""
        rows = {(one.token, one.notification) for one in self.evidence.deliveries}
        for notification, user in self.evidence.posted.items():
            for device in user.devices:
                if device.token in self.evidence.living:
                    self.report.check("owed", (device.token, notification.replace("-", "")) in rows,
                                      lambda: f"{notification} owes nothing to a device of {user.name}")

    # --- what came twice

    def repeated(self, key, copies):
        arrived = [one for one in copies if self.evidence.effect(one)[0]]
        for before, after in zip(arrived, arrived[1:]):
            self.duplicates += 1
            self.line(after.token, after.kind).duplicates += 1
            explanation = self.explanation(key, before, after)
            self.twice.append((before, after, explanation))
            self.report.check("duplicate", explanation is not None, lambda: f"{key[1]} arrived twice, {self._told(copies)}; the "
                              f"server has {self.answers.get(key) or 'no other answer'}")

    def explanation(self, key, before, after):
        """Why a push was sent again after the one before; None: for nothing."""
        if not self.evidence.effect(before)[1]:
            return "no answer was sent"
        if self._answer_was_lost(key, before, after):
            return "the connection was broken"
        kills = enumerate(self.evidence.kills, 1)
        return next((f"in flight at kill {number}" for number, (last, in_flight) in kills
                     if before.connection <= last < after.connection and key in in_flight), None)

    def _answer_was_lost(self, key, before, after):
        """Its connection was ended on command before the other came, and the server noted that it heard nothing."""
        last = min(after.at, before.at + UNREAD_SECONDS)
        at_the_end = any(before.at - ENDING_SECONDS <= when <= last for when in self.ends[before.connection])
        return at_the_end and '"unanswered"' in self.answers.get(key, '"unanswered"')

    # --- what the phones show

    def icons(self):
        for user in self.evidence.users:
            count = self.evidence.badges[user.app, user.name]
            for device in user.devices:
                if device.token not in self.evidence.living:
                    continue
                shown = icon(self.evidence.phones, device)
                right = shown == count or self._may_differ(device)
                if not self.report.check("icon", right, lambda: self._icon(user, device, shown, count)):
                    self.line(device.token, "clearing").lost += 1

    def _icon(self, user, device, shown, count):
        last = [f"{one.kind} {one.badge}: {one.status or 'no answer'} {one.fault or ''}".strip()
                for one in self.by_token[device.token][-4:]]
        return f"{user.name}'s {device.provider} phone shows {shown}, GET /badge says {count}; last {last}"

    def _may_differ(self, device):
        """Two ways that are nobody's mistake: a badge push that was refused for good isn't repeated until the badge
        changes, and an alert without a number lets an Android launcher count for itself."""
        numbered = [one for one in self.by_token[device.token] if one.badge is not None]
        if numbered and self._ended_by_fault(numbered[-1], faults.REFUSED):
            return True
        arrived = [one for one in self.by_token[device.token] if self.evidence.effect(one)[0]]
        return bool(device.platform == "android" and arrived and arrived[-1].badge is None)


def icon(phones, device):
    """The number on the icon; a phone that never heard of anything has none, which is 0."""
    return phones.get(device.token, {"badge": 0})["badge"]


# --- controls: what the checks must see

def without_one(evidence, rng):
    """One push that arrived is taken from the record."""
    accepted = {(one.token, one.notification) for one in evidence.deliveries if one.state == "accepted" and one.token}
    copies = defaultdict(list)
    for request in evidence.requests:
        if request.notification and evidence.effect(request)[0]:
            copies[request.token, request.notification].append(request)
    chosen = rng.choice(sorted(key for key in accepted if len(copies[key]) == 1))
    return replace(evidence, requests=[one for one in evidence.requests if one is not copies[chosen][0]])


def with_one_twice(evidence, rng):
    """One push that arrived once, and was answered at once by the server's own word, is entered again."""
    arrived = defaultdict(list)
    for one in evidence.requests:
        if one.notification and evidence.effect(one)[0]:
            arrived[one.token, one.notification].append(one)
    plain = [(one.token, one.notification) for one in evidence.deliveries
             if one.state == "accepted" and one.answers is None]
    once = [arrived[key][0] for key in plain if len(arrived[key]) == 1 and evidence.effect(arrived[key][0])[1]]
    return replace(evidence, requests=evidence.requests + [replace(rng.choice(once))])


def with_one_given_up(evidence, rng):
    """One push that arrived once is given up instead, with answers that nothing explains: no connection ended near to them."""
    copies = defaultdict(list)
    for one in evidence.requests:
        copies[one.token, one.notification].append(one)
    chosen = rng.choice([one for one in evidence.deliveries if one.state == "accepted" and len(copies[one.token, one.notification]) == 1])
    late = max(one.at for one in evidence.requests) + 2 * UNREAD_SECONDS
    answer = {"at": datetime.datetime.fromtimestamp(late, datetime.UTC).isoformat(), "outcome": "unanswered"}
    given_up = replace(chosen, state="failed", attempts=ATTEMPTS, answers=json.dumps([answer] * ATTEMPTS))
    sent = copies[chosen.token, chosen.notification][0]
    return replace(evidence, requests=[one for one in evidence.requests if one is not sent],
                   deliveries=[given_up if one is chosen else one for one in evidence.deliveries])


def with_another_icon(evidence, rng):
    """On an iPhone, where no launcher counts, and whose number was refused never."""
    phones = dict(evidence.phones)
    sure = sorted(device.token for user in evidence.users for device in user.devices
                  if device.platform == "ios" and device.token in evidence.living and device.token in phones
                  and (evidence.effect is plain_effect or faults.group(device.token).ends != faults.REFUSED))
    token = rng.choice(sure)
    phones[token] = {**phones[token], "badge": phones[token]["badge"] + 1}
    return replace(evidence, phones=phones)


def unseen(evidence, new_report, seed):
    """The names of the checks that don't see a fault planted in the evidence."""
    rng, missed = random.Random(seed), []
    for plant, kind in ((without_one, "lost"), (with_one_twice, "duplicate"), (with_another_icon, "icon"),
                        (with_one_given_up, "given up for a reason")):
        report = new_report()
        Judge(plant(evidence, rng), report).all()
        if kind not in report.kinds():
            missed.append(kind)
    return missed
