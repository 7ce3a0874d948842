"""Pages without a browser: each is made at a position, subscribes where it was made, and must show everything once.

A page is made as Rails with Campanile's gem makes it: the position, the queries, the view. An entry is posted and broadcast between queries and
view, and another one between the page's making and its subscription. What the page then shows is what its queries found, and what its
subscription brings of a higher offset than its position, where an entry that is there already is shown once, as Turbo does with equal ids.
`--renders` pages are made by workers beside each other, of which several share a stream.

Beside them pages that subscribe without their position must miss something, and one whose messages are read twice must be seen.
"""
import argparse
import asyncio
import json
import os
import time
from base64 import b64encode
from urllib.parse import quote

from e2e import harness
from e2e.harness import stores
from e2e.harness.hotwire import signed_stream_name
from e2e.trust.stream_clients import CableClient, frame

SIGNING_KEY = "a signing key that is shared with Rails"
SETTINGS = {"CAMPANILE_CABLE_SIGNED_STREAM_KEY": SIGNING_KEY, "CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true", "CAMPANILE_BROADCASTS_PER_STREAM": "1000",
            "CAMPANILE_ALLOWED_ORIGINS": "http://127.0.0.1"}
STREAMS, WORKERS = 8, 24
WAIT_SECONDS = 30        # until a page has what was posted before it subscribed
CONTROLS = 20            # pages that must miss something
RECONNECT_PAGES = 200    # on one connection
NEWEST = 5               # of a stream's entries, a page's queries find so many


class Caller:
    """One keep-alive connection for the app's calls."""

    def __init__(self, port, key):
        self.port, self.key, self.reader, self.writer = port, key, None, None

    async def call(self, method, path, body=None):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        content = b"" if body is None else json.dumps(body).encode()
        self.writer.write(f"{method} {quote(path)} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.key}\r\n"
                          f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        answer = await self.reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0]))
        if not head.startswith("http/1.1 20"):
            raise harness.HarnessError(f"{method} {path}: {head} {answer!r}")
        return json.loads(answer)


class Stream:
    """A stream, and the entries that the app has of it: they are committed, then broadcast, one after the other."""

    def __init__(self, number):
        self.name, self.entries, self.lock = f"room:{number}", [], asyncio.Lock()
        self.identifier = json.dumps({"channel": "Turbo::StreamsChannel", "signed_stream_name": signed_stream_name(SIGNING_KEY, self.name)})

    async def post(self, caller):
        async with self.lock:
            number = len(self.entries) + 1
            self.entries.append(number)
            await caller.call("POST", "/broadcasts", {"stream": self.name, "data": str(number), "id": f"{self.name}-{number}"})
        return number


class Cable:
    """One connection in AnyCable's form of the protocol."""

    async def open(self, port):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        self.writer.write(f"GET /cable HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          "Origin: http://127.0.0.1\r\nSec-WebSocket-Version: 13\r\n"
                          f"Sec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}\r\n"
                          "Sec-WebSocket-Protocol: actioncable-v1-ext-json\r\n\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if " 101 " not in head:
            raise harness.HarnessError(head)
        await self.until(lambda message: message.get("type") == "welcome")

    def say(self, **command):
        self.writer.write(frame(0x1, json.dumps(command).encode()))

    async def until(self, isIt):
        while True:
            message = json.loads(await CableClient._text(self.reader, self.writer))
            if message.get("type") == "ping":
                self.say(command="pong")
            elif isIt(message):
                return message


def judge(found, brought, last):
    """What is wrong in a page that has the numbers `found` by its queries and `brought`, (number, offset), by its subscription."""
    offsets = [offset for _, offset in brought]
    if offsets != sorted(set(offsets)):
        return "twice"
    shown = sorted({*found, *(number for number, _ in brought)})
    return None if last in shown and shown == list(range(shown[0], shown[-1] + 1)) else "missed"


class Run:
    """The server, the streams, and what became of the pages."""

    def __init__(self, server, renders):
        self.server, self.left = server, renders
        self.key = server.command("keys", "create", "pages", "--broadcast")[1]
        self.streams = [Stream(number) for number in range(STREAMS)]
        self.pages, self.wrong, self.sample = 0, {"missed": 0, "twice": 0}, None

    async def work(self, number, resumes=True):
        """Makes pages one after the other, of one stream, on cables that serve some of them each."""
        stream, caller, cable = self.streams[number % STREAMS], Caller(self.server.port, self.key), None
        found = []
        while self.left > 0:
            self.left -= 1
            if cable is None or len(found) % RECONNECT_PAGES == 0:
                cable = Cable()
                await cable.open(self.server.port)
            found.append(await self.page(stream, caller, cable, resumes))
        return found

    async def page(self, stream, caller, cable, resumes):
        position = await caller.call("GET", "/broadcasts/position")
        found = stream.entries[-NEWEST:]
        await stream.post(caller)
        # Here is the view. The page is on its way to the browser:
        last = await stream.post(caller)
        history = {"history": {"streams": {stream.name: position}}} if resumes else {}
        cable.say(command="subscribe", identifier=stream.identifier, **history)
        await cable.until(lambda message: message.get("type") == "confirm_subscription")
        if not resumes:
            # Nothing says then that this is all: the next entry does.
            last = await stream.post(caller)
        brought = await self.listen(stream, cable, last, resumes)
        cable.say(command="unsubscribe", identifier=stream.identifier)
        wrong = judge(found, brought, last)
        self.pages += 1
        self.sample = (found, brought, last)
        if wrong and resumes:
            self.wrong[wrong] += 1
        return wrong

    @staticmethod
    async def listen(stream, cable, last, resumes):
        """What is brought until the server says that this is all, or until the last, with what is posted meanwhile by others."""
        brought = []

        def is_last(message):
            if message.get("identifier") == stream.identifier and "message" in message:
                brought.append((int(message["message"]), message["offset"]))
                return not resumes and brought[-1][0] == last
            return message.get("type") in ("confirm_history", "reject_history")
        async with asyncio.timeout(WAIT_SECONDS):
            await cable.until(is_last)
        return brought


async def run(server, renders, report):
    world = Run(server, renders)
    began = time.monotonic()
    await asyncio.gather(*(world.work(number) for number in range(WORKERS)))
    seconds = time.monotonic() - began
    print(f"{world.pages:,} pages were made, {world.pages / seconds:,.0f} a second; {world.wrong['missed']} missed something, "
          f"{world.wrong['twice']} got something twice", flush=True)
    report.check("pages", world.pages == renders, f"{world.pages} pages")
    for kind, number in world.wrong.items():
        report.check(kind, number == 0, f"{number} pages")
    found, brought, last = world.sample
    world.left = CONTROLS
    faults = {"missed": (judge(found, [one for one in brought if one[0] != last], last),),
              "twice": (judge(found, brought + brought[-1:], last),), "missed without a position": await world.work(0, resumes=False)}
    return [kind for kind, seen in faults.items() if set(seen) != {kind.partition(" ")[0]}]


def main():
    parser = harness.arguments(__doc__, short="1,000 pages")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--renders", type=int, default=100_000, help="how many pages are made (default 100,000)")
    options, report = harness.begin(parser), harness.Report()
    with harness.temporary_folder("campanile-positions-") as folder:
        server = harness.Campanile(options.binary, stores.new_database(folder), folder, SETTINGS)
        server.start()
        unseen = asyncio.run(run(server, 1000 if options.short else options.renders, report))
        server.stop()
    return report.verdict(unseen)


if __name__ == "__main__":
    harness.run(main)
