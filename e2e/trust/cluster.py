"""A cluster, and everything that can be broken in it: three nodes on a primary and a synchronous standby, nginx in front.

- `failover`: 25 times SIGKILL of the primary under 300 requests a second, the standby promoted, the old primary led back. Nothing
  acknowledged is missing, badges equal a recount, only what was in flight comes twice, writes go on within 5 s of the promotion, streams
  stay open. Control: an asynchronous standby that is cut off must lose something.
- `killed`: SIGKILL of a node with pushes under way, which others take over within 35 s; of one at rest, within 10 s.
- `withdrawn`: 25 times SIGKILL of a node amid edits and withdrawals. Nothing withdrawn is in an inbox or on a phone, and every edit holds.
- `stopped`: a node is stopped for 60 s amid pushes that are on their way, and again amid pushes that wait for a stream. Others take them
  over within 35 s, and those to devices at rest within 10 s; then it goes on. Never two pushes in flight for a token, never an older
  number after a newer one. Control: without the epoch it must fail.
- `added`: a node that is started under load sends its share within 15 s.
- `partitions`: the lines between node and database, primary and standby, node and Apple are cut, one way too; PostgreSQL is restarted, its
  sessions are ended, it has none left. Nothing is lost, everything recovers by itself. Needs root, for networks of its own.
- `parted`: 10 times the standby is cut off from primary and nodes until nodes have given up commits that wait for it, and is promoted. No
  reader sees a version fall, no stream misses anything. Control: commits cancelled by hand are seen and lost; the streams that told of
  them are reset.
- `history`: 1,000,000 operations on three nodes: versions and sequences grow strictly at every reader, no resume misses anything.

Without a name all run (--short: all but `partitions`, small, on the machine's own network, no time judged).
Each ends with its controls. Needs Debian's postgresql, nginx and iproute2.
"""
import time
from dataclasses import replace

from e2e import harness
from e2e.harness.cluster import Shape
from e2e.harness.postgres import Failover
from e2e.trust import cluster_history, cluster_sql
from e2e.trust.cluster_parted import parted, parted_cancelled
from e2e.trust.cluster_partitions import partitions
from e2e.trust.cluster_world import (
    ARRIVES_SECONDS,
    answered,
    check_badges,
    check_ledger,
    check_phones,
    check_streams,
    check_the_checks,
    check_the_checks_of_edits,
    check_titles,
    judged,
    settled,
    world,
)

WRITES_BACK_SECONDS = 5      # from the promotion to the first write that is acknowledged
TAKEN_OVER_SECONDS = 35      # from a node's end to the last push that it had under way
IDLE_SECONDS = 10            # from a node's end to the last of what came after it
STOPPED_SECONDS = 60
SPARED_SECONDS = 50         # from a stop until those who had pushes under way read everything: after that nothing is sent again
SHARE_SECONDS = 15
HALF_A_SHARE = 0.5 / 3         # of the third of three nodes, in one second
PATIENCE_SECONDS = 1.0       # of who watches the primary


def size(options, usual, short):
    return short if options.short else usual


# --- failover

def failover(options, report):
    kills, rate = options.kills or size(options, 25, 2), options.rate or size(options, 300, 40)
    backs, promotions, readings, ways = [], [], [], []
    with world(options, Shape(), users=size(options, 400, 40)) as here:
        load = here.load(rate, watched=20, streams=size(options, 60, 10))
        for _ in range(kills):
            time.sleep(here.rng.uniform(2, 5))
            fault, promoted = kill_primary(here)
            promotions.append(promoted - fault.began)
            backs.append(until(lambda: load.ledger.first_write_after(promoted)) - promoted)
            readings.append(until(lambda: load.ledger.first_read_after(promoted)) - promoted)
            ways.append(here.cluster.pair.join())
        load.end()
        settled(here, report)
        check_ledger(here, report, load)
        check_badges(here, report)
        check_streams(report, load)
        check_the_checks(here, report, load)
        judge = judged(here, report)
        lost = len([kind for kind, _ in report.wrong if kind == "acknowledged"])
        here.cluster.stop()
    if not options.short:
        report.check("writes back", max(backs) <= WRITES_BACK_SECONDS, f"{max(backs):.1f} s after a promotion")
        report.check("reads back", max(readings) <= WRITES_BACK_SECONDS, f"{max(readings):.1f} s after a promotion")
    return (f"{kills} kills of the primary, {load.ledger.requests:,} requests, {load.ledger.acknowledged:,} writes acknowledged, {lost} of those "
            f"lost, {len(load.ledger.failures):,} requests failed; promoted {middle(promotions)} s after the kill; first write "
            f"{middle(backs)} s after the promotion; first read {middle(readings)} s after it; {judge.duplicates:,} pushes came twice; "
            f"back by {', '.join(f'{ways.count(way)} × {way}' for way in sorted(set(ways)))}; {len(load.clients)} streams")


def kill_primary(here):
    """SIGKILL, and the standby promoted. Gives the fault and when the standby took writes."""
    watching, held = Failover(here.cluster.pair, PATIENCE_SECONDS), []

    def look(standby):
        standby.wait_until_replayed()
        held.append(here.in_flight(standby))
    watching.before_promotion = look
    watching.start()
    fault = here.fault("the primary was killed", set())
    here.cluster.primary.kill()
    fault.hit()
    promoted = watching.wait()
    fault.in_flight = held[0]
    return fault, promoted


def failover_control(options, report):
    """An asynchronous standby that has heard nothing of its primary for a second: something must be missing, and be seen."""
    shape = Shape(commit="off", synchronous=False, environment={"CAMPANILE_UNSAFE_SYNCHRONOUS": "off"})
    with world(options, shape, users=40) as here:
        load = here.load(size(options, 200, 40))
        time.sleep(3)
        here.cluster.pair.standby.set(primary_conninfo="")
        time.sleep(1)
        watching = Failover(here.cluster.pair, PATIENCE_SECONDS)
        here.cluster.primary.kill()
        watching.start()
        promoted = watching.wait()
        until(lambda: load.ledger.first_write_after(promoted))
        load.end()
        seen = harness.Report()
        check_ledger(here, seen, load)
    lost = len([kind for kind, _ in seen.wrong if kind == "acknowledged"])
    report.check("control", lost > 0, "an asynchronous standby lost nothing: this run shows nothing")
    return f"control, an asynchronous standby: {lost:,} of {load.ledger.acknowledged:,} acknowledged writes lost"


# --- a node that is killed, one that is stopped, one that is added

def killed(options, report):
    rounds, users = size(options, 5, 1), size(options, 3000, 200)
    busy, idle = [], []
    with world(options, Shape(), users=users) as here:
        for number in range(rounds):
            node = here.cluster.nodes[number % 3]
            here.post_until_sending(f"Busy {number}", node)
            fault = end_node(here, node)
            # Nobody takes it over for seconds. Few pushes may all have been answered at this very moment.
            report.check("under way", options.short or bool(here.sending(node)), "a node was killed amid pushes, and none of them was under way")
            settled(here, report)
            busy.append(last_push(here) - fault.began)
            start_again(here, node)
            share = here.cluster.wait_for(lambda: here.cluster.query(cluster_sql.OWNERS)[0][0] == "3", size(options, SHARE_SECONDS, 120))
            report.check("share", share, "a node that was started again hasn't its share in time")
            fault = end_node(here, node)
            here.post_all(f"Idle {number}")
            settled(here, report)
            idle.append(last_push(here) - fault.began)
            start_again(here, node)
        check_badges(here, report)
        judge = judged(here, report)
        here.cluster.stop()
    if not options.short:
        report.check("taken over", max(busy) <= TAKEN_OVER_SECONDS, f"the last push under way came after {max(busy):.1f} s")
        report.check("taken over", max(idle) <= IDLE_SECONDS, f"the last push of idle shards came after {max(idle):.1f} s")
    return (f"{2 * rounds} kills of a node, {len(here.posted):,} alerts: the last push came {middle(busy)} s after a kill amid pushes, "
            f"{middle(idle)} s after one at rest; {judge.duplicates:,} came twice")


def withdrawn(options, report):
    kills, rate = options.kills or size(options, 25, 2), options.rate or size(options, 300, 40)
    with world(options, Shape(), users=size(options, 400, 40), devices=2) as here:
        load = here.load(rate, watched=20, streams=size(options, 20, 10))
        for number in range(kills):
            time.sleep(here.rng.uniform(1, 4))
            node = here.cluster.nodes[number % 3]
            end_node(here, node)
            time.sleep(here.rng.uniform(0, 2))
            start_again(here, node)
        load.end()
        settled(here, report)
        check_ledger(here, report, load)
        check_titles(here, report, load)
        check_phones(here, report, load)
        check_badges(here, report)
        check_streams(report, load, drops=kills)
        check_the_checks(here, report, load)
        check_the_checks_of_edits(here, report, load)
        judge = judged(here, report)
        here.cluster.stop()
    ledger = load.ledger
    return (f"{kills} kills of a node, {ledger.requests:,} requests, {ledger.acknowledged:,} writes acknowledged, {len(ledger.deleted):,} deleted or "
            f"withdrawn, {len(ledger.titles):,} edited; {len(ledger.failures):,} requests failed; {judge.duplicates:,} pushes came twice")


def end_node(here, node):
    fault = here.fault(f"{here.cluster.place_of(node).name} was killed", set())
    node.kill()
    return fault.hit(here.in_flight())


def start_again(here, node):
    node.start(wait=False)
    here.cluster.wait_until_ready(node)


def last_push(here):
    here.record.read()
    return max(one.at for one in here.record.requests)


def stopped(options, report):
    """With pushes on their way, and with pushes that wait for a stream: the one would be doubled by others, the other by itself."""
    return "\n".join(stopped_once(options, report, one) for one in size(options, (False, True), (True,)))


def stopped_once(options, report, is_waiting):
    seconds = size(options, STOPPED_SECONDS, 45)
    with world(options, Shape(), users=size(options, 2000, 150)) as here:
        text, fault, own, first = stop_and_go_on(here, options, report, seconds, is_waiting)
        settled(here, report)
        check_badges(here, report)
        judge = judged(here, report)
        here.cluster.stop()
    busy, idle, waited = taken_over(judge, fault, own, first)
    if not options.short:
        report.check("under way", (waited > 0.5) == is_waiting, f"{waited:.0%} of the pushes under way waited for a stream")
        report.check("taken over", busy <= TAKEN_OVER_SECONDS, f"the last push under way came after {busy:.1f} s")
        report.check("taken over", idle <= IDLE_SECONDS, f"the last push of idle shards came after {idle:.1f} s")
    where = "that wait for a stream" if is_waiting else "on their way"
    return (f"a node stopped for {seconds} s amid pushes {where}: {text}; {judge.duplicates:,} pushes came twice, the last {busy:.1f} s after the "
            f"stop; the last push to a device with none under way {idle:.1f} s after it")


def taken_over(judge, fault, own, first):
    """Seconds from the stop until the last of what the node had under way, `own`, was sent by another, and the last of the alerts `first`:
    infinity if one of these never was. And the share of `own` that the node hadn't sent."""
    done = fault.struck + ARRIVES_SECONDS
    again = [next((one.at - fault.struck for one in judge.copies[key] if one.at > done), float("inf")) for key in own]
    idle = [judge.copies[key][0].at - fault.struck if key in judge.copies else float("inf") for key in first]
    waited = sum(all(one.at > done for one in judge.copies[key]) for key in own) / max(1, len(own))
    return max(again, default=0.0), max(idle), waited


def stop_and_go_on(here, options, report, seconds, is_waiting):
    """SIGSTOP while pushes are under way; the others' numbers change meanwhile, to and fro; SIGCONT, and on."""
    node = here.cluster.nodes[0]
    load = here.load(options.rate or size(options, 100, 20), watched=5, streams=5)
    fault, own = here.freeze_amid_pushes("Before", node, is_waiting)
    began, number, known, first, busy = time.monotonic(), 0, set(here.posted), set(), here.busy_tokens()
    while time.monotonic() < began + seconds:
        here.post_all(f"Meanwhile {number}")
        first = first or {(device.token, one.replace("-", "")) for one in set(here.posted) - known for device in here.posted[one].devices
                          if device.token not in busy}
        # What is read before it is sent, or sent again, nobody sends: first those are spared who had pushes under way.
        past = time.monotonic() - began
        if past > IDLE_SECONDS:
            here.each(here.mark_read, here.users if past > SPARED_SECONDS else here.users[1::2])
        number += 1
        time.sleep(2)
    here.cluster.thaw(node)
    here.post_all("After")
    here.cluster.wait_until_ready(node)
    here.frozen.discard(node)
    here.each(here.mark_read, here.users)
    load.end()
    settled(here, report)
    check_ledger(here, report, load)
    # A listener whose node was stopped leaves when it has heard nothing for a while.
    check_streams(report, load, drops=5, posted=here.posted)
    return f"{number} times an alert and a clearing for everybody meanwhile", fault, own, first


def stopped_control(options, report):
    """Without the epoch a node that was stopped goes on with what it had: it must be caught."""
    with world(options, Shape(environment={"CAMPANILE_UNSAFE_NO_EPOCH": "1"}), users=size(options, 1000, 150)) as here:
        seen = harness.Report()
        stop_and_go_on(here, options, seen, size(options, STOPPED_SECONDS, 45), is_waiting=True)
        judged(here, seen, plants=False)
    caught = seen.kinds() & {"in flight", "older number", "duplicate"}
    report.check("control", bool(caught), "without the epoch nothing went wrong: this run shows nothing")
    return f"control, without the epoch: caught by {', '.join(sorted(caught)) or 'nothing'}"


def added(options, report):
    """Each node's own metrics say how many pushes it sent."""
    with world(options, replace(Shape(), nodes=2), users=size(options, 500, 100)) as here:
        load = here.load(options.rate or size(options, 200, 40))
        time.sleep(5)
        node = here.cluster.add()
        began, share = time.monotonic(), 0.0
        before = [answered(one) for one in here.cluster.nodes]
        while time.monotonic() < began + size(options, 60, 40) and share < HALF_A_SHARE:
            time.sleep(1)
            now = [answered(one) for one in here.cluster.nodes]
            grown = [new - old for new, old in zip(now, before)]
            share, before = grown[here.cluster.nodes.index(node)] / max(1, sum(grown)), now
        took = time.monotonic() - began
        report.check("share", share >= HALF_A_SHARE, f"{share:.0%} of the pushes go through the new node after {took:.0f} s")
        load.end()
        settled(here, report)
        check_ledger(here, report, load)
        check_badges(here, report)
        judged(here, report, plants=False)
        here.cluster.stop()
    if not options.short:
        report.check("share", took <= SHARE_SECONDS, f"the new node had its share after {took:.1f} s")
    return f"a third node under load: {share:.0%} of the pushes of a second after {took:.0f} s"


# --- small steps

def until(value, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = value()
        if found is not None:
            return found
        time.sleep(0.05)
    raise harness.HarnessError(f"not within {seconds} s")


def middle(values):
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.1f} (at most {ordered[-1]:.1f})"


def history(options, report):
    return cluster_history.history(options, report, options.operations or size(options, 1_000_000, 3_000))


SCENARIOS = {"failover": (failover, failover_control), "killed": (killed,), "withdrawn": (withdrawn,),
             "stopped": (stopped, stopped_control), "added": (added,), "partitions": (partitions,), "parted": (parted, parted_cancelled), "history": (history,)}


def main():
    parser = harness.arguments(__doc__, short="a few minutes in all, for `make test`; without partitions; judges no time")
    parser.add_argument("scenarios", nargs="*", metavar="|".join(SCENARIOS), help="which (default: all)")
    parser.add_argument("--plain", action="store_true", help="on the machine's own network (--short: always)")
    parser.add_argument("--kills", type=int, help="failover, withdrawn: 25")
    parser.add_argument("--rate", type=int, help="requests a second (failover, withdrawn: 300)")
    parser.add_argument("--operations", type=int, help="history: 1,000,000")
    parser.add_argument("--control", action="store_true", help="only the controls")
    parser.add_argument("--results", help="a file for what was seen, in Markdown")
    options = harness.begin(parser)
    options.plain = options.plain or options.short
    if set(options.scenarios) - set(SCENARIOS):
        parser.error(f"unknown: {', '.join(sorted(set(options.scenarios) - set(SCENARIOS)))}")
    names = options.scenarios or [name for name in SCENARIOS if not (options.plain and name == "partitions")]
    failed, texts = False, []
    for name in names:
        for part in SCENARIOS[name][1 if options.control else 0:]:
            report, started = harness.Report(), time.monotonic()
            text = part(options, report)
            failed = failed or bool(report.wrong)
            print(f"{text}\ncluster {part.__name__}: {sum(report.checked.values()):,} checks, {len(report.wrong)} wrong "
                  f"({time.monotonic() - started:.0f} s)", flush=True)
            report.print_wrong()
            texts.append(f"- {part.__name__}: {text}\n")
    if options.results:
        with open(options.results, "w", encoding="utf-8") as file:
            file.writelines(texts)
    return 1 if failed else 0


if __name__ == "__main__":
    harness.run(main)
