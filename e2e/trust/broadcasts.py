"""An app's own broadcasts while pages lose their connections, servers are killed and the database moves: none missed, none twice, in order.

AnyCable's published profile: 120 broadcasts at 2 a second to each client, whose connection is cut about every 15 s without a farewell and who is
back after 2 s. A Rails app broadcasts, as turbo-rails does, to four rooms with 250 pages each.

- `profile`: the app by Action Cable, with Rails' own adapter `async` and pages at the app's own /cable; then with `adapter: campanile`, whose
  pages speak Rails' protocol (plain), then AnyCable's extension of it (extended). What the first two kinds lose is told; each kind hears more
  than a quarter, and nobody anything twice. The extended ones lose nothing, and 99 of 100 returns have the last replayed message within 2.5 s of connecting.
- `killed`: extended pages, and six times SIGKILL of the server, which is started again. Beside it every broadcast that the app's adapter was
  acknowledged is in the database, once, in order.
- `cluster`: the same on three nodes on PostgreSQL behind nginx: each is restarted, the primary is killed and its standby promoted.
- `anycable`: a sender in the form of AnyCable's gem, and SIGKILL in the middle. Everything that got its 201 is there, and pages get what is
  there. What the sender drops is told.

Without a name all run (--short: all but `cluster`). Each ends with its controls: pages that come back without their place must miss something;
a broadcast taken from what a page heard and from the database, one doubled and two exchanged must each be seen. Needs Debian's rails and puma,
`cluster` postgresql and nginx.
"""
import argparse
import contextlib
import copy
import json
import pathlib
import random
import resource
import shutil
import time
from dataclasses import dataclass

from e2e import ROOT, harness
from e2e.browser.rails_shop import SIGNING_KEY, rails
from e2e.harness import stores
from e2e.harness.cluster import LIMITS, Shape, cluster
from e2e.harness.postgres import Failover
from e2e.trust.cable_clients import AnyCable, Crowd, Numbered, Page, named
from e2e.trust.schema import BROADCASTS
from e2e.trust.stream_clients import Plan, World
from e2e.trust.streams import percentile

HERE = pathlib.Path(__file__).resolve().parent
KINDS = "Action Cable", "plain", "extended"
SETTINGS = {**LIMITS, "CAMPANILE_CABLE_SIGNED_STREAM_KEY": SIGNING_KEY}
KEPT = 100                  # of a stream: `broadcasts.per_stream`
CATCH_UP_SECONDS = 2.5      # 99 of 100 returns
READY_SECONDS = 120
LAST_SECONDS = 45           # after the last broadcast until every extended page has everything
QUIET_SECONDS = 0.5         # at least, for what comes late and what shouldn't come
PATIENCE_SECONDS = 1.0      # of who watches the primary
APART = 4                   # broadcasts of a room between two nodes' restarts


@dataclass
class Size:
    rooms: int
    pages: int         # a room, of each kind
    broadcasts: int    # to a room, at least
    rate: float        # of those, a second
    connected: float   # seconds
    offline: float
    kills: int
    forgetful: int     # pages that come back without their place


USUAL = Size(rooms=4, pages=250, broadcasts=120, rate=2, connected=15, offline=2, kills=6, forgetful=8)
SHORT = Size(rooms=2, pages=10, broadcasts=14, rate=7, connected=1.0, offline=0.4, kills=2, forgetful=6)


class Run:
    """The pages of one scenario, by their kinds, and what they must have heard."""

    def __init__(self, options, size):
        self.options, self.size, self.rng = options, size, random.Random(options.seed)
        self.rooms = [f"room-{number}" for number in range(size.rooms)]
        self.plan, self.kinds = Plan(size.connected, size.offline), {}

    def add(self, kind, port, count=None, place=None, resumes=True):
        world, pages = World(port, self.plan), []
        for number in range(self.size.rooms * self.size.pages if count is None else count):
            token = harness.user_token(harness.JWT_SECRET, f"{kind}-{number}")
            pages.append(Page(world, self.rooms[number % len(self.rooms)], SIGNING_KEY, token, random.Random(self.rng.getrandbits(64)), place, resumes))
        self.kinds[kind] = pages

    def add_extended(self, port, place):
        """And those that must miss something."""
        self.add("extended", port, place=place)
        self.add("forgetful", port, self.size.forgetful, place, resumes=False)

    @contextlib.contextmanager
    def listening(self):
        """While they listen. In the end nobody is cut off, and each extended page is waited for until it has heard as much as `expects` says."""
        self.crowd, self.expects = Crowd([one for pages in self.kinds.values() for one in pages]), None
        self.crowd.start()
        try:
            if not self.crowd.wait_for(lambda: all(one.ready.is_set() for one in self.crowd.clients), READY_SECONDS):
                silent = [one for one in self.crowd.clients if not one.ready.is_set()]
                raise harness.HarnessError(f"{len(silent)} pages hear nothing: {[one.seen.refused[:1] for one in silent[:3]]}")
            yield
            self.plan.over = True
            self.crowd.wait_for(self._is_all_heard, LAST_SECONDS)
            time.sleep(max(QUIET_SECONDS, 1.5 * self.size.offline))
        finally:
            self.crowd.end()

    def _is_all_heard(self):
        return all(len(one.seen.ids) >= len(self.expects[one.seen.user]) for one in self.kinds.get("extended", []))

    def seen(self, kind):
        return [one.seen for one in self.kinds[kind]]

    def told(self, kind):
        """The share that a kind heard, and when it was back."""
        seen = self.seen(kind)
        owed = sum(len(self.expects[one.user]) for one in seen)
        lost = sum(len(set(self.expects[one.user]) - set(one.ids)) for one in seen)
        twice = sum(len(one.ids) - len(set(one.ids)) for one in seen)
        returns = sorted(seconds for one in seen for seconds in one.returns)
        return (f"{kind}: {len(seen):,} pages, {sum(one.cuts for one in seen):,} cuts, {owed - lost:,} of {owed:,} heard ({(owed - lost) / owed:.2%}), "
                f"{lost:,} lost, {twice:,} twice; {len(returns):,} returns, {percentile(returns, 0.5) * 1000:.0f} ms (median), "
                f"{percentile(returns, 0.99) * 1000:.0f} ms (p99)")

    def own_loop(self):
        return f"the pages' own loop was late by {percentile(sorted(self.crowd.late), 0.99) * 1000:.0f} ms (p99)"


# --- the servers

@contextlib.contextmanager
def app(folder, name, rooms, address="http://127.0.0.1:9", key="none"):
    """The Rails app in a Puma, by the adapter of that name; its connection."""
    home, port = pathlib.Path(folder, name), harness.free_port()
    (home / "config").mkdir(parents=True)
    (home / "config/cable.yml").write_text(f"production:\n  adapter: {name}\n")
    shutil.copy(HERE / "broadcasts_app.ru", home / "config.ru")
    with rails(home, port, address, {"RUBYLIB": str(ROOT / "clients/ruby/lib"), "ROOMS": " ".join(rooms), "CAMPANILE_BROADCAST_KEY": key}):
        yield harness.Connection(port)


def ask(connection, method, path):
    answer = connection.request(method, path)
    if answer.status != 204:
        raise harness.HarnessError(f"the app answers {answer} to {path}")


def numbers(connection, rate, first=0):
    """What has the app broadcast to its rooms."""
    begun = Numbered(lambda number: ask(connection, "POST", f"/broadcasts?number={number}"), rate, first)
    begun.start()
    return begun


def ended(load, connection, run):
    """What was broadcast to each room, when the app's adapter has had all of it acknowledged."""
    made = load.end()
    ask(connection, "GET", "/flushed")
    return {room: made for room in run.rooms}


def broadcast_key(server, name="app"):
    return server.command("keys", "create", name, "--broadcast")[1]


def place_of(server, key):
    answer = server.connection().request("GET", "/broadcasts/position", credential=key).json()
    return answer["epoch"], answer["offset"]


def kept(rows):
    """Of what the database has of each room: the numbers, in its order."""
    found = {}
    for stream, message in rows:
        found.setdefault(stream, []).append(named(json.loads(message))[1])
    return found


# --- the checks

def check_pages(report, seen, expects, is_broken=False):
    """What an extended page must have heard. `is_broken`: a server may have been away, and have said so."""
    for one in seen:
        wanted, got = expects[one.user], set(one.ids)
        lost, first = [number for number in wanted if number not in got], list(dict.fromkeys(one.ids))
        report.check("heard", not lost, f"{one.user}: {len(lost)} of {len(wanted)} never heard, the first {lost[:1]}")
        report.check("once", len(one.ids) == len(got), f"{one.user}: {len(one.ids) - len(got)} heard twice")
        report.check("order", first == [number for number in wanted if number in got]
                     and all(a < b for a, b in zip(one.sequences, one.sequences[1:])), f"{one.user}: not in order, or of another room")
        report.check("told", not one.resets, f"{one.user}: {one.resets} times told that something is kept no more")
        refused = [text for text in one.refused if not (is_broken and text.startswith("HTTP/1.1 50"))]
        report.check("held", not refused and (is_broken or not one.dropped), f"{one.user}: {one.dropped} connections ended, {refused[:1]}")


def check_kind(report, run, kind):
    """That pages of a kind heard something at all, and none of it twice: what they lose is told and not judged."""
    heard_enough(report, kind, run.seen(kind), run.expects)
    deaf, doubled = copy.deepcopy(run.seen(kind)), copy.deepcopy(run.seen(kind))
    for one in deaf:   # as if the app broadcast to a stream that nobody has
        one.ids.clear()
    doubled[0].ids.extend([0, 0])
    for name, seen in {"a quarter": deaf, "twice": doubled}.items():
        without = harness.Report()
        heard_enough(without, kind, seen, run.expects)
        report.check("control", name in without.kinds(), f"the check '{name}' did not see a planted fault")


def heard_enough(report, kind, seen, expects):
    owed, heard = sum(len(expects[one.user]) for one in seen), sum(len(set(one.ids)) for one in seen)
    report.check("a quarter", heard > owed / 4, f"{kind}: {heard:,} of {owed:,} heard: the pages don't listen to what the app broadcasts")
    twice = sum(len(one.ids) - len(set(one.ids)) for one in seen)
    report.check("twice", not twice, f"{kind}: {twice} heard twice")


def check_returns(report, options, seen):
    returns = sorted(seconds for one in seen for seconds in one.returns)
    report.check("cut", bool(returns), "nobody was cut off: this run shows nothing")
    late = percentile(returns, 0.99)
    report.check("catching up", options.short or late <= CATCH_UP_SECONDS, f"p99 {late:.2f} s")


def check_kept(report, there, made):
    """What was acknowledged is in the database, as far as it keeps a stream: `made` has each room's, in order."""
    for room, wanted in made.items():
        found, newest = there.get(room, []), wanted[-KEPT:]
        lost = [number for number in newest if number not in set(found)]
        report.check("kept", not lost, f"{room}: {len(lost)} of {len(newest)} aren't in the database, the first {lost[:1]}")
        report.check("kept once", len(found) == len(set(found)), f"{room}: {len(found) - len(set(found))} are there twice")
        order = [number for number in dict.fromkeys(found) if number in set(newest)]
        report.check("kept in order", order == [number for number in newest if number in set(found)], f"{room}: another order")


def check_the_checks(report, run, there, made):
    """What each check must see; and that pages which forget their place miss something."""
    without = harness.Report()
    check_pages(without, run.seen("forgetful"), run.expects, is_broken=True)
    report.check("control", "heard" in without.kinds(), "pages that forgot their place missed nothing: this run shows nothing")
    victim = run.rng.choice(run.seen("extended"))
    room = run.rng.choice(list(made))
    for kind, plant in {"heard": take, "once": double, "order": exchange}.items():
        one, seen = copy.deepcopy(victim), harness.Report()
        plant(one.ids, run.rng.randrange(len(one.ids) - 1))
        check_pages(seen, [one], run.expects, is_broken=True)
        report.check("control", kind in seen.kinds(), f"the check '{kind}' did not see a planted fault")
    for kind, plant in {"kept": take, "kept once": double, "kept in order": exchange}.items():
        # Of what was acknowledged: nothing is said of the rest.
        rows, seen = [number for number in there[room] if number in set(made[room])], harness.Report()
        plant(rows, len(rows) - 2)
        check_kept(seen, {room: rows}, {room: made[room]})
        report.check("control", kind in seen.kinds(), f"the check '{kind}' did not see a planted fault")


def take(values, at):
    del values[at]


def double(values, at):
    values.insert(at, values[at])


def exchange(values, at):
    values[at], values[at + 1] = values[at + 1], values[at]


def judge(report, options, run, rows, is_broken):
    there, seen = kept(rows), run.seen("extended")
    check_pages(report, seen, run.expects, is_broken)
    check_returns(report, options, seen)
    check_kept(report, there, run.expects)
    check_the_checks(report, run, there, run.expects)


# --- the scenarios

def profile(options, report, size):
    texts, first = [], 0
    with harness.serving(options.binary, SETTINGS) as server, contextlib.ExitStack() as stack:
        key, rooms = broadcast_key(server), Run(options, size).rooms
        own = stack.enter_context(app(server.folder, "async", rooms))
        ours = stack.enter_context(app(server.folder, "campanile", rooms, f"http://127.0.0.1:{server.port}", key))
        for kind in KINDS:
            run, asked = Run(options, size), own if kind == "Action Cable" else ours
            if kind == "extended":
                run.add_extended(server.port, place_of(server, key))
            else:
                run.add(kind, own.port if asked is own else server.port)
            with run.listening():
                load = numbers(asked, size.rate, first)
                load.wait_for(size.broadcasts)
                run.expects = ended(load, asked, run)
            first += load.made
            check_kind(report, run, kind)
            texts += [run.told(one) for one in run.kinds] + [run.own_loop()]
            report.check("protocol", not any(one.refused for one in run.seen(kind)), f"{kind}: {[one.refused for one in run.seen(kind) if one.refused][:1]}")
        if "a quarter" not in report.kinds():   # of pages that hear nothing there is no more to say
            judge(report, options, run, stores.rows(server.database, BROADCASTS), is_broken=False)
    return "\n".join(texts)


def killed(options, report, size):
    run = Run(options, size)
    with harness.serving(options.binary, SETTINGS) as server:
        key = broadcast_key(server)
        run.add_extended(server.port, place_of(server, key))
        with app(server.folder, "campanile", run.rooms, f"http://127.0.0.1:{server.port}", key) as ours:
            with run.listening():
                load = numbers(ours, size.rate)
                for number in range(size.kills):
                    load.wait_for((number + 1) * size.broadcasts // (size.kills + 1))
                    server.kill()
                    server.start()
                load.wait_for(size.broadcasts)
                run.expects = ended(load, ours, run)
        judge(report, options, run, stores.rows(server.database, BROADCASTS), is_broken=True)
    return f"{size.kills} kills, {load.made * size.rooms:,} broadcasts acknowledged\n{run.told('extended')}\n{run.told('forgetful')}\n{run.own_loop()}"


def clustered(options, report, size):
    run = Run(options, size)
    with cluster(options.binary, options.seed, Shape(plain=True, environment=SETTINGS)) as made:
        key = broadcast_key(made.nodes[0])
        run.add_extended(made.front, place_of(made.nodes[0], key))
        with app(made.folder, "campanile", run.rooms, f"http://127.0.0.1:{made.front}", key) as ours:
            with run.listening():
                load = numbers(ours, size.rate)
                for node in made.nodes:
                    load.wait_for(load.made + APART)
                    node.stop()
                    node.start(wait=False)
                    made.wait_until_ready(node)
                load.wait_for(load.made + APART)
                before = [one.dropped for one in run.seen("extended")]
                promoted = fail_over(made)
                load.wait_for(max(size.broadcasts, load.made + APART))
                run.expects = ended(load, ours, run)
        judge(report, options, run, made.query(BROADCASTS), is_broken=True)
        # Who comes back while no database takes writes may be sent away.
        sent_away = sum(one.dropped > former for one, former in zip(run.seen("extended"), before))
        report.check("held", options.short or sent_away < len(before) / 2, f"the failover ended the connections of {sent_away} pages of {len(before)}")
        made.stop()
    return (f"three nodes restarted, the standby promoted {promoted:.1f} s after the primary was killed, and {sent_away} pages' connections ended; "
            f"{load.made * size.rooms:,} broadcasts acknowledged\n{run.told('extended')}\n{run.told('forgetful')}\n{run.own_loop()}")


def fail_over(made):
    """SIGKILL of the primary, its standby promoted, and the old primary behind it. Seconds until the promotion."""
    watching, began = Failover(made.pair, PATIENCE_SECONDS), time.time()
    watching.start()
    made.primary.kill()
    promoted = watching.wait()
    made.pair.join()
    return promoted - began


def anycable(options, report, size):
    run = Run(options, size)
    with harness.serving(options.binary, SETTINGS) as server:
        key = broadcast_key(server)
        sender = AnyCable(server.port, key)
        sender.start()
        run.add_extended(server.port, place_of(server, key))
        with run.listening():
            load = Numbered(lambda number: [sender.broadcast(room, number) for room in run.rooms], size.rate)
            load.start()
            last = min(size.broadcasts, KEPT - 10)   # as many as the database keeps
            load.wait_for(last // 2)
            server.kill()
            server.start()
            load.wait_for(last)
            load.end()
            sender.end()
            there = kept(stores.rows(server.database, BROADCASTS))
            run.expects = {room: list(dict.fromkeys(there[room])) for room in run.rooms}
        stored = {room: [number for name, number in sender.stored if name == room] for room in run.rooms}
        check_kept(report, {room: list(dict.fromkeys(found)) for room, found in there.items()}, stored)
        twice = sum(len(found) - len(set(found)) for found in there.values())
        for one in run.seen("extended"):
            report.check("heard", one.ids == there[one.user], f"{one.user}: heard {len(one.ids)}, and {len(there[one.user])} are in the database")
        check_the_checks(report, run, there, stored)
    gone = [one for one in sender.dropped if one[1] not in there[one[0]]]
    return (f"one kill, {load.made * size.rooms:,} broadcasts in AnyCable's form: {len(sender.stored):,} got 201 and all are there; {len(sender.dropped):,} "
            f"were dropped by the sender after {sender.repeated:,} repetitions, {len(gone):,} of them lost; {twice:,} are there twice\n{run.told('extended')}")


SCENARIOS = {"profile": profile, "killed": killed, "cluster": clustered, "anycable": anycable}


def main():
    parser = harness.arguments(__doc__, short="small, without `cluster` unless it is named; judges no time")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("scenarios", nargs="*", metavar="|".join(SCENARIOS), help="which (default: all)")
    parser.add_argument("--results", help="a file for what was seen, in Markdown")
    options = harness.begin(parser)
    if set(options.scenarios) - set(SCENARIOS):
        parser.error(f"unknown: {', '.join(sorted(set(options.scenarios) - set(SCENARIOS)))}")
    if missing := [program for program in ("rails", "puma") if not shutil.which(program)]:
        raise harness.HarnessError(f"missing programs: apt-get install {' '.join(missing)}")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    names = options.scenarios or [name for name in SCENARIOS if not (options.short and name == "cluster")]
    failed, texts = False, []
    for name in names:
        report, began = harness.Report(), time.monotonic()
        text = SCENARIOS[name](options, report, SHORT if options.short else USUAL)
        failed = report.verdict() != 0 or failed
        print(f"{text}\nbroadcasts {name}: {sum(report.checked.values()):,} checks, {len(report.wrong)} wrong ({time.monotonic() - began:.0f} s)", flush=True)
        texts.append(f"### {name}\n\n{text}\n")
    if options.results:
        pathlib.Path(options.results).write_text("\n".join(texts), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    harness.run(main)
