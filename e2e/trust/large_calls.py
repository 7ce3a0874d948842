"""Calls for 1,000 users, interrupted at random moments and repeated until they are answered: then every user has exactly one entry, with a
delivery for each device, and every repetition gives the same answer. On a SQLite file, or with TEST_STORE=postgres on two nodes.

  kill         SIGKILL of the server
  stop         SIGTERM
  hang-up      the client closes its connection; the call ends after the part that is under way
  two nodes    (PostgreSQL) the same key on both at once; in every second round one of them gets SIGKILL
  failover     (PostgreSQL, not in short) SIGKILL of the primary, the standby promoted
  an old one   a call that a program before parts under the key has begun: killed amid it, the new program finishes it and its key gives
               the answer; on PostgreSQL beside the new one, where a key that the new one has under way is 409 at the old one.
               `--old-binary` names that program; without it what it would have written down is written by SQL

Beside a call that is killed or stopped goes one for 100 users without a key: whole, or not at all. One for more without a key is refused.

The controls, which must be seen: what a call had noted is deleted behind the server's back; on PostgreSQL the key of `idempotency_keys` is
dropped, without which two nodes can't compare what they set.
"""
import hashlib
import json
import random
import time

from e2e import harness
from e2e.harness import stores
from e2e.harness.postgres import Failover
from e2e.trust.large_call_world import NAMES, SMALL, USERS, Call, HungUp, Sender, World, world

AMID_TRIES = 40          # until a kill comes amid a call, where it has to
OLD_ROUNDS = 5           # with an old program
SERVED = 150             # users that the old program's call had served, where it is written by SQL
LOOK_SECONDS = 15        # until a node finishes what an old node left
FAULT_SECONDS = 60       # until a call that is under way can be seen, or is refused


class Delay:
    """Waits for a random moment amid a call."""

    def __init__(self, here: World, report: harness.Report) -> None:
        """Finds out how long a call takes here that nothing interrupts."""
        self.rng, self.whole = here.rng, 0.0
        for _ in range(2):   # the first is slower
            call, began = here.next_call(), time.monotonic()
            answer = call.send(here.nodes[0], here.credential)
            self.whole = time.monotonic() - began
            if report.check("large call", answer.status == 201, lambda: repr(answer)):
                here.check(call, answer, report)

    def wait(self) -> None:
        time.sleep(self.rng.uniform(0.05, 1) * self.whole)


def without_a_key(here: World, report: harness.Report) -> None:
    call = here.next_call(has_key=False)
    answer = call.send(here.nodes[0], here.credential)
    report.check("large call without a key", (answer.status, answer.json().get("code")) == (422, "idempotency_key_required"),
                 lambda: repr(answer))
    report.check("large call without a key made", not here.made(call), f"{call.title}, which was refused, made something")


def interrupted(here: World, call: Call, report: harness.Report) -> None:
    made = here.made(call)
    report.count("amid", 1 if 0 < len(made) < USERS else 0)
    report.check("large call's parts", {len(ids) for ids in made.values()} <= {1}, f"{call.title}: a user has more than one entry")


def ended(here: World, node: harness.Campanile, how: str, delay: Delay, report: harness.Report) -> None:
    """A server ends, and is started again."""
    call, small = here.next_call(), here.next_call(users=NAMES[:SMALL], has_key=False)
    senders = [Sender(one, [node], here.credential) for one in (call, small)]
    delay.wait()
    if how == "kill":
        node.kill()
    else:
        node.stop()
    for sender in senders:
        sender.join()
    node.start()
    interrupted(here, call, report)
    # On PostgreSQL what had reached the database may be committed when its node is gone.
    was_ended = here.has_ended(call) if here.pair is None else None
    report.check("an answer that came stays", senders[0].answer is None or senders[0].answer.status != 201 or here.has_ended(call),
                 f"{call.title} was answered and hasn't ended")
    here.finish(call, report, was_ended)
    here.check_small(small, senders[1].answer, report)


def hung_up(here: World, node: harness.Campanile, delay: Delay, report: harness.Report) -> None:
    call = here.next_call()
    client = HungUp(call, node, here.credential)
    delay.wait()
    client.hang_up()
    interrupted(here, call, report)
    here.finish(call, report)


def two_nodes(here: World, kills: bool, delay: Delay, report: harness.Report) -> Call:
    """The same key on both, each of which is asked until it answers."""
    call = here.next_call()
    senders = [Sender(call, [node], here.credential, repeats=True) for node in here.nodes]
    if kills:
        delay.wait()
        here.nodes[0].kill()
        interrupted(here, call, report)
        here.nodes[0].start()
    for sender in senders:
        sender.join()
    report.count("409 of two nodes", sum(answer.status == 409 for sender in senders for answer in sender.refusals))
    answers = [sender.answer for sender in senders if sender.answer is not None]
    bodies = {answer.body for answer in answers}
    firsts = sum(answer.header("Idempotency-Replayed") is None for answer in answers)
    report.check("one answer of two nodes", len(answers) == 2 and len(bodies) == 1, lambda: f"{call.title}: {len(bodies)} answers")
    # The one that ended it may have been killed before it could say so.
    report.check("one node's first answer", firsts == 1 or kills and firsts == 0,
                 f"{call.title}: {firsts} answers without Idempotency-Replayed")
    for answer in answers[:1]:
        here.check(call, answer, report)
    return call


def failed_over(here: World, delay: Delay, report: harness.Report) -> None:
    call, small = here.next_call(), here.next_call(users=NAMES[:SMALL], has_key=False)
    senders = [Sender(one, here.nodes[:1], here.credential) for one in (call, small)]
    watching = Failover(here.pair, 0.5)
    delay.wait()
    here.pair.primary.kill()
    watching.start()
    watching.wait()
    for sender in senders:
        sender.join()
    interrupted(here, call, report)
    here.finish(call, report)
    here.check_small(small, senders[1].answer, report)
    here.pair.join()


# --- an old program

def old_program(binary: str, old: str, rng: random.Random, report: harness.Report) -> None:
    """The old program makes the database and is killed amid a call; the new one finishes that. On PostgreSQL the two are nodes of one
    database meanwhile."""
    for _ in range(AMID_TRIES):
        with world(old, rng) as here:
            node, new = here.nodes[0], here.nodes[-1]
            if here.pair is not None:
                new.stop()
                new.binary = binary
                new.start()
                beside(here, new, node, report)
            call = killed_amid(here, node)
            if call is None:
                continue
            if here.pair is None:
                node.binary = binary
                node.start()
            here.nodes = [new]   # the old one knows the schema no more
            wait_for_look(here, call, report)
            here.finish(call, report, was_ended=True)
            here.check_badges(report)
            return
    raise harness.HarnessError(f"none of {AMID_TRIES} kills came amid a call of {old}")


def beside(here: World, new: harness.Campanile, old: harness.Campanile, report: harness.Report) -> None:
    """A call that the new node has begun, and its key at the old one."""
    for _ in range(AMID_TRIES):
        call = here.next_call()
        client = HungUp(call, new, here.credential)
        deadline = time.monotonic() + FAULT_SECONDS
        while not here.made(call) and time.monotonic() < deadline:
            time.sleep(0.005)
        client.hang_up()
        at_old = call.send(old, here.credential)
        if not here.has_ended(call):
            report.check("a new node's key at an old one", at_old.status == 409, lambda: repr(at_old))
            break
    here.nodes = [new]
    here.finish(call, report)
    here.nodes = [old, new]
    again = call.send(old, here.credential)
    report.check("a new node's answer at an old one", again.header("Idempotency-Replayed") == "true", lambda: repr(again))


def killed_amid(here: World, node: harness.Campanile) -> Call | None:
    call = here.next_call()
    sender = Sender(call, [node], here.credential)
    while here.rows("SELECT count(*) FROM large_calls") == [["0"]] and sender.is_alive():
        time.sleep(0.005)
    time.sleep(here.rng.uniform(0, 0.1))
    node.kill()
    sender.join()
    return call if 0 < len(here.made(call)) < USERS else None


def wait_for_look(here: World, call: Call, report: harness.Report) -> None:
    deadline = time.monotonic() + LOOK_SECONDS
    while here.rows("SELECT count(*) FROM large_calls") != [["0"]] and time.monotonic() < deadline:
        time.sleep(0.1)
    report.check("an old program's call", here.rows("SELECT count(*) FROM large_calls") == [["0"]],
                 f"{call.title} isn't finished after {LOOK_SECONDS} s")


def old_rows(here: World, report: harness.Report) -> None:
    """Where the old program isn't there, its rows are. All nodes are stopped meanwhile, so that a start finds them."""
    call = written(here)
    for node in here.nodes:
        node.start()
    wait_for_look(here, call, report)
    here.finish(call, report, was_ended=True)


def written(here: World) -> Call:
    """Serves some of a call's users, stops, and writes the rows that the old program would have left."""
    call, made = here.next_call(), list[str]()
    for first in range(0, SERVED, SMALL):
        some = Call(here.number, users=call.users[first:min(first + SMALL, SERVED)], has_key=False)
        made += [one["id"].replace("-", "") for one in some.send(here.nodes[0], here.credential).json()["notifications"]]
    for node in here.nodes:
        node.stop()
    is_file = here.pair is None
    fingerprint = binary_literal(is_file, hashlib.sha256(call.body).hexdigest())
    of_key = f"id, '{call.key}', {fingerprint}"
    here.execute(
        "INSERT INTO large_calls (id, app, user_ids, title, body, push, sound, api_key_id, key, fingerprint) "
        f"SELECT 1, 'default', '{json.dumps(call.users)}', '{call.title}', 'To all of you', {'1' if is_file else 'true'}, 'default', "
        f"{of_key} "
        "FROM api_keys WHERE name = 'many'; "
        f"INSERT INTO large_call_parts (call_id, done, ids) VALUES (1, 0, {binary_literal(is_file, ''.join(made))});")
    if not is_file:
        here.execute("INSERT INTO idempotency_keys (api_key_id, key, fingerprint, created_at) "
                     f"SELECT {of_key}, {int(time.time() * 1000)} FROM api_keys WHERE name = 'many'")
    return call


def binary_literal(is_file: bool, digits: str) -> str:
    return f"x'{digits}'" if is_file else f"'\\x{digits}'::bytea"


# --- controls

def controls(here: World, delay: Delay) -> list[str]:
    """The checks that didn't see what was planted for them. The world is of no use afterwards."""
    unseen, seen = [], harness.Report()
    for _ in range(AMID_TRIES):
        call = here.next_call()
        client = HungUp(call, here.nodes[0], here.credential)
        delay.wait()
        client.hang_up()
        if wait_until_free(here, call):
            break
    here.execute(f"DELETE FROM idempotency_keys WHERE key = '{call.key}'")
    here.finish(call, seen)
    if "large call whole" not in seen.kinds():
        unseen.append("large call whole: what was noted is forgotten")
    if here.pair is not None:
        here.execute("ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey")
        seen = harness.Report()
        for _ in range(AMID_TRIES):
            two_nodes(here, False, delay, seen)
            if seen.kinds():
                break
        if "large call whole" not in seen.kinds():
            unseen.append("large call whole: two nodes that don't compare what they set")
    return unseen


def wait_until_free(here: World, call: Call) -> bool:
    """Whether a call that nobody waits for has stopped amid its users."""
    other = Call(here.number)
    other.body += b" "
    deadline = time.monotonic() + FAULT_SECONDS
    while other.send(here.nodes[0], here.credential).status == 409 and time.monotonic() < deadline:
        time.sleep(0.02)
    return 0 < len(here.made(call)) < USERS


# --- a fault of the disk, of faults.py

def amid_a_call(fault, binary: str, is_stopped: bool, report: harness.Report) -> str:
    """The disk fails amid a call, which is answered with 503, whether or not the server is told to stop. When the disk works again, the
    call is repeated, at this server or the next."""
    here = World(binary, fault.folder, random.Random(), standby=False)
    here.nodes = [fault.server(binary)]
    try:
        here.begin()
        for _ in range(AMID_TRIES):
            call = here.next_call()
            sender = Sender(call, here.nodes, here.credential)
            while not here.made(call) and sender.is_alive():
                time.sleep(0.002)
            with fault.lasting(here.nodes[0]):
                made = len(here.made(call))
                if is_stopped and 0 < made < USERS:
                    here.nodes[0].stop()
                sender.join()
            if 0 < made < USERS:
                break
        else:
            raise harness.HarnessError(f"in none of {AMID_TRIES} tries did the disk fail amid a call for {USERS} users")
        refused = sender.answer
        # One that the stop overtook ends its connection, as every POST does whose outcome nobody can say.
        report.check("large call refused", refused is None and is_stopped or refused is not None and refused.status == 503
                     and refused.header("Retry-After") is not None, lambda: f"{call.title}: {refused!r}")
        if is_stopped:
            here.nodes[0].start()
        here.finish(call, report)
        here.check_badges(report)
        return f"{made} of {USERS} users were served before"
    finally:
        here.end()


# --- all of it

def kinds(has_standby: bool) -> list[str]:
    of_nodes = ["two nodes"] * 2 + ["failover"] * has_standby if stores.is_postgres() else []
    return ["kill", "stop", "hang-up", "kill", "hang-up", *of_nodes]


def points(here: World, count: int, delay: Delay, report: harness.Report) -> dict[str, int]:
    done: dict[str, int] = {}
    for number in range(count):
        some = kinds(here.has_standby)
        kind = some[number % len(some)]
        done[kind] = done.get(kind, 0) + 1
        node = here.rng.choice(here.nodes)
        if kind == "hang-up":
            hung_up(here, node, delay, report)
        elif kind == "two nodes":
            two_nodes(here, done[kind] % 2 == 0, delay, report)
        elif kind == "failover":
            failed_over(here, delay, report)
        else:
            ended(here, node, kind, delay, report)
    return done


def main() -> int:
    parser = harness.arguments(__doc__, short="few points, without a standby, for `make test`")
    parser.add_argument("--points", type=int, help="200")
    parser.add_argument("--old-binary", help="a program before parts under the key")
    options = harness.begin(parser)
    rng, report, started = random.Random(options.seed), harness.Report(), time.monotonic()
    count = options.points or (len(kinds(False)) if options.short else 200)
    with world(options.binary, rng, standby=stores.is_postgres() and not options.short) as here:
        delay = Delay(here, report)
        without_a_key(here, report)
        done = points(here, count, delay, report)
        here.check_badges(report)
        if not options.old_binary:
            old_rows(here, report)
        unseen = controls(here, delay)
    for _ in range(1 if options.short else OLD_ROUNDS):
        if options.old_binary:
            old_program(options.binary, options.old_binary, rng, report)
    amid = report.checked.get("amid", 0)
    if not options.short:
        report.check("amid", amid >= count // 5, f"only {amid} of {count} points came amid a call")
    print(f"large calls: {', '.join(f'{number} × {kind}' for kind, number in done.items())}; {amid} came amid the call; "
          f"{report.checked.get('large calls', 0)} calls for {USERS} users checked, "
          f"{report.checked.get('409 and 503 before the answer', 0)} refusals on the way; old program: "
          f"{'itself' if options.old_binary else 'its rows'}; {sum(report.checked.values())} checks, {len(report.wrong)} wrong "
          f"({time.monotonic() - started:.0f} s)")
    status = report.verdict(unseen)
    if not unseen:
        of_nodes = " and nodes that don't compare were" if stores.is_postgres() else " was"
        print(f"large calls control: a note that is forgotten{of_nodes} seen")
    return status


if __name__ == "__main__":
    harness.run(main)
