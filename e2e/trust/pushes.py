"""Real pushes under faults, against `campanile simulator`: none is lost, none comes twice without a reason, and every
icon ends on the badge.

- `faults`: a service that is down and a certificate that nobody trusts, then every fault of the simulator
  (push_faults.py) × alert and clearing, all at once over many devices of two apps, APNs and FCM. A line for each.
- `kill`: SIGKILL of the server while thousands of pushes are under way. What comes twice was in flight at a kill.
- `order`: an alert and a clearing for one device at the same moment, with retries and refused streams mixed in; after
  each round every icon equals GET /badge.

Without a name all three run. The server's delays between retries are divided by 600, nothing else is. Each mode ends
with its control: evidence in which one push is missing, one is doubled, one icon is wrong and one alert is given up for
nothing must be found fault with (order: one wrong icon). `--control` takes one push from the record of the run itself, which must then exit 1.
"""
import contextlib
import http.client
import random
import statistics
import time

from e2e import harness
from e2e.harness import stores
from e2e.trust import push_faults
from e2e.trust.push_judge import ATTEMPTS, Evidence, Judge, effect, icon, plain_effect, unseen, with_another_icon, without_one
from e2e.trust.push_record import Record
from e2e.trust.push_world import Device, User, world

FIRST_PUSH_SECONDS = 1.0     # after the first answer of a restarted server
TAKEOVER_SECONDS = 35.0      # the same on PostgreSQL, where it waits until nobody can have the shards or a push in flight any more
# A simulator on a very busy machine answers 8 pushes a second. A server that waits 20 s for an answer sends again, as it should, and no
# kill explains that; so in short there are few enough at once that it doesn't come to that.
FEW_IN_FLIGHT = 60


def apns_token(rng, number=None):
    rest = f"{rng.getrandbits(248):062x}"
    return (push_faults.prefix(number) if number is not None else "ff") + rest


def fcm_token(rng, number):
    # What stands before the colon is an installation's own: pushes to one wait for each other.
    return (push_faults.prefix(number) if number is not None else "ff") + f"{rng.getrandbits(80):020x}:{rng.getrandbits(160):040x}"


def new_user(name, app, devices):
    return User(name, app, harness.user_token(harness.JWT_SECRET, name, app=app), devices)


def settled(here, report):
    """Waits until nothing is owed any more."""
    report.check("settled", here.wait_until_quiet(), here.unsettled)


def gather(here, record, sense=effect, kills=()):
    requests = record.complete()
    return Evidence(requests, here.deliveries(), here.posted, here.users, here.living_tokens(),
                    here.simulator.phones(), here.badges(), here.simulator.counters(), sense, here.simulator.changes,
                    list(kills))


def judged(mode, evidence, report, options, plant=without_one):
    """The checks, and the checks of the checks."""
    if options.control:
        evidence = plant(evidence, random.Random(options.seed))
    judge = Judge(evidence, report).all()
    missed = [] if options.control else unseen(evidence, harness.Report, options.seed)
    for kind in missed:
        report.check("control", False, f"{mode}: the check '{kind}' did not see a planted fault")
    return judge


# --- faults

def faults(options, report):
    total = options.deliveries or (2_000 if options.short else 100_000)
    waves = 5 if options.short else 25
    rng = random.Random(options.seed)
    with world(options, "faults", apps=("default", "second")) as here:
        here.add_users(fault_users(rng, total // waves, here.apps))
        record = Record(here.simulator)
        record.start()
        owed = trouble_of_a_service(here, record, options)
        here.simulator.set_faults(push_faults.rules(options.short))
        while owed < total:
            owed += wave(here, record, f"Wave {owed}", 3 if options.short else 6)
        meet_the_rest(here, record)
        settled(here, report)
        tell_anew(here, report, options)
        evidence = gather(here, record)
        here.server.stop()
        said = here.server.log_tail(20_000)
    judge = judged("faults", evidence, report, options)
    if report.wrong and not options.control:
        print(f"the server's log:\n{said}", flush=True)
    return fault_table(judge, evidence, report)


def fault_users(rng, devices, apps):
    """Users with an iPhone each; some have an Android phone too, some an iPhone that is reached through FCM."""
    apple, google = push_faults.for_service("apns"), push_faults.for_service("fcm")
    users, made = [], 0
    while made < devices:
        number = len(users)
        mine = [Device(apns_token(rng, apple[number % len(apple)]))]
        # Each of the two counts on by itself, so that every fault meets every kind of device.
        if number % 3 == 0:
            mine.append(Device(fcm_token(rng, google[number // 3 % len(google)]), "android", "fcm"))
        elif number % 3 == 1:
            mine.append(Device(fcm_token(rng, google[number // 3 % len(google)]), "ios", "fcm"))
        # Blocks of a whole round of faults take turns, so that both apps see all of them.
        users.append(new_user(f"user-{number:06d}", apps[number // len(apple) % len(apps)], mine))
        made += len(mine)
    return users


def wave(here, record, title, patience):
    """An alert to everybody, and a clearing when most of them have gone out, or after so many seconds."""
    before = len(record.requests)
    owed = here.post_all(title)
    record.wait_for(before + owed * 9 // 10, patience)
    here.each(here.mark_read, here.users)
    record.wait_for(len(record.requests) + owed // 2, patience / 3)
    return owed


def meet_the_rest(here, record):
    """Alerts and clearings to the devices whose faults no push has met. On a slow machine the clearings of the waves
    come before most alerts have gone out; here each waits for the one before. A fault meets every third push of its
    group at the latest in the short form, so that a few rounds are enough."""
    for number in range(6):
        record.read()
        met = {(one.token[:2], one.kind) for one in record.requests if one.fault is not None}
        # The record doesn't name delays.
        rest = {push_faults.prefix(n) for n, fault in enumerate(push_faults.FAULTS) for kind in fault.kinds
                if (push_faults.prefix(n), kind) not in met and "latency" not in fault.name}
        users = [user for user in here.users if any(one.token[:2] in rest for one in user.devices)]
        if not users:
            return
        here.each(lambda user: here.post(user, f"The rest, {number}"), users)
        here.wait_until_quiet()
        here.each(here.mark_read, users)
        here.wait_until_quiet()


def trouble_of_a_service(here, record, options):
    """FCM is down, then both services show a certificate that nobody trusts. Gives how many alerts were owed."""
    seconds = 1 if options.short else 5
    here.simulator.set_faults([{"match": {"service": "fcm"}, "action": {"type": "outage"}}])
    owed = here.post_all("While FCM is down")
    time.sleep(seconds)
    here.simulator.set_faults([])
    here.simulator.certificate("other_ca")
    here.each(here.mark_read, here.users)
    time.sleep(seconds)
    here.simulator.certificate("leaf")
    record.wait_for(owed, 10)
    return owed


def tell_anew(here, report, options):
    """A badge push that failed as often as is tried is given up until the badge changes. It does here, without faults, so
    that these icons have to be right as well. (On a slow machine connections break for longer than the shortened
    retries last.)"""
    exhausted = here.exhausted_tokens(ATTEMPTS)
    users = [user for user in here.users if any(one.token in exhausted for one in user.devices)]
    here.simulator.set_faults([])
    here.each(lambda user: here.post(user, "After the faults"), users)
    here.each(here.mark_read, users)
    settled(here, report)


def fault_table(judge, evidence, report):
    lines = ["| fault | push | sent | met it | arrived | sent again | twice | lost |",
             "|---|---|--:|--:|--:|--:|--:|--:|"]
    counters = evidence.counters
    for number, fault in enumerate(push_faults.FAULTS):
        for kind in fault.kinds:
            line = judge.lines[push_faults.prefix(number), kind]
            name = fault.name if fault.apns and fault.fcm else f"{fault.name} ({'APNs' if fault.apns else 'FCM'})"
            # The record doesn't name delays; the simulator counts them.
            met = counters["faults"].get("latency", 0) if "latency" in name else line.met
            report.check("coverage", met > 0, f"{name}, {kind}: no push met it")
            lines.append(f"| {name} | {kind} | {line.sent:,} | {met:,} | {line.applied:,} | {line.again:,} "
                         f"| {line.duplicates:,} | {line.lost:,} |")
    states = {}
    for delivery in evidence.deliveries:
        states[delivery.state] = states.get(delivery.state, 0) + 1
    return "\n".join(lines + [
        "", f"{len(evidence.deliveries):,} deliveries: "
        + ", ".join(f"{n:,} {state}" for state, n in sorted(states.items()))
        + f". {len(evidence.requests):,} requests over {counters['connections']:,} connections, "
        f"{counters['stream_limit_violations']} streams above the limit, {judge.duplicates:,} alerts twice, "
        f"{sum(line.lost for line in judge.lines.values())} lost, "
        f"{report.checked.get('the same apns-id', 0):,} deliveries with one `apns-id`, "
        f"{report.checked.get('icon', 0):,} icons compared."])


# --- kill

def kill(options, report):
    kills = options.kills or (4 if options.short else 25)
    many = options.deliveries or (FEW_IN_FLIGHT if options.short else 10_000)
    rng = random.Random(options.seed)
    with world(options, "kill") as here:
        here.add_users([new_user(f"user-{n:06d}", "default", [Device(apns_token(rng))]) for n in range(many)])
        # Answers take their time, so that there is always a lot in flight.
        here.simulator.set_faults([{"action": {"type": "latency", "from_ms": 500, "to_ms": 900}}])
        record = Record(here.simulator)
        record.start()
        killed, delays = [], []
        # A device has one push in flight: of few devices' pushes those of a round ahead make the others wait.
        owed = here.post_all("A round ahead") if options.short else 0
        for number in range(kills):
            if options.short or here.owed() < many // 2:
                owed += here.post_all(f"Round {number}")
            record.wait_for(len(record.requests) + rng.randrange(many // 50, 2 * many if options.short else many // 3), 20)
            killed.append(kill_once(here, record, delays))
        settled(here, report)
        # The controls need pushes that came once, and all others may have been in flight at a kill.
        owed += here.post_all("After the kills", here.users[:FEW_IN_FLIGHT])
        settled(here, report)
        evidence = gather(here, record, plain_effect, killed)
        here.server.stop()
    judge = judged("kill", evidence, report, options)
    report.check("kills while something was owed", bool(delays), "none")
    slowest = max(delays, default=0.0)
    if not options.short:
        allowed = TAKEOVER_SECONDS if stores.is_postgres() else FIRST_PUSH_SECONDS
        report.check("first push", slowest <= allowed, f"{slowest:.2f} s after the restart's first answer")
    return (f"{kills} times SIGKILL, {owed:,} deliveries, "
            f"{sum(len(in_flight) for _, in_flight in killed):,} times one in flight at a kill, "
            f"{judge.duplicates:,} came twice, {sum(kind == 'duplicate' for kind, _ in report.wrong)} of those not in "
            f"flight; first push after a restart's first answer: "
            f"{statistics.median(delays or [0.0]) * 1000:.0f} ms (median), {slowest * 1000:.0f} ms (longest)")


def kill_once(here, record, delays):
    """SIGKILL and restart. Gives the last connection and what was in flight; adds how long after the restarted server's
    first answer its first push came."""
    here.server.kill()
    stores.wait_until_left(here.server.database)
    in_flight, owed = here.in_flight(), here.owed()
    # The record may not name the newest yet: a slow simulator has still to read what came over it.
    last = here.simulator.counters()["connections"]
    record.read()
    seen = len(record.requests)
    here.server.start(wait=False)
    answered = first_answer(here.server)
    if owed == 0:   # the kill came after the last answer, and nothing is left to send
        return last, in_flight
    deadline = time.monotonic() + TAKEOVER_SECONDS + 10
    while time.monotonic() < deadline:
        first = min((one.at for one in record.requests[seen:] if one.connection > last), default=None)
        if first is not None:
            delays.append(max(0.0, first - answered))
            return last, in_flight
        time.sleep(0.02)
    raise harness.HarnessError(f"the restarted server sent nothing within {TAKEOVER_SECONDS + 10} s, and owed something to {owed} devices")


def first_answer(server):
    """The time of the first answer of a server that is starting, in seconds since 1970."""
    deadline = time.monotonic() + harness.START_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if server.connection().request("GET", "/healthz").status == 200:
                return time.time()
        time.sleep(0.002)
    raise harness.HarnessError(f"the server did not start again:\n{server.log_tail()}")


# --- order

ORDER_FAULTS = [
    {"action": {"type": "latency", "from_ms": 0, "to_ms": 40}, "probability": 0.5},
    {"action": {"type": "refused_stream"}, "probability": 0.05},
    {"match": {"service": "apns"}, "action": {"type": "status", "reason": "InternalServerError"}, "probability": 0.04},
    {"match": {"service": "fcm"}, "action": {"type": "status", "reason": "UNAVAILABLE"}, "probability": 0.04},
    {"action": {"type": "reset_stream", "code": 2, "applied": True}, "probability": 0.04},
    {"action": {"type": "reset_stream", "code": 2, "applied": False}, "probability": 0.04},
    {"action": {"type": "goaway", "last": "older", "by": 3}, "probability": 0.005},
]


def order(options, report):
    pairs = options.pairs or (300 if options.short else 10_000)
    rng = random.Random(options.seed)
    wrong, rounds = 0, 0
    with world(options, "order") as here:
        here.add_users([new_user(f"user-{n:06d}", "default", [order_device(rng, n)])
                        for n in range(min(pairs, 100 if options.short else 250))])
        here.simulator.set_faults(ORDER_FAULTS)
        done = 0
        while done < pairs:
            calls = [call for user in here.users for call in at_once(here, user, rounds, rng)]
            here.each(lambda call: call(), calls)
            done, rounds = done + len(here.users), rounds + 1
            settled(here, report)
            wrong += compare(here, report, options, rounds, planted=options.control and done >= pairs)
        counters = here.simulator.counters()
        planted = harness.Report()
        compare(here, planted, options, rounds, planted=True)
        here.server.stop()
    violations = counters["stream_limit_violations"]
    report.check("stream limit", violations == 0, f"{violations} streams above the limit")
    if not options.control:
        report.check("control", "icon" in planted.kinds(), "order: a wrong icon was not seen")
    return (f"{done:,} times an alert and a clearing at once, in {rounds} rounds, {counters['requests']:,} requests, "
            f"faults: {', '.join(f'{n:,} {name}' for name, n in sorted(counters['faults'].items()))}; "
            f"{counters['older_badges']} times an older number came later; {wrong} icons differ from GET /badge")


def order_device(rng, number):
    """Every fourth iPhone is reached through FCM."""
    return Device(apns_token(rng)) if number % 4 else Device(fcm_token(rng, None), "ios", "fcm")


def at_once(here, user, number, rng):
    """The two calls, in either order; they run side by side in two threads."""
    clear = here.look if rng.random() < 0.5 else here.mark_read
    calls = [lambda: here.post(user, f"Round {number}"), lambda: clear(user)]
    rng.shuffle(calls)
    return calls


def compare(here, report, options, number, planted):
    """How many icons differ from GET /badge."""
    evidence = Evidence([], [], {}, here.users, {one.token for user in here.users for one in user.devices},
                        here.simulator.phones(), here.badges(), {}, plain_effect)
    if planted:
        evidence = with_another_icon(evidence, random.Random(options.seed))
    wrong = 0
    for user in here.users:
        count, shown = evidence.badges[user.app, user.name], icon(evidence.phones, user.devices[0])
        heard = evidence.phones.get(user.devices[0].token, {"history": []})["history"][-4:]
        wrong += not report.check("icon", shown == count, lambda: f"round {number}: {user.name}'s phone shows {shown}, "
                                  f"GET /badge says {count}; it heard {heard}")
    return wrong


MODES = {"faults": faults, "kill": kill, "order": order}


def main():
    parser = harness.arguments(__doc__, short="a minute in all, for `make test`; judges no time")
    parser.add_argument("modes", nargs="*", metavar="faults|kill|order", help="which (default: all three)")
    parser.add_argument("--simulator", help="the program that has `simulator` (default: --binary)")
    parser.add_argument("--deliveries", type=int, help="faults: 100,000 in all; kill: 10,000 under way")
    parser.add_argument("--kills", type=int, help="25")
    parser.add_argument("--pairs", type=int, help="order: 10,000")
    parser.add_argument("--control", action="store_true", help="take one push from the record: must fail")
    parser.add_argument("--results", help="a file for the tables, in Markdown")
    options = harness.begin(parser)
    if set(options.modes) - set(MODES):
        parser.error(f"unknown: {', '.join(sorted(set(options.modes) - set(MODES)))}")
    failed, texts = False, []
    for mode in options.modes or MODES:
        report, started = harness.Report(), time.monotonic()
        text = MODES[mode](options, report)
        failed = failed or bool(report.wrong)
        print(f"{text}\npushes {mode}: {sum(report.checked.values()):,} checks, {len(report.wrong)} wrong "
              f"({time.monotonic() - started:.0f} s)", flush=True)
        report.print_wrong()
        texts.append(f"### {mode}\n\n{text}\n")
    if options.results:
        with open(options.results, "w", encoding="utf-8") as file:
            file.write("\n".join(texts))
    return 1 if failed else 0


if __name__ == "__main__":
    harness.run(main)
