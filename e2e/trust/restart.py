"""Restarts under load with a socket that is handed down: nobody is refused, and nobody is left without an answer.

This script holds the listening socket, as systemd does with packaging/campanile.socket, and starts one server after the other on it
(sd_listen_fds(3)), 20 times under 300 requests a second. A client keeps its connections; one that ended while it was idle it
opens anew, and a request that met such an end without a byte of an answer it asks again on a new connection, once, creates with the same
Idempotency-Key. Everything else that goes wrong is a failure. Every other server has to wait at its end for a request whose body comes
slowly: meanwhile all its answers must say `Connection: close`. Who comes between two servers waits in the socket, and the next one
answers. What was acknowledged is there afterwards, once; streams and cables come back and miss nothing.

The control: the same with a server that opens its socket itself. Clients must be refused.
"""
import argparse
import asyncio
import contextlib
import random
import resource
import socket
import time
from dataclasses import dataclass

from e2e import harness
from e2e.trust.restart_load import Load, NoAnswer
from e2e.trust.stream_clients import CableClient, Plan, StreamClient, World

BACKLOG = 4096               # connections that wait in the socket, as in packaging/campanile.socket
CLOSING_SECONDS = 5          # until a server that stops must have said so in an answer
DRAIN_SECONDS = 0.2          # how long the slow request keeps a server that stops, after its first `Connection: close`
FOREVER = 1e9


@dataclass
class Size:
    restarts: int
    alone: float       # seconds of load between two restarts
    users: int
    streams: int
    cables: int
    control: int       # restarts of a server that has its own socket
    rate: int          # requests a second; a debug binary beside other tests has to keep up


USUAL = Size(restarts=20, alone=2.0, users=20, streams=6, cables=3, control=2, rate=300)
SHORT = Size(restarts=3, alone=1.0, users=6, streams=3, cables=2, control=1, rate=60)


class Run:
    """One database, the servers that follow one another on it, and their clients."""

    def __init__(self, options, folder, size, inherits):
        rng = random.Random(options.seed)
        self.size, self.shortest, self.longest = size, FOREVER, 0.0
        self.server = harness.Campanile(options.binary, f"{folder}/restart.sqlite", folder)
        if inherits:
            self.server.listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
            self.server.port = self.server.listener.getsockname()[1]
        self.server.start()
        key = self.server.producer_key("restart")
        tokens = {user: self.server.user_token(user) for user in (f"user-{number:02d}" for number in range(size.users))}
        self.watched = next(iter(tokens))
        # Nobody cuts these clients off but the servers' ends.
        self.world = World(self.server.port, Plan(FOREVER, 0))
        self.load = Load(self.server.port, size.rate, key, tokens, self.world, self.watched, rng)
        self.streams = [self._client(StreamClient, tokens, rng) for _ in range(size.streams if inherits else 0)]
        self.cables = [self._client(CableClient, tokens, rng) for _ in range(size.cables if inherits else 0)]

    def _client(self, kind, tokens, rng):
        return kind(self.world, self.watched, tokens[self.watched], random.Random(rng.getrandbits(64)))

    async def run(self, restarts):
        listening = [asyncio.create_task(one.run()) for one in self.streams + self.cables]
        try:
            await asyncio.wait_for(asyncio.gather(*(one.ready.wait() for one in self.streams + self.cables)), 60)
            loading = asyncio.create_task(self.load.run())
            for number in range(restarts):
                await asyncio.sleep(self.size.alone)
                await self.restart(number)
            await asyncio.sleep(self.size.alone)
            self.load.is_over = True
            await loading
            await self._until_all_is_seen()
        finally:
            for task in listening:
                task.cancel()
            ended = await asyncio.gather(*listening, return_exceptions=True)
        for one in ended:
            if not isinstance(one, asyncio.CancelledError):
                raise one

    async def restart(self, number):
        load, server = self.load, self.server
        finish = await self._slow_request(f"slow-{number}") if number % 2 == 0 else None
        load.phase, began = "stopping", time.monotonic()
        server.process.terminate()
        while finish and not load.is_closing and time.monotonic() < began + CLOSING_SECONDS:
            await asyncio.sleep(0.005)
        if finish:
            await asyncio.sleep(DRAIN_SECONDS)
            await finish()
        # It has ended itself; this says so.
        await asyncio.to_thread(server.process.wait, harness.STOP_SECONDS)
        server.stop()
        load.phase, load.is_closing, load.server = "down", False, load.server + 1
        # From the main thread: the server dies with the thread that started it.
        server.start(wait=False)
        await asyncio.to_thread(server.wait_until_healthy)
        load.phase = "serving"
        gap = time.monotonic() - began
        self.shortest, self.longest = min(self.shortest, gap), max(self.longest, gap)

    async def _slow_request(self, name):
        """Sends half a request on a connection of the present server; the other half comes when the result is called."""
        load = self.load
        link = await load.open()
        content = load.create(self.watched, name)
        await link.ask(load.text("GET", "/badge", load.tokens[self.watched]))
        link.send(content[:-10])
        self.world.sent += 1
        await asyncio.sleep(0.1)

        async def finish():
            load.counts.requests += 1
            link.transport.write(content[-10:])
            try:
                answer = await link.answer()
            except (NoAnswer, TimeoutError) as trouble:
                load.counts.failed.append(f"the slow request: {trouble}")
                return
            if answer.status != 201 or not answer.closes:
                load.counts.failed.append(f"the slow request: {answer}")
            load.counts.last_answers += answer.closes
            load.take(self.watched, name, answer)
        return finish

    async def _until_all_is_seen(self):
        """Or until it takes too long; the checks say what is missing then."""
        wanted = len(self.load.created[self.watched])
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and (
                any(len(one.seen.ids) < wanted for one in self.streams)
                or any((one.seen.badge or {}).get("count") != wanted for one in self.cables)):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)   # what shouldn't come may come now

    # --- afterwards

    def whole_list(self, user):
        """The ids that the server has, newest first."""
        found, cursor, connection = [], None, self.server.connection()
        while True:
            path = "/notifications?limit=100" + (f"&cursor={cursor}" if cursor else "")
            page = connection.request("GET", path, credential=self.load.tokens[user]).json()
            found += [one["id"] for one in page["notifications"]]
            cursor = page["next_cursor"]
            if cursor is None:
                connection.close()
                return found


# --- the checks

def check_load(report, counts):
    report.count("requests", counts.requests)
    report.check("refused", counts.refused == 0, f"{counts.refused} connections were refused")
    report.check("failed", not counts.failed, f"{len(counts.failed)} failed, the first: {counts.failed[:3]}")
    report.check("closing", not counts.forgotten,
                 f"{len(counts.forgotten)} answers of a server that stops said nothing of it, the first: {counts.forgotten[:3]}")
    report.check("closing", counts.untimely == 0, f"{counts.untimely} answers ended a connection though the server didn't stop")


def check_created(report, run):
    """What was acknowledged is there once, and nothing else."""
    total = 0
    for user, created in run.load.created.items():
        found = run.whole_list(user)
        total += len(found)
        lost = set(created.values()) - set(found)
        report.check("created", not lost, f"{user}: {len(lost)} of {len(created)} acknowledged notifications are missing")
        report.check("created once", len(found) == len(created), f"{user}: {len(found)} are there, {len(created)} were acknowledged")
    return total


def check_streams(report, run, restarts):
    wanted = set(run.load.created[run.watched].values())
    badge = run.server.connection().request("GET", "/badge", credential=run.load.tokens[run.watched]).json()
    for client in run.streams + run.cables:
        seen, kind = client.seen, type(client).__name__
        if client in run.streams:
            report.check("seen", set(seen.ids) == wanted, f"{len(wanted - set(seen.ids))} of {len(wanted)} never seen")
            report.check("order", all(a < b for a, b in zip(seen.sequences, seen.sequences[1:])), "events not in order")
        report.check("once", len(set(seen.ids)) == len(seen.ids) and not seen.repeated, f"{kind}: an event came twice")
        report.check("reset", not seen.resets, f"{kind}: {seen.resets} resets")
        report.check("stream", not [one for one in seen.refused if "server_restart" not in one], f"{kind}: {seen.refused[:2]}")
        # Once for each restart, so that nobody was turned away on coming back.
        report.check("back", seen.dropped == restarts, f"{kind}: ended {seen.dropped} times by {restarts} restarts")
        report.check("badge", not seen.wrong_badges and not seen.older, f"{kind}: {seen.wrong_badges[:1]}, {seen.older} older")
        report.check("badge", seen.badge == {key: badge[key] for key in ("count", "unread_count", "version")},
                     f"{kind}: last saw {seen.badge}, GET /badge says {badge}")


def inherited(options, report, size, restarts):
    with harness.temporary_folder("campanile-restart-") as folder:
        run = Run(options, folder, size, inherits=True)
        started = time.monotonic()
        asyncio.run(run.run(restarts))
        took, counts = time.monotonic() - started, run.load.counts
        check_load(report, counts)
        report.check("closing", counts.last_answers > restarts, "no answer but the slow ones was given while a server stopped")
        report.check("waited", counts.waited > restarts, "hardly anybody waited in the socket: this run shows nothing")
        total = check_created(report, run)
        check_streams(report, run, restarts)
        run.server.stop()
        report.check("audit", *run.server.badge_audit())
    return (f"{restarts} restarts by a socket that is handed down, {counts.requests:,} requests at {counts.requests / took:.0f}/s: "
            f"{counts.refused} refused, {len(counts.failed)} failed; {counts.last_answers:,} answers while a server stopped, "
            f"{len(counts.forgotten)} without Connection: close; {counts.waited:,} connections waited in the socket for the next "
            f"server and were answered; {counts.ended_idle:,} ended idle, {counts.asked_again:,} requests met such an end and were asked "
            f"again; longest answer {counts.longest:.1f} s, from SIGTERM to the next server's first answer {run.shortest:.1f} to "
            f"{run.longest:.1f} s; {total:,} notifications acknowledged, all there once; {len(run.streams)} streams and "
            f"{len(run.cables)} cables came back {restarts} times each")


def control(options, report, size, restarts):
    """The same load on a server that opens its socket itself: who comes between two of them is refused."""
    with harness.temporary_folder("campanile-restart-") as folder:
        run = Run(options, folder, size, inherits=False)
        asyncio.run(run.run(restarts))
        refused = run.load.counts.refused
        report.check("control", refused > 0, "nobody was refused by a server that opens its socket itself: this run shows nothing")
        seen = harness.Report()
        check_load(seen, run.load.counts)
        report.check("control", "refused" in seen.kinds(), "the checks did not see that clients were refused")
        run.server.stop()
    return f"control, {restarts} restarts of a server that opens its socket itself: {refused:,} refused"


def main():
    parser = harness.arguments(__doc__, short="3 restarts")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--restarts", type=int, help="how many (default: 20)")
    options = harness.begin(parser)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    size = SHORT if options.short else USUAL
    report, started = harness.Report(), time.monotonic()
    for part, restarts in ((inherited, options.restarts or size.restarts), (control, size.control)):
        print(part(options, report, size, restarts), flush=True)
    print(f"restart: {sum(report.checked.values()):,} checks, {len(report.wrong)} wrong ({time.monotonic() - started:.0f} s)")
    return report.verdict()


if __name__ == "__main__":
    harness.run(main)
