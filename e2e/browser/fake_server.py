"""A server for the tests of the web pieces: it serves them and the test pages, and tells the badge that it is told to.

It shows what a real server seldom does: refusals, cut connections, numbers that come late. It also keeps what it was asked.
"""
import http.server
import json
import pathlib
import queue
import sys
import threading
from urllib.parse import parse_qs, urlsplit

from e2e import ROOT
from e2e.harness.hotwire import turbo_file

HERE = pathlib.Path(__file__).resolve().parent
ASSETS = ROOT / "Sources" / "CampanileServer" / "web"
TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
    ".json": "application/json"}
# As strict as the server's own: no inline script, no inline style, nothing from elsewhere.
CONTENT_SECURITY_POLICY = "default-src 'self'; connect-src 'self' http: https:"
BEAT_SECONDS = 0.2
WAIT_SECONDS = 20


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # A page that leaves breaks its connections; that is no failure.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class FakeServer:
    """A context manager; `address` is where it is."""

    def __init__(self, assets=ASSETS):
        self.assets = pathlib.Path(assets)
        self.lock = threading.Condition()
        self.badge = {"count": 0, "unread_count": 0, "version": 1}
        self.stream_status, self.token_status = 200, 201
        self.streams, self.asked, self.granted = [], [], 0
        self.tells_first = True   # a stream begins with the badge
        self.refused = set()   # user tokens that are exchanged for nothing
        self.own_token = None  # the user token that /own/exchange answers with, as the pages' own server may; None: a stream token
        self.made = {}   # path -> text that a test wants to be served

    def __enter__(self):
        world = self

        class Handler(_Handler):
            server_world = world

        self.server = _Server(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.cut()
        self.server.shutdown()
        self.server.server_close()

    # --- what a test tells it

    def tell(self, count, version):
        """The badge becomes this, and every stream hears it."""
        with self.lock:
            self.badge = {"count": count, "unread_count": count, "version": version}
            for stream in self.streams:
                stream.put(dict(self.badge))

    def change_unheard(self, count, version):
        """The badge becomes this; streams that are open hear nothing."""
        with self.lock:
            self.badge = {"count": count, "unread_count": count, "version": version}

    def tell_late(self, count, version):
        """Streams hear this, though it isn't the badge."""
        with self.lock:
            for stream in self.streams:
                stream.put({"count": count, "unread_count": count, "version": version})

    def tell_event(self, number, event, data):
        """Every stream hears an event that isn't a badge, under an id."""
        with self.lock:
            for stream in self.streams:
                stream.put((number, event, data))

    def cut(self):
        """Ends all streams without a word."""
        with self.lock:
            for stream in self.streams:
                stream.put(None)

    # --- what a test asks it

    def wait(self, holds, what):
        with self.lock:
            if not self.lock.wait_for(lambda: holds(self), WAIT_SECONDS):
                raise AssertionError(f"not within {WAIT_SECONDS} s: {what}; asked: {self.asked[-6:]}")

    def wait_for_streams(self, number):
        self.wait(lambda world: len(world.streams) == number, f"{number} open streams")

    def requests(self, path):
        with self.lock:
            return [one for one in self.asked if one["path"] == path]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_world = None

    def log_message(self, *_):
        pass

    def _answer(self, status, body=b"", kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def _note(self):
        world, target = self.server_world, urlsplit(self.path)
        with world.lock:
            world.asked.append({
                "method": self.command, "path": target.path, "query": parse_qs(target.query), "target": self.path,
                "authorization": self.headers.get("Authorization"), "last_event_id": self.headers.get("Last-Event-ID"),
                "csrf": self.headers.get("X-CSRF-Token")})
            world.lock.notify_all()
        return target.path

    def do_POST(self):
        world = self.server_world
        path = self._note()
        if path in world.made:
            return self._answer(200, world.made[path].encode())
        if path not in ("/stream_tokens", "/own/exchange"):
            return self._answer(404)
        if path == "/own/exchange" and world.own_token:
            return self._answer(200, json.dumps({"token": world.own_token}).encode())
        user_token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        with world.lock:
            world.granted += 1
            is_refused = user_token in world.refused or user_token.startswith("cms_")
            status = 401 if is_refused else world.token_status
            name = f"cms_{world.granted}.code"   # as the server's own, which has one dot
        if status != 201:
            return self._answer(status)
        self._answer(201, json.dumps({"token": name, "expires_at": "2030-01-01T00:00:00.000Z"}).encode())

    def do_GET(self):
        path = self._note()
        if path in ("/badge/stream", "/notifications/stream", "/other/stream"):
            return self._stream()
        made = self.server_world.made.get(path)
        if made is not None:
            return self._answer(200, made.encode(), TYPES[pathlib.Path(path).suffix or ".json"])
        if path == "/turbo.js":
            return self._answer(200, turbo_file().read_bytes(), TYPES[".js"])
        for prefix, folder in (("/assets/", self.server_world.assets), ("/pages/", HERE / "pages")):
            file = folder / path[len(prefix):]
            if path.startswith(prefix) and file.name == path[len(prefix):] and file.is_file():
                return self._answer(200, file.read_bytes(), TYPES[file.suffix])
        self._answer(404)

    def _stream(self):
        world = self.server_world
        mine = queue.Queue()
        with world.lock:
            status = world.stream_status
            if status == 200:
                if world.tells_first:
                    mine.put(dict(world.badge))
                world.streams.append(mine)
                world.lock.notify_all()
        if status != 200:
            return self._answer(status)
        self.close_connection = True
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(b"retry: 50\n\n")
            while True:
                try:
                    badge = mine.get(timeout=BEAT_SECONDS)
                except queue.Empty:
                    self.wfile.write(b":\n\n")  # notices a browser that has left
                    continue
                if badge is None:
                    return
                number, event, data = badge if isinstance(badge, tuple) else (badge["version"], "badge", badge)
                self.wfile.write(f"id: {number}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode())
        except OSError:
            pass
        finally:
            with world.lock:
                world.streams.remove(mine)
                world.lock.notify_all()
