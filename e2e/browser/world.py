"""What the tests of open_pages.py and console.py share: the server and its users' credentials, and the browser."""
import contextlib
import http.server
import json
import pathlib
import threading
import time
from types import SimpleNamespace
from urllib.parse import urlencode

from e2e.harness.hotwire import plain_example

HERE = pathlib.Path(__file__).resolve().parent
USER, OPERATOR = "alice", "nora"
# What a browser writes on its console when a server is away or refuses; it can't be kept from it.
AWAY = ("ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_SOCKET")
REFUSED = ("the server responded with a status of 4",)
# What the console's tests ask its list.
LIST = """window.root = () => document.querySelector("campanile-inbox").shadowRoot;
window.rows = () => [...root().querySelectorAll("[part~=entry]")].filter((row) => row.checkVisibility());
window.titles = () => rows().map((row) => row.querySelector("[part=title]").textContent);
window.unread = () => rows().filter((row) => row.matches("[part~=unread]"));"""
IPHONE, ANDROID = "a1b2c3d4" * 8, "alices-android-phone"


@contextlib.contextmanager
def page_server():
    """Serves pages/ on an origin of its own; gives that origin."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(HERE))

        def do_GET(self):
            # A browser asks for it by itself, now and then, wherever a page names no icon.
            if self.path == "/favicon.ico":
                self.send_response(204)
                self.end_headers()
            else:
                super().do_GET()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextlib.contextmanager
def plain_server():
    """The server of examples/web/plain, on another port than its own; `handler.campanile` is the address of Campanile."""
    handler = type("Handler", (plain_example()["Handler"],), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield SimpleNamespace(address=f"http://127.0.0.1:{server.server_address[1]}", handler=handler)
        server.shutdown()


class Pages:
    """The pages that a test has opened."""

    def __init__(self):
        self.pages = []

    def close(self, expected):
        """Fails if a page complained about something else."""
        complaints = [one for page in self.pages for one in page.take_complaints(expected)]
        for page in self.pages:
            page.close()
        self.pages = []
        assert not complaints, f"complaints: {complaints}"


class World(Pages):
    """The server, its users' credentials, and the browser."""

    def __init__(self, campanile, browser, origin, plain=None):
        super().__init__()
        self.campanile, self.browser, self.origin, self.plain = campanile, browser, origin, plain
        self.server = f"http://127.0.0.1:{campanile.port}"
        self.key, self.token = campanile.producer_key("console"), campanile.user_token(USER)
        self.operate_key = campanile.command("keys", "create", OPERATOR, "--operate")[1]
        self.number = 0

    def post(self, **notification):
        self.number += 1
        body = {"user_id": USER, "title": f"Notification {self.number}", **notification}
        answer = self.campanile.connection().request("POST", "/notifications", credential=self.key, body=body)
        assert answer.status == 201, answer
        return answer.json()

    def as_user(self, method, path, status=200, body=None):
        answer = self.campanile.connection().request(method, path, credential=self.token, body=body)
        assert answer.status == status, answer
        return answer

    def empty(self):
        """No notification and no device is left."""
        while notifications := self.as_user("GET", "/notifications?limit=100").json()["notifications"]:
            for one in notifications:
                self.as_user("DELETE", f"/notifications/{one['id']}", 204)
        for device in self.as_user("GET", "/device_tokens").json()["device_tokens"]:
            self.as_user("DELETE", f"/device_tokens/{device['token']}", 204)

    def device(self, token, platform):
        self.as_user("POST", "/device_tokens", 201, {"token": token, "platform": platform})

    def open(self, url, **size):
        page = self.browser.page(**size)
        self.pages.append(page)
        page.go(url)
        return page

    def live(self):
        """A page of the other origin, connected."""
        page = self.open(f"{self.origin}/pages/live.html#{urlencode({'server': self.server, 'token': self.token})}")
        page.wait("document.getElementById('badge').dataset.count !== undefined", what="the first badge")
        return page

    def inbox(self, *scripts, width=1280, height=800, **attributes):
        """A page of the other origin with the user's inbox, and the scripts that run before its own."""
        page = self.browser.page(width=width, height=height)
        self.pages.append(page)
        for script in scripts:
            page.before_load(script)
        given = {"server": self.server, "token": self.token, **attributes}
        page.go(f"{self.origin}/pages/inbox.html#{urlencode(given)}")
        return page

    def console(self, width=1440, height=900, signed_in=True, scripts=()):
        """The console, and the scripts that run before its own."""
        page = self.browser.page(width=width, height=height)
        self.pages.append(page)
        for script in (LIST, *scripts):
            page.before_load(script)
        page.go(f"{self.server}/console")
        if signed_in:
            page.fill("#token", self.token)
            page.fill("#key", self.key)
            page.click("#sign-in-form [type=submit]")
            page.wait("document.getElementById('live').classList.contains('on')", what="the console to be live")
            page.wait("document.getElementById('badge').dataset.count !== undefined", what="the console's badge")
        return page

    def operator(self, width=1440, height=940):
        """The operator's side of the console."""
        page = self.console(width, height, signed_in=False)
        page.fill("#key", self.operate_key)
        page.click("#sign-in-form [type=submit]")
        page.wait("document.getElementById('fresh').classList.contains('on')", what="the overview")
        return page

    def logged(self, *words):
        """Waits until a line of the server's log, which is written beside the answers, has all of these."""
        deadline = time.monotonic() + 20
        while not any(all(word in line for word in words) for line in self.campanile.log_tail(1_000_000).splitlines()):
            assert time.monotonic() < deadline, f"the log has no line with {words}"
            time.sleep(0.05)


def keep_answers(page, which):
    """Keeps the answers back, from now until `let_answers_go`, of those requests of the page for whose `path` and `method` this is true."""
    page.evaluate("""(() => { const real = window.fetch;
      window.fetch = async (...asked) => {
        const answer = await real(...asked);
        const path = asked[0], method = asked[1]?.method ?? "GET";
        while ((WHICH) && !document.body.dataset.letGo) await new Promise((done) => setTimeout(done, 10));
        return answer;
      }; })()""".replace("WHICH", which))


def let_answers_go(page):
    page.evaluate("document.body.dataset.letGo = 'yes'")
    page.wait("document.querySelectorAll('[aria-disabled=true]').length === 0")


def check_requests(page, server, *secrets):
    """Nothing comes from elsewhere, and no secret stands in an address."""
    foreign = [one for one in page.requested if not one.startswith(f"{server}/")]
    assert not foreign, foreign
    told = [one for one in page.requested if any(secret in one for secret in secrets)]
    assert not told, "credentials stand in no address"


def check_width(page, width, touched=None):
    """Nothing is wider than the page, and what these selectors find is large enough for a finger."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(f"""[document, ...[...document.querySelectorAll("campanile-inbox")].map((node) => node.shadowRoot).filter(Boolean)]
      .flatMap((root) => [...root.querySelectorAll({json.dumps(touched)})])
      .filter((node) => node.getClientRects().length && node.getBoundingClientRect().height < 40)
      .map((node) => node.outerHTML.slice(0, 80))""") if touched else []
    assert not small, f"too small for a finger: {small}"


def badge_is(text):
    return f"document.getElementById('badge').textContent === '{text}' && document.getElementById('badge').hidden === {json.dumps(not text)}"


def titled(title):
    return f"titles().includes({json.dumps(title)})"
