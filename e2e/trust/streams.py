"""Jitter: very many clients whose connections break all the time, and none of them may miss anything.

- cut: 500 clients of /notifications/stream, ten a user, 120 notifications for everybody at 2 a second; every connection is
  cut about every 15 s, stays away for 2 s and resumes with Last-Event-ID. Every notification is seen by every client, once,
  in order; no reset; after coming back 99 of 100 have caught up within 500 ms.
- kill: the same, and in the middle the server is killed with SIGKILL and started again.
- cable: the same with NotificationsChannel on /cable, which doesn't resume: the badge is right after each return.

Beside them a few clients resume without Last-Event-ID. They must miss something, and the checks must see it; so must they
see a notification taken from the record of a client, one doubled, and two exchanged. `--control` lets nobody resume, and
must fail.
"""
import argparse
import asyncio
import copy
import http.client
import random
import time
from dataclasses import dataclass

from e2e import harness
from e2e.harness import stores
from e2e.trust.stream_clients import CableClient, Plan, StreamClient, World

CATCH_UP_SECONDS = 0.5      # 99 of 100 returns
LAST_SECONDS = 20           # after the last change until every client has everything
POST_ATTEMPTS = 200
LIMITS = {"CAMPANILE_STREAMS_PER_USER": "20000", "CAMPANILE_STREAMS_TOTAL": "20000"}


@dataclass
class Size:
    users: int
    clients: int       # a user
    changes: int
    rate: float        # changes a second
    connected: float   # seconds
    offline: float
    forgetful: int     # clients that don't resume


USUAL = Size(50, 10, 120, 2, 15, 2, 10)
SHORT = Size(10, 5, 20, 5, 1.5, 0.4, 5)


class Run:
    """One server, the clients, and the one that posts."""

    def __init__(self, options, folder, size, cable):
        self.size, self.cable = size, cable
        self.server = harness.Campanile(options.binary, stores.new_database(folder), folder, LIMITS)
        self.server.start()
        self.key = self.server.producer_key("streams")
        self.users = [f"user-{number:03d}" for number in range(size.users)]
        self.tokens = {user: self.server.user_token(user) for user in self.users}
        self.world = World(self.server.port, Plan(size.connected, size.offline))
        self.expected = {user: [] for user in self.users}
        self.late = []
        rng = random.Random(options.seed)
        self.clients = [self._client(user, rng, not options.control) for user in self.users for _ in range(size.clients)]
        self.forgetful = [] if cable else [self._client(self.users[n % size.users], rng, False) for n in range(size.forgetful)]

    def _client(self, user, rng, resumes):
        own = random.Random(rng.getrandbits(64))
        if self.cable:
            return CableClient(self.world, user, self.tokens[user], own)
        return StreamClient(self.world, user, self.tokens[user], own, resumes)

    async def run(self, kill):
        tasks = [asyncio.create_task(one.run()) for one in self.clients + self.forgetful]
        watching = asyncio.create_task(self._watch_the_loop())
        try:
            await asyncio.wait_for(asyncio.gather(*(one.ready.wait() for one in self.clients + self.forgetful)), 60)
            killing = asyncio.create_task(self._kill_in_the_middle()) if kill else None
            await self._post_all(tasks)
            if killing:
                await killing
            self.world.plan.over = True
            await self._until_all_is_seen()
        except TimeoutError:
            said = [one.seen.refused[:1] for one in self.clients if not one.ready.is_set()][:3]
            raise harness.HarnessError(f"not every client got its first event: {said}\n{self.server.log_tail()}") from None
        finally:
            watching.cancel()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for one in ended:
            if not isinstance(one, asyncio.CancelledError):
                raise one

    async def _watch_the_loop(self):
        """How late the clients themselves are: what they measure is late by as much."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            self.late.append(time.monotonic() - before - 0.01)

    async def _post_all(self, tasks):
        start = time.monotonic()
        for number in range(self.size.changes):
            await asyncio.sleep(max(0.0, start + number / self.size.rate - time.monotonic()))
            self.world.sent += 1
            # In a thread of its own: the clients read on meanwhile.
            made = await asyncio.to_thread(self._post, number)
            for one in made["notifications"]:
                self.expected[one["user_id"]].append(one["id"])
            self.world.acknowledged += 1
            broken = next((task for task in tasks if task.done()), None)
            if broken is not None:
                broken.result()

    def _post(self, number):
        """One notification for everybody. Asked again with the same Idempotency-Key when the server went away meanwhile."""
        content = {"user_ids": self.users, "title": f"Change {number}", "body": "x" * 200}
        for _ in range(POST_ATTEMPTS):
            try:
                answer = harness.Connection(self.server.port).request(
                    "POST", "/notifications", credential=self.key, body=content, headers={"Idempotency-Key": f"change-{number}"})
                if answer.status == 201:
                    return answer.json()
                if answer.status not in (409, 503):
                    raise harness.HarnessError(f"POST /notifications: {answer}")
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        raise harness.HarnessError("POST /notifications was never answered")

    async def _kill_in_the_middle(self):
        await asyncio.sleep(self.size.changes / self.size.rate / 2)
        await asyncio.to_thread(self.server.kill)
        # From the main thread: the server dies with the thread that started it.
        self.server.start(wait=False)
        await asyncio.to_thread(self.server.wait_until_healthy)

    async def _until_all_is_seen(self):
        """Or until it takes too long; the checks say what is missing then."""
        deadline = time.monotonic() + LAST_SECONDS
        while time.monotonic() < deadline and any(not self._is_done(one) for one in self.clients):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)   # what shouldn't come may come now

    def _is_done(self, client):
        counted = (client.seen.badge or {}).get("count") == self.size.changes
        return counted and (self.cable or len(client.seen.ids) >= self.size.changes)

    def badges(self):
        return {user: self.server.connection().request("GET", "/badge", credential=self.tokens[user]).json() for user in self.users}


# --- the checks

def check_streams(report, seen, expected):
    """What every client of /notifications/stream must have seen. Gives how many sightings are missing."""
    missing = 0
    for one in seen:
        wanted, got = expected[one.user], set(one.ids)
        lost = [identifier for identifier in wanted if identifier not in got]
        missing += len(lost)
        report.check("seen", not lost, f"{one.user}: {len(lost)} of {len(wanted)} never seen, the first {lost[:1]}")
        report.check("once", len(one.ids) == len(got), f"{one.user}: {len(one.ids) - len(got)} seen twice")
        known = set(wanted)
        first = dict.fromkeys(identifier for identifier in one.ids if identifier in known)
        report.check("order", list(first) == [identifier for identifier in wanted if identifier in got]
                     and all(a < b for a, b in zip(one.sequences, one.sequences[1:])), f"{one.user}: not in order")
        report.check("event once", not one.repeated, f"{one.user}: {one.repeated} events whose id had come before")
        report.check("own", got <= known, f"{one.user}: saw {list(got - known)[:1]}, which isn't its own")
    return missing


def check_common(report, seen, badges, slow, killed=False):
    for one in seen:
        report.check("held", killed or not one.dropped, f"{one.user}: the server ended {one.dropped} of its connections")
        report.check("reset", not one.resets, f"{one.user}: {one.resets} resets")
        report.check("stream", not one.refused, f"{one.user}: {one.refused[:1]}")
        report.check("version", not one.older, f"{one.user}: {one.older} badges older than one before")
        report.check("badge", one.badge == {key: badges[one.user][key] for key in ("count", "unread_count", "version")},
                     f"{one.user}: last saw {one.badge}, GET /badge says {badges[one.user]}")
        report.check("badge after a return", not one.wrong_badges, f"{one.user}: {one.wrong_badges[:1]}")
    returns = sorted(seconds for one in seen for seconds in one.returns)
    report.check("cut", bool(returns), "nobody was cut off: this run shows nothing")
    late = percentile(returns, 0.99)
    if slow is not None:
        report.check("catching up", late <= slow, f"p99 {late * 1000:.0f} ms")
    return returns


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def unseen(seen, expected, seed):
    """The kinds of planted faults that the checks don't see."""
    rng = random.Random(seed)

    def take(one):
        at = rng.randrange(len(one.ids))
        del one.ids[at], one.sequences[at]

    def double(one):
        at = rng.randrange(len(one.ids))
        one.ids.insert(at, one.ids[at])
        one.sequences.insert(at, one.sequences[at])

    def exchange(one):
        at = rng.randrange(len(one.ids) - 1)
        one.ids[at], one.ids[at + 1] = one.ids[at + 1], one.ids[at]

    missed = []
    for kind, plant in (("seen", take), ("once", double), ("order", exchange)):
        victim = copy.deepcopy(rng.choice(seen))
        if len(victim.ids) < 2:
            continue   # the run itself has failed
        plant(victim)
        planted = harness.Report()
        check_streams(planted, [victim], expected)
        if kind not in planted.kinds():
            missed.append(kind)
    return missed


# --- the modes

def streams(options, report, size, kill=False):
    with harness.temporary_folder("campanile-streams-") as folder:
        run = Run(options, folder, size, cable=False)
        asyncio.run(run.run(kill))
        seen = [one.seen for one in run.clients]
        missing = check_streams(report, seen, run.expected)
        returns = check_common(report, seen, run.badges(), None if options.short or kill else CATCH_UP_SECONDS, kill)
        without = harness.Report()
        lost = check_streams(without, [one.seen for one in run.forgetful], run.expected)
        report.check("control", "seen" in without.kinds(), "clients without Last-Event-ID missed nothing: this run shows nothing")
        for kind in unseen(seen, run.expected, options.seed):
            report.check("control", False, f"the check '{kind}' did not see a planted fault")
        audit(run, report)
    owed = size.users * size.clients * size.changes
    twice = sum(len(one.ids) - len(set(one.ids)) for one in seen)
    return (f"{told(run, seen, returns)}; {owed - missing:,} of {owed:,} notifications seen ({(owed - missing) / owed:.3%}), "
            f"{twice} twice; without Last-Event-ID {size.forgetful} clients missed {lost:,}")


def kill(options, report, size):
    return streams(options, report, size, kill=True)


def cable(options, report, size):
    with harness.temporary_folder("campanile-streams-") as folder:
        run = Run(options, folder, size, cable=True)
        asyncio.run(run.run(kill=False))
        seen = [one.seen for one in run.clients]
        returns = check_common(report, seen, run.badges(), None if options.short else CATCH_UP_SECONDS)
        for one in seen:
            report.check("once", len(one.ids) == len(set(one.ids)), f"{one.user}: a notification twice")
            report.check("own", set(one.ids) <= set(run.expected[one.user]), f"{one.user}: saw what isn't its own")
        audit(run, report)
    return f"{told(run, seen, returns)}; {sum(len(one.wrong_badges) for one in seen)} wrong badges after a return"


def audit(run, report):
    run.server.stop()
    report.check("audit", *run.server.badge_audit())


def told(run, seen, returns):
    size = run.size
    return (f"{len(seen)} clients, {size.changes} changes at {size.rate:g}/s, {sum(one.cuts for one in seen):,} cuts about every "
            f"{size.connected:g} s with {size.offline:g} s offline, {len(returns):,} returns; caught up after "
            f"{percentile(returns, 0.5) * 1000:.0f} ms (median), {percentile(returns, 0.99) * 1000:.0f} ms (p99), of which the "
            f"clients' own loop is {percentile(sorted(run.late), 0.99) * 1000:.0f} ms (p99)")


MODES = {"cut": streams, "kill": kill, "cable": cable}


def main():
    parser = harness.arguments(__doc__, short="20 seconds in all, for `make test`; judges no time")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("modes", nargs="*", metavar="cut|kill|cable", help="which (default: all three)")
    parser.add_argument("--control", action="store_true", help="nobody resumes with Last-Event-ID: must fail")
    parser.add_argument("--results", help="a file for the figures, in Markdown")
    options = harness.begin(parser)
    if set(options.modes) - set(MODES):
        parser.error(f"unknown: {', '.join(sorted(set(options.modes) - set(MODES)))}")
    failed, texts = False, []
    for mode in options.modes or MODES:
        report, started = harness.Report(), time.monotonic()
        text = MODES[mode](options, report, SHORT if options.short else USUAL)
        failed = failed or bool(report.wrong)
        print(f"{text}\nstreams {mode}: {sum(report.checked.values()):,} checks, {len(report.wrong)} wrong "
              f"({time.monotonic() - started:.0f} s)", flush=True)
        report.print_wrong()
        texts.append(f"### {mode}\n\n{text}\n")
    if options.results:
        with open(options.results, "w", encoding="utf-8") as file:
            file.write("\n".join(texts))
    return 1 if failed else 0


if __name__ == "__main__":
    harness.run(main)
