"""The standby is cut off from the primary and all nodes, and promoted while commits wait for it: the scenario `parted` of cluster.py.

What no standby has may be seen by nobody: no reader may see a badge's version fall, and no stream may tell of what isn't there afterwards.
A commit that somebody cancels by hand is seen all the same, which the checks must find; then every stream that told of it has to be reset."""
import contextlib
import http.client
import threading
import time

from e2e import harness
from e2e.harness.cluster import Shape
from e2e.harness.postgres import ROLE
from e2e.trust.cluster_world import check_badges, check_ledger, check_streams, settled, stored, world

HELD_SECONDS = 18        # from the cut to the promotion
GIVEN_UP_SECONDS = 14    # so long a node doesn't wait for a commit's answer
GIVEN_UP = (f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{ROLE}' AND wait_event = 'SyncRep' "
            f"AND query_start < clock_timestamp() - interval '{GIVEN_UP_SECONDS} s'")
CANCEL = f"SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE usename = '{ROLE}' AND wait_event = 'SyncRep'"


class Reader(threading.Thread):
    """Asks one node for the badges of users, again and again, and notes each version that is below one that it was told before."""

    def __init__(self, node, users):
        super().__init__(daemon=True, name="reader")
        self.node, self.users = node, users
        self.versions, self.fallen, self.answers, self.over = {}, [], 0, threading.Event()
        self.start()

    def run(self):
        connection = self.node.connection()
        while not self.over.is_set():
            for user in self.users:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    answer = connection.request("GET", "/badge", credential=user.credential)
                    if answer.status == 200:
                        self._saw(user.name, answer.json()["version"])
            self.over.wait(0.01)

    def _saw(self, user, version):
        self.answers += 1
        if version < self.versions.get(user, 0):
            self.fallen.append(f"{user}: {version} after {self.versions[user]}")
        self.versions[user] = version

    def end(self):
        self.over.set()
        self.join()


def parted(options, report):
    rounds = options.kills or (1 if options.short else 10)
    backs, waits = [], []
    with world(options, Shape(), users=40) as here:
        readers = [Reader(node, here.users) for node in here.cluster.nodes]
        load = here.load(options.rate or (30 if options.short else 100), watched=20, streams=20)
        for number in range(rounds):
            waits.append(part(here))
            report.check("felt", waits[-1] > 0, f"round {number + 1}: no node has given a commit up and keeps it")
            backs.append(promote(here, load))
            if number + 1 < rounds:
                here.cluster.pair.join()
        load.end()
        for reader in readers:
            reader.end()
        settled(here, report)
        check_ledger(here, report, load)
        check_badges(here, report)
        check_streams(report, load)
        for reader in readers:
            report.check("version", reader.answers > 0, "a reader was never answered")
            report.check("version", not reader.fallen, lambda: f"{len(reader.fallen)} versions fell: {reader.fallen[:3]}")
        here.cluster.stop()
    read, fallen = sum(reader.answers for reader in readers), sum(len(reader.fallen) for reader in readers)
    return (f"{rounds} times the standby was cut off for {HELD_SECONDS} s and promoted: {load.ledger.acknowledged:,} writes acknowledged, "
            f"{len(load.ledger.failures):,} requests failed; {sum(waits)} commits were given up and went on "
            f"waiting; {read:,} badges read, {fallen} versions fell; first write at most {max(backs):.1f} s after a promotion")


def parted_cancelled(options, report):
    """Every commit that waits is cancelled by hand, as a node once did."""
    with world(options, Shape(), users=40) as here:
        readers = [Reader(node, here.users) for node in here.cluster.nodes]
        load = here.load(options.rate or 30, watched=20, streams=20)
        part(here, lambda primary: primary.value(CANCEL, "postgres"))
        promote(here, load)
        load.end()
        for reader in readers:
            reader.end()
        settled(here, report)
        check_ledger(here, report, load)
        check_badges(here, report)
        phantoms = check_resets(here, report, load)
        report.check("control", phantoms > 0, "no stream told of what no standby had: this run shows nothing")
        fallen = sum(len(reader.fallen) for reader in readers)
        report.check("control", fallen > 0, "the check 'version' did not see that a cancelled commit was seen and lost")
        here.cluster.stop()
    return f"control, commits cancelled by hand: {phantoms} streams told of what was lost, each was reset; {fallen} versions fell"


def part(here, meanwhile=lambda primary: None):
    """Cuts the standby off from the primary and all nodes, until nodes have given up commits that wait for it. How many of these wait on."""
    pair, network = here.cluster.pair, here.cluster.network
    if network.plain:
        pair.standby.set(primary_conninfo="")
    else:
        places = {place.name: place for place in here.cluster.stores}
        for one in (places[pair.primary.name], *here.cluster.places):
            network.cut(one, places[pair.standby.name])
    began = time.monotonic()
    while time.monotonic() - began < HELD_SECONDS:
        time.sleep(0.5)
        meanwhile(pair.primary)
    return int(pair.primary.value(GIVEN_UP, "postgres"))


def promote(here, load):
    """As a cluster's manager does it: the standby that can't be asked for its primary any more is promoted when that is dead. Seconds until
    the first write."""
    pair = here.cluster.pair
    fault = here.fault("the standby was promoted")
    pair.primary.kill()
    fault.hit()
    here.cluster.network.heal()
    pair.standby.promote()
    promoted = time.time()
    pair.swap()
    if not here.cluster.wait_for(lambda: load.ledger.first_write_after(promoted) is not None, 120, 0.05):
        raise harness.HarnessError("no write within 120 s of a promotion")
    return load.ledger.first_write_after(promoted) - promoted


def check_resets(here, report, load):
    """A stream that wasn't reset has told of all that was acknowledged, and of nothing else. How many told of something else."""
    there, phantoms = stored(here), 0
    for client in load.clients:
        seen = client.seen
        ids, wanted = {one.replace("-", "") for one in seen.ids}, load.ledger.ids(seen.user)
        has_phantom = bool(ids - set(there.get(seen.user, {})))
        phantoms += has_phantom
        report.check("reset", seen.resets > 0 or not has_phantom, f"{seen.user}: told of what is lost, and not reset")
        report.check("seen", seen.resets > 0 or wanted <= ids, lambda: f"{seen.user}: {len(wanted - ids)} of {len(wanted)} never seen, without a reset")
    return phantoms
