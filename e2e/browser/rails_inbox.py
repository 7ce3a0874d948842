"""Tests: the inbox's page that the gem's generator makes, byte by byte as a browser without JavaScript gets it, and in Chromium with Turbo 7.1.

The server is real and also stops and hangs; once a fake one stands in its place, which answers what the real one never does.
"""
import contextlib
import html
import http.client
import http.server
import json
import os
import pathlib
import re
import shlex
import subprocess
import threading
import time
from urllib.parse import urlencode, urlsplit

import pytest

from e2e.browser.rails_shop import BADGE, BROWSER, HERE, NATIVE, is_live, visit
from e2e.browser.world import AWAY, REFUSED
from e2e.harness import Connection, die_with_parent, free_port, temporary_folder, user_token
from e2e.harness.hotwire import PROGRESS_BAR

# Chromium complains of a page with that status; and of Turbo 7.1, which runs the scripts of such a page although they ran already.
UNAVAILABLE = ("the server responded with a status of 503", "An import map rule for specifier")
# More than any of the example's waits, less than what Net::HTTP waits by itself.
SOON = 40
ENTRIES = "[...document.querySelectorAll('li.notification')]"
UNREAD = f"{ENTRIES}.filter((entry) => entry.classList.contains('unread')).length"
SPAN = "document.getElementById('notification-badge-count')"
STREAM = "text/vnd.turbo-stream.html"

pytestmark = [pytest.mark.needs("puma", "ruby", "chromium"), pytest.mark.complaints(PROGRESS_BAR, *AWAY, *REFUSED)]


class Visitor:
    """A browser without JavaScript: a user's session, the page that it has, and that page's forms."""

    def __init__(self, shop, layout="", agent=BROWSER):
        self.connection = Connection(urlsplit(shop.address).port)
        self.headers = {"User-Agent": agent}
        self.post("/session", {"user_id": shop.user, "layout": layout})

    def request(self, method, path, form=None, **headers):
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        answer = self.connection.request(method, path, body=form and urlencode(form).encode(), headers=sent)
        if cookie := answer.header("Set-Cookie"):
            self.headers["Cookie"] = cookie.partition(";")[0]
        self.text = answer.body.decode()
        return answer

    def get(self, path="/notifications", status=200, **headers):
        answer = self.request("GET", path, **headers)
        assert answer.status == status, self.text[:2000]
        return answer

    def post(self, path, form, **headers):
        return self.request("POST", path, form, **headers)

    def submit(self, words, **headers):
        """Presses the button with these words, or this description, of the page that was asked for last."""
        forms = [form for form in re.findall(r"<form.*?</form>", self.text, re.DOTALL) if words in html.unescape(form)]
        assert len(forms) == 1, f"{len(forms)} buttons say {words!r}"
        fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', forms[0]))
        return self.post(re.search(r'action="([^"]*)"', forms[0])[1], {name: html.unescape(value) for name, value in fields.items()}, **headers)

    def follow(self, answer):
        """The page that a form's answer leads to."""
        assert answer.status == 303, answer
        path = urlsplit(answer.header("Location")).path
        self.get(path)
        return path

    @property
    def number(self):
        """The text in the layout."""
        [number] = re.findall(r'(?:<campanile-badge|<span id="notification-badge-count")[^>]*>([^<]*)<', self.text)
        return number

    @property
    def entries(self):
        """(title, whether it is unread) of each entry."""
        found = re.findall(r'<li id="notification_[^"]*" class="notification ([a-z]*)">\s*<h2>(.*?)</h2>', self.text, re.DOTALL)
        return [(html.unescape(re.sub("<[^>]*>", "", title)), mark == "unread") for mark, title in found]


# --- without JavaScript

@pytest.mark.parametrize("layout", ["", "cabled"])
def test_the_first_byte_has_the_number_and_the_entries_newest_first(shop, layout):
    shop.new_user()
    for title in ("First", "Second", "Third"):
        shop.post(title=title)
    visitor = Visitor(shop, layout)
    visitor.get()
    assert visitor.number == "3"
    assert visitor.entries == [("Third", True), ("Second", True), ("First", True)]


@pytest.mark.parametrize(("agent", "headers", "number"), [
    pytest.param(NATIVE, {}, 0, id="an app's look clears the number"),
    pytest.param(BROWSER, {}, 2, id="a browser's doesn't"),
    pytest.param(NATIVE, {"X_Sec_Purpose": "prefetch"}, 2, id="an app's page that Turbo prepares doesn't"),
    pytest.param(NATIVE, {"Sec_Purpose": "prefetch;prerender"}, 2, id="an app's page that the web view prepares doesn't"),
])
@pytest.mark.parametrize("layout", ["", "cabled"])
def test_the_layout_has_the_number_after_the_look(shop, agent, headers, number, layout):
    shop.new_user(unread=2)
    visitor = Visitor(shop, layout, agent)
    visitor.get(**headers)
    assert visitor.number == str(number)
    badge = shop.as_user("GET", "/badge")
    assert (badge["count"], badge["unread_count"]) == (number, 2), "a look reads nothing"
    visitor.get("/orders")
    assert visitor.number == str(number), "on the next page too"


def test_mark_all_leads_back_to_the_list_and_leaves_unread_what_came_since(shop):
    shop.new_user(unread=2)
    visitor = Visitor(shop)
    visitor.get()
    shop.post(title="Since")
    assert visitor.follow(visitor.submit("Mark all as read")) == "/notifications"
    assert visitor.entries == [("Since", True), ("Hello", False), ("Hello", False)]
    assert visitor.number == str(shop.as_user("GET", "/badge")["count"])
    visitor.follow(visitor.submit("Mark all as read"))
    assert visitor.number == "0" and not any(unread for _, unread in visitor.entries)


def test_one_entry_is_read_and_deleted_by_its_buttons(shop):
    shop.new_user()
    for title in ("First", "Second"):
        shop.post(title=title)
    visitor = Visitor(shop)
    visitor.get()
    visitor.follow(visitor.submit("Mark as read: First"))
    assert (visitor.number, visitor.entries) == ("1", [("Second", True), ("First", False)])
    visitor.follow(visitor.submit("Delete: Second"))
    assert (visitor.number, visitor.entries) == ("0", [("First", False)])
    # It may have been deleted elsewhere meanwhile: that is no failure.
    text = visitor.text
    for _ in range(2):
        visitor.text = text
        visitor.follow(visitor.submit("Delete: First"))
        assert visitor.entries == []


def test_turbo_gets_the_one_entry_in_the_place_of_a_page(shop):
    shop.new_user()
    entry = shop.post(title="<b>Sale</b> & more")
    visitor = Visitor(shop)
    visitor.get()
    page = visitor.text
    answer = visitor.submit("Mark as read: <b>Sale", Accept=f"{STREAM}, text/html, application/xhtml+xml")
    assert answer.status == 200 and answer.header("Content-Type").startswith(STREAM)
    assert f'<turbo-stream action="replace" target="notification_{entry}"><template>' in visitor.text
    assert visitor.entries == [("<b>Sale</b> & more", False)] and "<b>Sale" not in visitor.text
    visitor.text = page
    visitor.submit("Delete: <b>Sale", Accept=STREAM)
    assert visitor.text.strip() == f'<turbo-stream action="remove" target="notification_{entry}"></turbo-stream>'


def test_nobody_changes_what_is_anothers(shop):
    shop.new_user()
    others = shop.post(title="Another's")
    another = shop.user
    shop.new_user(unread=1)
    visitor = Visitor(shop)
    visitor.get()
    own = shop.as_user("GET", "/notifications")["notifications"][0]["id"]
    page = visitor.text
    for words in ("Mark as read: Hello", "Delete: Hello"):
        # The form's own token is for the own entry alone; the page's is for all.
        visitor.text = page.replace(own, others).replace('name="authenticity_token"', 'name="unused"')
        token = re.search(r'<meta name="csrf-token" content="([^"]*)"', page)[1]
        assert visitor.submit(words, X_CSRF_Token=html.unescape(token)).status == 303
    shop.user = another
    assert [(one["id"], one["read_at"]) for one in shop.as_user("GET", "/notifications")["notifications"]] == [(others, None)]


def test_without_a_session_or_a_csrf_token_nothing_is_shown_or_done(shop):
    shop.new_user(unread=1)
    visitor = Visitor(shop)
    assert visitor.post("/notifications/mark_all_read", {}).status == 422
    assert shop.as_user("GET", "/badge")["unread_count"] == 1
    del visitor.headers["Cookie"]
    for method, path in (("GET", "/notifications"), ("POST", "/notifications/mark_all_read")):
        assert visitor.request(method, path).status in (401, 422) and "Hello" not in visitor.text


def test_without_campanile_the_page_says_so_and_the_others_go_on(shop):
    shop.new_user(unread=1)
    visitor = Visitor(shop)
    visitor.get()
    shop.campanile.kill()
    for look in (lambda: visitor.submit("Mark all as read"), lambda: visitor.request("GET", "/notifications")):
        assert look().status == 503
        assert "can't be reached" in visitor.text and visitor.number == ""
    visitor.get("/orders")


@contextlib.contextmanager
def fake_campanile(port, answer):
    """Answers each GET alike, with None not at all. Gives the requests that it got: (path, headers)."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers))
            if answer is None:
                self.close_connection = True
                return
            status, body = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield asked
        server.shutdown()


@pytest.mark.parametrize("answer", [
    (401, b"{}"), (404, b"{}"), (500, b""), (200, b"<html>another server</html>"), (200, b'{"notifications": ['), None],
    ids=["refused", "not found", "failed", "another server", "cut", "closed"])
def test_what_is_no_list_is_a_503_and_other_pages_have_no_number(impatient_shop, answer):
    shop = impatient_shop
    shop.new_user()
    shop.campanile.kill()
    with fake_campanile(shop.campanile.port, answer) as asked:
        visitor = Visitor(shop)
        visitor.get(status=503)
        visitor.get("/orders")
        assert visitor.number == ""
    assert [path for path, _ in asked] == ["/notifications?limit=25", "/badge"], "a page waits once"


def test_while_campanile_hangs_the_page_says_so_soon_and_others_are_there_sooner(impatient_shop):
    shop = impatient_shop
    shop.new_user(unread=1)
    visitor = Visitor(shop)
    visitor.get()
    assert visitor.number == "1", "the user of Current.user"
    shop.hang()
    for path, status in (("/notifications", 503), ("/orders", 200)):
        began = time.monotonic()
        visitor.get(path, status)
        assert time.monotonic() - began < SOON


def test_text_that_looks_like_code_is_text_and_hostile_links_are_none(impatient_shop):
    """The real server refuses such links; this page doesn't count on it."""
    shop = impatient_shop
    shop.new_user()
    hostile = ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)", "data:text/html,x", "//evil.example",
               "///evil.example", "/\\evil.example", "\\\\evil.example", "/\t/evil.example", "https://evil.example/", "\x01javascript:alert(1)", "home soptamp"]
    harmless = ["home", "/orders/42?tab=parcels#there", "a?b=c:d", "", None]
    entry = {"id": "01890000-0000-7000-8000-000000000000", "title": "<script>window.ran = 1</script>", "body": "<img src=x onerror='window.ran = 1'>",
             "created_at": "2026-01-01T00:00:00.000Z", "read_at": None}
    listed = {"notifications": [{**entry, "deep_link": link} for link in hostile + harmless], "next_cursor": None, "badge": {"count": 1}}
    shop.campanile.kill()
    with fake_campanile(shop.campanile.port, (200, json.dumps(listed).encode())) as asked:
        visitor = Visitor(shop, agent=f"{NATIVE} of the user's")
        visitor.get("/notifications?cursor=a%26b%3Dc", X_Sec_Purpose="prefetch")
    [(path, headers)] = asked
    assert (headers["User-Agent"], headers["X-Sec-Purpose"]) == (f"{NATIVE} of the user's", "prefetch")
    assert path == "/notifications?limit=25&cursor=a%26b%3Dc", "the cursor is one value"
    assert visitor.entries == [(entry["title"], True)] * (len(hostile) + len(harmless))
    assert "<script>window" not in visitor.text and "<img src=x" not in visitor.text
    links = [html.unescape(link) for link in re.findall(r'<h2><a href="([^"]*)"', visitor.text)]
    assert links == ["/home", "/orders/42?tab=parcels#there", "/a?b=c:d"]


# --- in Chromium

def wait_for_entries(page, number):
    """As somebody who scrolls down."""
    page.wait(f"scrollTo(0, document.body.scrollHeight), {ENTRIES}.length >= {number}", 60)
    assert page.evaluate(f"{ENTRIES}.length") == number
    ids = page.evaluate(f"{ENTRIES}.map(({{ id }}) => id)")
    assert ids == sorted(set(ids), reverse=True), "newest first, each once"


def test_older_entries_come_while_scrolling_and_one_is_read_and_deleted_in_its_place(shop):
    page = shop.signed_in(unread=60, agent=BROWSER)
    page.go(f"{shop.address}/orders")
    visit(page, "/notifications")
    page.wait(f"{ENTRIES}.length >= 25")
    assert page.evaluate(f"{ENTRIES}.length") < 60, "not all at once"
    wait_for_entries(page, 60)
    page.wait(f"{BADGE}.dataset.count === '60'")
    page.evaluate(f"void (window.kept = {ENTRIES}[40])")
    page.evaluate(f"void ({ENTRIES}[50].dataset.tried = 'yes')")
    page.click("[data-tried=yes] [aria-label^=Mark]")
    page.wait(f"{UNREAD} === 59")
    page.wait(f"{BADGE}.dataset.count === '59'", what="the number by the layout's subscription")
    page.evaluate(f"void ({ENTRIES}[50].dataset.tried = 'again')")
    page.click("[data-tried=again] [aria-label^=Delete]")
    page.wait(f"{ENTRIES}.length === 59")
    assert page.evaluate(f"kept === {ENTRIES}[40] && scrollY > 0"), "the list stays as and where it was"
    assert page.nameless() == []


def test_older_entries_that_failed_come_by_their_link(shop):
    page = shop.signed_in(unread=30, agent=BROWSER)
    page.size(1280, 300)
    page.go(f"{shop.address}/notifications")
    page.wait(is_live("9+"))
    shop.campanile.kill()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    deadline = time.monotonic() + 60
    while not any(UNAVAILABLE[0] in one for one in page.complaints):
        assert time.monotonic() < deadline, "the frame wasn't asked for"
        time.sleep(0.05)
    page.wait("!document.querySelector('turbo-frame[busy]')")
    assert page.evaluate(f"{ENTRIES}.length") == 25
    page.take_complaints()  # Turbo 7.1 writes the answer on the console too
    shop.campanile.start()
    page.click("turbo-frame turbo-frame a")
    page.wait(f"{ENTRIES}.length === 30")
    assert page.evaluate("location.search") == "", "the page is the same"


@pytest.mark.complaints(PROGRESS_BAR, *AWAY, *REFUSED, *UNAVAILABLE)
def test_without_campanile_a_visit_shows_it_and_try_again_leads_to_the_list(shop):
    page = shop.signed_in(unread=1, agent=BROWSER)
    page.go(f"{shop.address}/orders")
    page.wait(is_live("1"))
    shop.campanile.kill()
    page.evaluate("void Turbo.visit('/notifications')")
    page.wait("document.querySelector('[role=alert]')")
    page.wait("location.pathname === '/notifications'")
    shop.campanile.start()
    page.click("main a")
    page.wait(f"{ENTRIES}.length === 1")
    page.wait(is_live("1"), 60)


def test_back_shows_what_is_true_and_never_the_copy_from_before(shop):
    page = shop.signed_in(unread=2, agent=BROWSER)
    page.go(f"{shop.address}/notifications")
    page.wait(is_live("2"))
    visit(page, "/orders")
    # In another tab, say.
    shop.read_all()
    page.wait(is_live(""))
    page.evaluate(f"""void (addEventListener("turbo:render", () => (window.seen ??= []).push({UNREAD})))""")
    page.back()
    page.wait("location.pathname === '/notifications'")
    page.wait(f"{ENTRIES}.length === 2 && {UNREAD} === 0")
    page.wait(is_live(""))
    assert set(page.evaluate("seen")) == {0}
    # A document that is left and loaded anew, as without Turbo.
    shop.post()
    page.go("about:blank#elsewhere")
    page.back()
    page.wait(f"{ENTRIES}.length === 3 && {UNREAD} === 1")
    page.wait(is_live("1"))


def test_mark_all_is_one_press_and_a_morph_afterwards_changes_nothing(shop):
    page = shop.signed_in(unread=3, agent=BROWSER)
    page.go(f"{shop.address}/notifications")
    page.wait(is_live("3"))
    page.click("main form button, main form input[type=submit]")
    page.wait(f"{UNREAD} === 0 && {ENTRIES}.length === 3")
    page.wait(is_live(""))
    page.evaluate((HERE / "pages/morph.js").read_text() + "; 0")
    shop.post()
    page.wait(is_live("1"))
    page.evaluate("""fetch(location.href).then((answer) => answer.text()).then((text) => {
      morphBody(new DOMParser().parseFromString(text, "text/html").body.innerHTML); })""")
    page.wait(f"{UNREAD} === 1 && {ENTRIES}.length === 4")
    page.wait(is_live("1"))


def test_the_subscription_of_the_partial_follows_looks_and_reads_over_visits(shop):
    page = shop.signed_in(unread=2, agent=BROWSER, layout="cabled")
    page.go(f"{shop.address}/notifications")
    page.wait("rendered.length >= 1", what="the present number from the cable")
    assert page.evaluate(f"{SPAN}.textContent === '2' && {SPAN}.hidden")
    page.evaluate(f"void (window.kept = {SPAN})")
    page.click("main [aria-label^=Mark]")
    page.wait(f"{UNREAD} === 1")
    page.wait(f"{SPAN}.textContent === '1'")
    visit(page, "/orders")
    shop.post()
    page.wait(f"kept === {SPAN} && kept.textContent === '2'")
    visit(page, "/notifications")
    page.click("main form button, main form input[type=submit]")
    page.wait(f"{UNREAD} === 0")
    page.wait(f"kept === {SPAN} && kept.textContent === '0'")
    # The app looks.
    shop.post()
    page.wait("kept.textContent === '1'")
    page.call("Network.setUserAgentOverride", userAgent=NATIVE)
    visit(page, "/notifications")
    page.wait("kept.textContent === '0'")
    assert page.evaluate(UNREAD) == 1


# --- Procfile.dev

# What Puma prints, what is written for it, and what an Android emulator has in its place.
PAGES = "http://localhost:3000", "http://127.0.0.1:3000", "http://[::1]:3000", "http://10.0.2.2:3000"


def allows(port, origin):
    return Connection(port).request("GET", "/badge", headers={"Origin": origin}).headers["Access-Control-Allow-Origin"] == origin


def test_the_procfiles_server_makes_the_key_and_the_secret_that_the_initializer_reads(shop, binary):
    """The shop's own Procfile.dev, as the generator wrote it; the second start makes nothing anew."""
    lines = dict(line.split(": ", 1) for line in (shop.folder / "Procfile.dev").read_text().splitlines())
    assert lines.keys() == {"web", "campanile"}
    with temporary_folder("campanile-procfile-") as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        (folder / "bin/campanile").symlink_to(os.path.realpath(binary))
        port = str(free_port())
        environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": name, "LC_ALL": "C.UTF-8", "PORT": "5000"}
        made = []
        for _ in range(2):
            server = subprocess.Popen(shlex.split(lines["campanile"].replace("3001", port)), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                      preexec_fn=die_with_parent)
            try:
                wait_for_answer(int(port))
                secrets = [(folder / path).read_text().strip() for path in ("storage/campanile.key", "storage/campanile.sqlite.jwt_secret")]
                as_user = Connection(int(port)).request("GET", "/badge", credential=user_token(secrets[1], "alice"))
                as_producer = Connection(int(port)).request("POST", "/notifications", credential=secrets[0], body={"user_id": "alice", "title": "Hello"})
                assert (as_user.status, as_producer.status) == (200, 201)
                assert [origin for origin in PAGES if not allows(int(port), origin)] == []
                made.append(secrets)
            finally:
                server.terminate()
                server.wait(60)
        assert made[0] == made[1]
    named = re.findall(r'"(storage/campanile[^"]*)"', (shop.folder / "config/initializers/campanile.rb").read_text())
    assert named == ["storage/campanile.key", "storage/campanile.sqlite.jwt_secret"]


def wait_for_answer(port):
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            assert Connection(port).request("GET", "/healthz").status == 200
            return
        assert time.monotonic() < deadline, "Campanile doesn't answer"
        time.sleep(0.05)
