"""What stock_clients.py needs around its tests: a server, pages on another origin, names signed by Rails, and the clients
that are programs or libraries."""
import asyncio
import functools
import http.server
import json
import pathlib
import queue
import subprocess
import threading
import time
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.client import connect

from e2e.harness import HarnessError
from e2e.harness.hotwire import action_cable_file, turbo_file

HERE = pathlib.Path(__file__).resolve().parent

WAIT_SECONDS = 20
# A browser writes on its console that a connection broke, and can't be kept from it.
BROKEN = ("WebSocket connection to", "Failed to load resource", "ERR_")


class Pages:
    """The pages' own server, on another origin than campanile, as the Rails app is."""

    TYPES = {".html": "text/html", ".js": "text/javascript"}

    def __init__(self):
        scripts = {"/action_cable.js": action_cable_file(), "/turbo.js": turbo_file()}
        self.made = made = {}   # path -> text that a test wants to be served
        self.policy = None      # the pages' content security policy
        pages = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                target = urlsplit(self.path)
                kind = Pages.TYPES.get(pathlib.Path(target.path).suffix)
                file = scripts.get(target.path) or HERE / "stock_clients" / target.path[1:]
                if kind is None or not (target.path in made or file.is_file()):
                    self.send_error(404)
                    return
                text = made.get(target.path) or file.read_text(encoding="utf-8")
                # Whose page it is; a visit of Turbo's brings another user's.
                name = parse_qs(target.query).get("name", [""])[0]
                content = text.replace('<meta name="badge-stream" content="">', f'<meta name="badge-stream" content="{name}">').encode()
                self.send_response(200)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                if pages.policy:
                    self.send_header("Content-Security-Policy", pages.policy)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class World:
    """A server with an empty database, its pages, and the one browser."""

    def __init__(self, server, browser, pages):
        self.server, self.browser, self.pages = server, browser, pages
        self.key = server.producer_key("stock-clients")
        self.address = f"http://127.0.0.1:{server.port}"
        self.cable = f"ws://127.0.0.1:{server.port}/cable"
        self.opened = []

    def page(self, path="/page.html"):
        page = self.browser.page(f"{self.pages.address}{path}")
        self.opened.append(page)
        return page

    @functools.cache
    def token(self, user):
        return self.server.user_token(user)

    def post(self, user, title="Hello"):
        answer = self.server.connection().request(
            "POST", "/notifications", credential=self.key, body={"user_id": user, "title": title, "body": "World"})
        assert answer.status == 201, answer
        return answer.json()["id"]

    def read_all(self, user):
        answer = self.server.connection().request("POST", "/notifications/mark_all_read", credential=self.token(user))
        assert answer.status == 200, answer

    def stream_token(self, user):
        answer = self.server.connection().request("POST", "/stream_tokens", credential=self.token(user))
        assert answer.status == 201, answer
        return answer.json()["token"]

    def crash_and_notify(self, user, *titles):
        """SIGKILL; notifications while no server runs, so that no client can hear of them live; and the server again."""
        self.server.kill()
        for title in titles:
            self.server.command("notify", user, title, "World")
        self.server.start()

    def close(self, expected=()):
        complaints = []
        for page in self.opened:
            complaints += page.take_complaints((*BROKEN, *expected))
            page.close()
        assert not complaints, f"the pages complained: {complaints}"


def signed(kind, secret, *names):
    done = subprocess.run(["ruby", str(HERE / "stock_clients" / "sign.rb"), kind, secret, *names], capture_output=True, text=True)
    if done.returncode:
        raise HarnessError(f"Rails' MessageVerifier isn't there (apt-get install ruby-activesupport): {done.stderr.strip()}")
    return done.stdout.split()


# --- clients

class Curl:
    """`curl -N`; its lines as they come."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(["curl", "-N", "--silent", "--show-error", "--fail", *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def event(self):
        """The next event with data: its name, id and data."""
        fields = {}
        while True:
            line = self.lines.get(timeout=WAIT_SECONDS)
            assert line is not None, "the stream ended"
            if line == "" and "data" in fields:
                return fields.get("event", "message"), fields.get("id"), fields["data"]
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.strip()

    def until(self, wanted):
        while True:
            name, identifier, data = self.event()
            if name == wanted:
                return identifier, json.loads(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Cable:
    """ActionCable over websockets' own client. It reads and writes on one thread: websockets' client with threads uses one TLS
    connection from two of them at once, which OpenSSL forbids, and Python before 3.13 doesn't prevent. One opening in four hundred
    timed out, or broke, on a busy machine."""

    def __init__(self, world, user, **more):
        self.address = world.cable
        self.options = {"subprotocols": ["actioncable-v1-json", "actioncable-unsupported"],
                        "additional_headers": {"Authorization": f"Bearer {world.token(user)}"}, "proxy": None, **more}
        self.runner = asyncio.Runner()

    def __enter__(self):
        try:
            self.socket = self._run(self._open())
        except BaseException:
            self.runner.close()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.close()
        finally:
            self.runner.close()

    async def _open(self):
        return await connect(self.address, **self.options)

    def _run(self, operation):
        async def limited():
            async with asyncio.timeout(WAIT_SECONDS):
                return await operation
        return self.runner.run(limited())

    def send(self, **message):
        self._run(self.socket.send(json.dumps(message)))

    def receive(self):
        return json.loads(self._run(self.socket.recv()))

    def ping(self, data):
        """Waits for the pong."""
        async def answered():
            await (await self.socket.ping(data))
        self._run(answered())

    def close(self, code=1000, reason=""):
        self._run(self.socket.close(code, reason))

    def until(self, holds):
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            message = self.receive()
            if holds(message):
                return message
        raise AssertionError("the message didn't come")


def carries(event):
    return lambda message: message.get("message", {}).get("event") == event if isinstance(message.get("message"), dict) else False
