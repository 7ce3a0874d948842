"""Lines that are cut, and a database that is restarted, whose sessions are ended, or that has none left: the scenario `partitions` of
cluster.py. Every fault lasts a while under load; then it is over, and everything must be as before without anybody's help."""
import contextlib
import http.client
import time

from e2e.harness.cluster import Shape
from e2e.harness.postgres import ROLE
from e2e.trust.cluster_world import answered, check_badges, check_ledger, check_streams, judged, settled, world

CUT_SECONDS = 20
RECOVERED_SECONDS = 40       # from a fault's end until every node says that it is ready and a write is acknowledged
FEW = 6                      # sessions that are left where they are exhausted
DEAF = "nothing arrives at a node from Apple"
FELT_SECONDS = 5             # at a fault's end: in so long a time it must be felt
SENDS_SECONDS = 120          # until a node sends, whatever the fault before did to it


def partitions(options, report):
    lines = []
    with world(options, Shape(), users=300) as here:
        load = here.load(options.rate or 100, watched=20, streams=40)
        for name, begin, end, is_felt in faults(here, load.ledger):
            lines.append(one(here, report, load, name, begin, end, is_felt))
        load.end()
        settled(here, report, 600)
        check_ledger(here, report, load)
        check_badges(here, report)
        # nginx leaves a node that can't be reached, so streams of that node end when it is cut off from its database only if it ends them.
        check_streams(report, load, drops=len(lines))
        judge = judged(here, report)
        here.cluster.stop()
    return "\n".join(["| fault | answered meanwhile | failed | recovered after |", "|---|--:|--:|--:|", *lines, "",
                      f"{load.ledger.acknowledged:,} writes acknowledged in all; {judge.duplicates:,} pushes came twice"])


def faults(here, ledger):
    """(name, what begins it, what ends it, whether it is felt). What begins it is given the fault; whether it is felt is asked
    FELT_SECONDS before its end: a cut that cuts nothing would show nothing."""
    network, (one, two), node = here.cluster.network, here.cluster.stores, here.cluster.places[0]
    apple, primary = here.cluster.apple, here.cluster.primary

    def cut(sender, receiver, one_way=False):
        return lambda _: network.cut(sender, receiver, one_way=one_way)

    def nothing():
        pass

    def unready():
        time.sleep(FELT_SECONDS)
        return not is_ready(here.cluster.nodes[0])

    def unwritten():
        began = time.time()
        time.sleep(FELT_SECONDS)
        return ledger.first_write_after(began) is None

    def unanswered():
        before = answered(here.cluster.nodes[0])
        time.sleep(FELT_SECONDS)
        return answered(here.cluster.nodes[0]) == before

    def exhausted():
        return here.cluster.wait_for(primary.refuses_sessions, FELT_SECONDS)

    def failed():
        # Since its begin: most of these are over at once.
        began = next(fault.began for fault in here.faults if fault.name == here.faults[-1].name)
        return bool(ledger.failures) and ledger.failures[-1][0] >= began

    yield "a node cut off from the database", cut(node, one), network.heal, unready
    yield "nothing arrives at the database from a node", cut(node, one, True), network.heal, unready
    yield "nothing arrives at a node from the database", cut(one, node, True), network.heal, unready
    yield "primary and standby cut off from each other", cut(one, two), network.heal, unwritten
    yield "nothing arrives at the primary from the standby", cut(two, one, True), network.heal, unwritten
    yield "nothing arrives at the standby from the primary", cut(one, two, True), network.heal, unwritten
    yield "a node cut off from Apple", cut(node, apple), network.heal, unanswered
    yield "nothing arrives at Apple from a node", cut(node, apple, True), network.heal, unanswered
    yield DEAF, cut(apple, node, True), network.heal, unanswered
    yield "PostgreSQL restarted (fast)", lambda _: primary.restart("fast"), nothing, failed
    yield "PostgreSQL restarted (immediate)", lambda _: primary.restart("immediate"), nothing, failed
    yield "sessions ended, all, every second", lambda fault: end_sessions(here, fault), nothing, failed
    yield f"{FEW} sessions left for three nodes", lambda _: leave_few(primary), lambda: primary.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1"), exhausted


def end_sessions(here, fault):
    """Each time is a fault of its own."""
    for number in range(CUT_SECONDS):
        one = fault if number == 0 else here.fault(fault.name)
        here.cluster.primary.terminate_backends()
        one.hit(here.in_flight())
        time.sleep(1)


def leave_few(primary):
    # As an administrator whom a synchronous standby doesn't keep waiting.
    primary.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT {FEW}")
    primary.terminate_backends()


def one(here, report, load, name, begin, end, is_felt):
    """A fault from its begin to its recovery; its line in the table."""
    # What a node that sends nothing doesn't hear from Apple isn't the fault's doing.
    sent = answered(here.cluster.nodes[0])
    sends = here.cluster.wait_for(lambda: answered(here.cluster.nodes[0]) > sent, SENDS_SECONDS)
    report.check("sends", sends, f"{name}: a node sent nothing before it")
    ledger, fault = load.ledger, here.fault(name, here.in_flight())
    fault.is_deaf = name == DEAF
    acknowledged, failed = ledger.acknowledged, len(ledger.failures)
    began = time.monotonic()
    begin(fault)
    if fault.struck > time.time():
        fault.hit(here.in_flight())
    time.sleep(max(0.0, began + CUT_SECONDS - FELT_SECONDS - time.monotonic()))
    report.check("felt", is_felt(), f"{name}: nobody noticed, so this run shows nothing of it")
    meanwhile, failed = ledger.acknowledged - acknowledged, len(ledger.failures) - failed
    end()
    fault.healed = ended = time.time()
    back = here.cluster.wait_for(lambda: ledger.first_write_after(ended) is not None and all(is_ready(node) for node in here.cluster.nodes),
                                 RECOVERED_SECONDS)
    took = time.time() - ended
    report.check("recovered", back, f"{name}: not as before after {took:.0f} s; {[is_ready(node) for node in here.cluster.nodes]}")
    report.check("settled", here.cluster.wait_for(lambda: here.owed() < 500, 180, 1), lambda: f"{name}: {here.unsettled()}")
    return f"| {name} | {meanwhile:,} | {failed:,} | {took:.1f} s |"


def is_ready(node):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return node.connection().request("GET", "/readyz").status == 200
    return False
