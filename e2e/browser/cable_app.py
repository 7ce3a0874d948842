"""For cable.py: an app whose pages show two lists and a badge, and hear of changes through Campanile.

It makes a page in the order in which Rails with Campanile's gem does: the position, the queries, the view. Something is posted in each gap.
"""
import contextlib
import html
import http.client
import http.server
import json
import pathlib
import secrets
import threading
import time
from urllib.parse import urlsplit

from e2e.browser.world import Pages
from e2e.harness.hotwire import signed_stream_name

HERE = pathlib.Path(__file__).resolve().parent
SIGNING_KEY = "a signing key that is shared with Rails"
ROOM, HALL = "room:1", "hall:Grüße & <Küsse>"   # a name that isn't ASCII
BADGE, USER = "notifications:alice", "alice"
SHOWN = 10               # of the newest entries, a page shows so many
RETRY_SECONDS = 30       # as long as the gem tries
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self' {cable}"
# What it says while a server is away or Chromium is offline.
BROKEN = ("WebSocket connection to", "ERR_")
LAYOUT = """<!doctype html>
<html lang="en"><head><title>{path}</title>
<meta name="action-cable-url" content="{cable}"><meta name="turbo-refresh-method" content="morph"><meta name="turbo-refresh-scroll" content="preserve">
<link rel="icon" href="data:,"><script type="module" src="/page.js"></script></head>
<body><nav><a href="/one">One</a> <a href="/two">Two</a></nav>
{sources}
<span id="notification-badge-count"></span>
{lists}
</body></html>
"""
# Turbo after the element, as docs/broadcasts.md has it; and a record of what streams render into the present body.
SCRIPT = """import "/campanile-cable.js";
import "/turbo.js";
window.heard = [];
window.missed = 0;
addEventListener("turbo:before-render", () => { window.heard = []; });
addEventListener("turbo:before-stream-render", ({ target }) => {
  const entry = target.templateContent?.querySelector("li");
  if (entry) heard.push(entry.id);
});
addEventListener("campanile:missed", () => { missed += 1; });
window.shown = (id) => [...document.getElementById(id).children].map((one) => Number(one.textContent));
window.isWhole = (id, last) => {
  const numbers = shown(id);
  return numbers.every((number, index) => number === numbers[0] + index) && numbers.at(-1) === last;
};
window.sources = () => [...document.querySelectorAll("turbo-cable-stream-source")];
window.isLive = () => sources().length && sources().every((one) => one.hasAttribute("connected"))
  && !document.documentElement.matches("[data-turbo-preview], [aria-busy]");
"""


def identifier_of(stream):
    """The id of a stream's list."""
    return stream.partition(":")[0]


def entry(stream, number):
    return f'<li id="{identifier_of(stream)}-{number}">{number}</li>'


class App(Pages):
    """The app, its pages on an origin of their own, and a Campanile beside it."""

    def __init__(self, campanile, browser, port, element, turbo):
        super().__init__()
        self.campanile, self.browser, self.element, self.turbo = campanile, browser, element, turbo
        self.port, self.address = port, f"http://127.0.0.1:{port}"
        self.key = campanile.command("keys", "create", "pages", "--broadcast")[1]
        self.producer = campanile.producer_key("badge")
        self.lock = threading.RLock()
        self.unread = 0
        self.restore()

    def restore(self):
        """As an app is that nobody has used, with the element that is tested."""
        self.lists, self.name = {ROOM: [1], HALL: [1]}, secrets.token_hex(8)
        self.streams = [BADGE, ROOM, HALL]
        self.has_position, self.fixed_position = True, None
        self.posts_in_gaps = False
        self.after_view = lambda: None
        self.wrap = lambda stream, source, listed: (source, listed)
        self.script = self.element.read_text(encoding="utf-8")

    def spoil(self, right, wrong):
        """Puts a fault into the element that pages get from now on."""
        assert self.script.count(right) == 1, right
        self.script = self.script.replace(right, wrong)

    # --- what the app does

    def post(self, *streams):
        """A new entry in these lists, then what was broadcast of it."""
        with self.lock:
            for stream in streams:
                number = len(self.lists[stream]) + 1
                self.lists[stream].append(number)
                content = f'<turbo-stream action="append" target="{identifier_of(stream)}"><template>{entry(stream, number)}</template></turbo-stream>'
                self.broadcast(stream, content, f"{self.name}-{identifier_of(stream)}-{number}")

    def broadcast(self, stream, content, identifier):
        """Sends it again and again, as the gem does, until Campanile has it."""
        deadline = time.monotonic() + RETRY_SECONDS
        body = {"stream": stream, "data": content, "id": identifier}
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self.campanile.connection().request("POST", "/broadcasts", credential=self.key, body=body)
                assert answer.status == 202, answer
                return
            assert time.monotonic() < deadline, "Campanile didn't come back"
            time.sleep(0.05)

    def notify(self):
        """A notification, and what says in a page that the badge has it."""
        answer = self.campanile.connection().request("POST", "/notifications", credential=self.producer, body={"user_id": USER, "title": "New"})
        assert answer.status == 201, answer
        self.unread += 1
        return f"document.getElementById('notification-badge-count').textContent === '{self.unread}'"

    def position(self):
        """Where the broadcasts are, as the gem writes it; None as it does where it has no answer in time."""
        if not self.has_position or self.fixed_position:
            return self.fixed_position
        with contextlib.suppress(OSError, http.client.HTTPException):
            answer = self.campanile.connection().request("GET", "/broadcasts/position", credential=self.key)
            return "{epoch}:{offset}".format(**answer.json())
        return None

    def gap(self):
        if self.posts_in_gaps:
            self.post(ROOM, HALL)

    def page(self, path):
        position = self.position()
        self.gap()
        with self.lock:
            shown = {stream: numbers[-SHOWN:] for stream, numbers in self.lists.items()}
        self.gap()
        # A list is shown once, also where two sources name its stream.
        parts = [self.wrap(stream, self.source(stream, position), self.listed(stream, shown.pop(stream, None))) for stream in self.streams]
        text = LAYOUT.format(path=path, cable=self.cable, sources="\n".join(part[0] for part in parts), lists="\n".join(part[1] for part in parts))
        self.after_view()
        self.gap()
        return text

    @staticmethod
    def source(stream, position):
        attributes = {"position": position, "channel": "Turbo::StreamsChannel", "signed-stream-name": signed_stream_name(SIGNING_KEY, stream)}
        written = " ".join(f'{name}="{html.escape(value)}"' for name, value in attributes.items() if value)
        return f"<turbo-cable-stream-source {written}></turbo-cable-stream-source>"

    @staticmethod
    def listed(stream, numbers):
        entries = "".join(entry(stream, number) for number in numbers or ())
        return "" if numbers is None else f'<ul id="{identifier_of(stream)}">{entries}</ul>'

    @property
    def cable(self):
        return f"ws://127.0.0.1:{self.campanile.port}/cable"

    # --- what a browser sees

    def open(self, path="/one", *scripts):
        page = self.browser.page()
        self.pages.append(page)
        for script in scripts:
            page.before_load(script)
        page.go(f"{self.address}{path}")
        page.wait("isLive()", what="its sources to be connected")
        return page

    @staticmethod
    def visit(page, path):
        page.evaluate(f"window.before = document.body; Turbo.visit({json.dumps(path)})")
        page.wait(f"document.body !== before && isLive() && location.pathname === {json.dumps(path)}", what=f"the visit of {path}")

    def check(self, page, seconds=30, streams=(ROOM, HALL)):
        """What is shown ends with the last entry, and lacks none before; and nothing came twice into this body."""
        for stream in streams:
            name, last = identifier_of(stream), len(self.lists[stream])
            # What a stream brought to the page before may be rendered first, and then again in its place.
            page.wait(f"isWhole('{name}', {last})", seconds, f"{name} up to {last}: misses something, or has an order of its own")
        heard = page.evaluate("heard")
        twice = sorted({one for one in heard if heard.count(one) > 1})
        assert not twice, f"came twice: {twice}"


def handler_of(app):
    """Answers for the app's pages and their scripts."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = urlsplit(self.path).path
            scripts = {"/campanile-cable.js": lambda: app.script, "/turbo.js": app.turbo.read_text, "/page.js": lambda: SCRIPT,
                       "/morph.js": (HERE / "pages/morph.js").read_text}
            kind, text = ("javascript", scripts[path]()) if path in scripts else ("html", app.page(path))
            content = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", POLICY.format(cable=app.cable))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content)

        def log_message(self, *_):
            pass
    return Handler


@contextlib.contextmanager
def running(app):
    """Serves the app at `app.address`, which Campanile's `allowed_origins` must have."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", app.port), handler_of(app)) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield app
        server.shutdown()
