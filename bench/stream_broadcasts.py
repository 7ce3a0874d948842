"""The measures of an app's own broadcasts for streams.py: how fast one stream's WebSocket subscribers get them, and what a connection with
many subscriptions costs."""

import contextlib
import json
import time

from bench.broadcast_programs import STREAM, CampanileRoom, OtherRoom, nchan_room, signed_identifier, stream_of, uwebsockets_room
from bench.load import BenchError
from bench.stream_programs import Subscribers
from bench.table import Figures, Row

BURST = 20                  # broadcasts one after the other, each posted when the last was answered
MANY_SUBSCRIPTIONS = 20
WORKERS = 2                 # of nginx: two send faster than one
# What a connection may take with many subscriptions: 4 KB and 0.1 KB for each.
CONNECTION_BYTES, SUBSCRIPTION_BYTES = 4096, 102.4


class Broadcasts:
    """One run: the rooms, and what each answered in each round."""

    def __init__(self, bench, rooms: list[CampanileRoom | OtherRoom]):
        self.options, self.programs, self.report, self.rooms = bench.options, bench.programs, bench.report, rooms
        self.count = self.options.subscribers
        self.listening: dict[str, Subscribers] = {}
        self.single: dict[str, list[dict]] = {room.name: [] for room in rooms}
        self.bursts: dict[str, list[dict]] = {room.name: [] for room in rooms}
        self.used: dict[str, float] = dict.fromkeys(self.single, 0.0)
        self.numbers = 0

    def measure(self) -> None:
        with contextlib.ExitStack() as stack:
            self.listening = {room.name: stack.enter_context(room.listening(self.count)) for room in self.rooms}
            self._rounds()

    def _rounds(self) -> None:
        for number in range(self.options.rounds + 1):
            for room in self.rooms[::-1] if number % 2 else self.rooms:
                single = self._round(room, 1)
                before = room.server.cpu_seconds()
                burst = self._round(room, BURST)
                if number:   # the first warms up
                    self.single[room.name].append(single)
                    self.bursts[room.name].append(burst)
                    self.used[room.name] += room.server.cpu_seconds() - before
        for name, one in self.listening.items():
            wanted = self.count * (self.options.rounds + 1) * (BURST + 1)
            if one.state()["events"] != wanted:
                raise BenchError(f"{name}: {one.state()['events']} messages came, and {wanted} would be right")

    def _round(self, room: CampanileRoom | OtherRoom, count: int) -> dict:
        file = self.programs.folder / "broadcasts.requests"
        file.write_bytes(b"\0".join(room.request(self.numbers + number) for number in range(count)))
        self.numbers += count
        answer = self.listening[room.name].ask(f"round {file}")
        if answer["received"] != self.count or answer["closed"]:
            raise BenchError(f"{room.name}: of {self.count} subscribers only {answer['received']} received {count} broadcasts, "
                             f"{answer['closed']} were closed")
        answer["bytes"] /= self.count * count
        time.sleep(0.2)   # what the server owes after it
        return answer

    def tell(self) -> None:
        sizes = {name: {answer["bytes"] for answer in answers} for name, answers in self.bursts.items()}
        if any(size != sizes["campanile"] for size in sizes.values()):
            raise BenchError(f"the servers don't send the same: bytes of a message {sizes}")
        for name in list(self.bursts)[1:] or [""]:
            self._tell_burst(name)
        for title, moment in (("half of them have it", "median"), ("99 of 100 have it", "p99"), ("the last has it", "last")):
            ours = self._milliseconds("campanile", moment)
            others = "; ".join(f"{name} {self._milliseconds(name, moment).text(1, ' ms')}" for name in list(self.bursts)[1:])
            self.report.rows.append(Row(f"one broadcast to {self.count:,} WebSockets, from POST until {title}", "", others, ours, 1, " ms"))
        first = self._milliseconds("campanile", "first")
        self.report.notes.append(
            f"broadcast: each subscriber of campanile is another user, in Rails' own protocol; messages of {sizes['campanile'].pop():.0f} bytes, "
            f"the same on all servers; campanile's are in the database before anybody hears of them ({first.text(1, ' ms')} from the POST "
            f"to the first delivery of one), the others' in memory; nginx has {WORKERS} workers, uWebSockets and campanile's cable a thread")

    def _milliseconds(self, name: str, moment: str) -> Figures:
        return Figures([(one[moment] - one["sent"]) / 1e6 for one in self.single[name]])

    def _tell_burst(self, name: str) -> None:
        deliveries = self.count * BURST

        def rates(of: str) -> Figures:
            return Figures([deliveries * 1e9 / (one["last"] - one["sent"]) for one in self.bursts[of]])

        ours = rates("campanile")
        # Neighbouring rounds are compared, so that a slow moment of the machine hits both.
        ratios = Figures([a / b for a, b in zip(ours.values, rates(name).values)]) if name else ours
        used = " / ".join(f"{self.used[one] * 1e6 / deliveries / self.options.rounds:.1f}" for one in ("campanile", name) if one)
        self.report.rows.append(Row(
            f"{BURST} broadcasts to {self.count:,} WebSockets, from the first POST to the last delivery", ours.text(0, "/s"),
            f"{name} {rates(name).text(0, '/s')}" if name else "", ratios, at_least=1.0 if name == "nchan" else None, cpu=used + " a delivery"))


def broadcast(bench) -> None:
    """One stream's subscribers get an app's broadcasts, in turns with nchan's and uWebSockets'."""
    rooms: list[CampanileRoom | OtherRoom] = []
    try:
        rooms.append(CampanileRoom(bench.programs))
        if bench.nchan:
            rooms.append(nchan_room(bench.programs, WORKERS))
        if not bench.options.without_uwebsockets:
            try:
                rooms.append(uwebsockets_room(bench.programs, bench.options.venv))
            except BenchError as error:   # it is told and not judged
                bench.report.notes.append(f"broadcast: uWebSockets doesn't run here: {error}")
        run = Broadcasts(bench, rooms)
        run.measure()
    finally:
        for room in rooms:
            room.server.stop()
    run.tell()


def subscriptions(bench) -> None:
    """What a connection costs with one subscription and with many, to streams that all pages have and to streams of its own."""
    count = bench.options.cables
    shared = [STREAM, *(stream_of("Room", number) for number in range(100, 99 + MANY_SUBSCRIPTIONS))]
    own = [[stream_of("Card", user * MANY_SUBSCRIPTIONS + number) for number in range(MANY_SUBSCRIPTIONS)] for user in range(count)]
    most = CONNECTION_BYTES + SUBSCRIPTION_BYTES * MANY_SUBSCRIPTIONS
    for title, streams, at_most in (
            ("1 subscription, all to one stream", [shared[:1]], CONNECTION_BYTES + SUBSCRIPTION_BYTES),
            (f"{MANY_SUBSCRIPTIONS} subscriptions, all to the same streams", [shared], most),
            (f"{MANY_SUBSCRIPTIONS} subscriptions, each to its own streams", own, None)):
        room = CampanileRoom(bench.programs)
        try:
            with room.listening(min(50, count), streams):
                pass
            before = room.server.settled_memory()
            with room.listening(count, streams) as subscribers:
                price = bench.price(room.server, subscribers, before, count)
        finally:
            room.server.stop()
        bench.report.rows.append(Row(f"memory of a cable connection with {title}, {count:,} connections", "", "", Figures([price.pss]), 0, " B",
                                     at_most=at_most, cpu=f"{price.cpu_us:.2f} a second"))
    bench.report.notes.append(f"subscriptions: must: {CONNECTION_BYTES:,} B a connection and {SUBSCRIPTION_BYTES:g} B for each subscription; "
                              f"identifiers of {len(json.dumps(signed_identifier('', STREAM)))} bytes")
