"""Tests: examples/web/rails in a real Rails 6.1 with Turbo 7.1 itself, in Chromium, against a real server that also stops and hangs.

Debian's packages: ruby-railties, ruby-actioncable, puma, ruby-jwt. Debian's Rails is older than the example's, and neither Debian nor PyPI has
importmap-rails, turbo-rails, Stimulus and the bridge: browser/rails says what stands for them. The example's own files run unchanged.
"""
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from harness import JWT_SECRET, HarnessError, children, die_with_parent, free_port, serving, temporary_folder
from harness.documents import documented
from harness.hotwire import PROGRESS_BAR, action_cable_file, turbo_file
from world import AWAY, REFUSED, Pages

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "examples/web/rails"
PIECES = HERE.parent / "Sources/CampanileServer/web"
CABLE = HERE.parent / "contract/stock_clients/page.js"   # turbo-rails' element, made again
SIGNING_KEY = "a signing key that is shared with Rails"
START_SECONDS = 120
# Names the layout's own rule. A session that ends takes its nonce with it, and Chromium refuses the rule of the page that Turbo fetches then;
# the document keeps the one that it has.
OWN_RULE = "sha256-lyrDhSmoe122xEOm+mcJNvs9//fe3wXRa5tAzS4DMqw="
AT_ONCE = "Math.random = () => 0;"
NATIVE = "Mozilla/5.0 Shop/1.0; Hotwire Native iOS; Turbo Native iOS; bridge-components: [badge notification-token]"
HEARD = "sent.filter(({ component }) => component === 'badge').map(({ data }) => data.count)"
BADGE = "document.querySelector('campanile-badge')"
LINK_BACK = "getComputedStyle(document.querySelector('.native-back')).display"

pytestmark = [pytest.mark.needs("puma", "ruby", "chromium"), pytest.mark.complaints(PROGRESS_BAR, *AWAY, *REFUSED)]


def assemble(folder):
    """A Rails app of the example's files, and what browser/rails adds."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    shutil.copy(HERE / "rails/config.ru", folder)
    importmap = folder / "config/importmap.rb"
    importmap.write_text((HERE / "rails/importmap.rb").read_text() + importmap.read_text())
    assets, pages = folder / "public/assets", folder / "public/pages"
    shutil.copytree(folder / "app/javascript", assets)
    shutil.copytree(folder / "vendor/javascript", assets, dirs_exist_ok=True)
    shutil.copy(HERE / "rails/controllers.js", assets / "controllers.js")
    shutil.copy(HERE / "pages/bridge.js", assets / "@hotwired--hotwire-native-bridge.js")
    shutil.copy(turbo_file(), assets / "turbo.js")
    pages.mkdir()
    for script in (HERE / "pages/stimulus.js", HERE / "rails/documented.js", CABLE):
        shutil.copy(script, pages)
    shutil.copy(action_cable_file(), pages / "action_cable.js")
    (folder / "app/views/layouts/documented.html.erb").write_text(documented_layout())
    # A browser asks for it by itself, and an answer of the app's would bring the session's cookie as it was before a sign-in.
    shutil.copy(HERE / "pages/icon.svg", folder / "public/favicon.ico")
    (folder / "public/stylesheets").mkdir()
    (folder / "public/stylesheets/app.css").write_text("body { font-family: system-ui }\n")


def documented_layout():
    """The layout of docs/realtime-pages.md, with the scripts of a page and a badge controller."""
    scripts = "".join(f'<script src="{path}"></script>' for path in ("/assets/turbo.js", "/pages/action_cable.js", "/pages/page.js"))
    text, span = documented("erb", "Rails with Turbo"), '<span id="notification-badge-count">'
    assert text.count("<head>") == text.count(span) == 1
    text = text.replace("<head>", f'<!doctype html>\n<head>{scripts}<script type="module" src="/pages/documented.js"></script>')
    return text.replace(span, f'{span[:-1]} data-controller="badge">') + "<%= yield %>\n</body>\n"


@contextlib.contextmanager
def rails(folder, port, campanile, environment):
    """The app, served by Puma."""
    wanted = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", "RAILS_ENV": "production",
        "CAMPANILE_URL": campanile, "CAMPANILE_JWT_SECRET": JWT_SECRET, "SIGNED_STREAM_KEY": SIGNING_KEY, **environment}
    log = folder / "puma.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            ["puma", "--threads", "5:5", "--bind", f"tcp://127.0.0.1:{port}", "config.ru"],
            cwd=folder, env=wanted, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=die_with_parent)
    children.append(process)
    try:
        wait_for_answer(process, port, log)
        yield
    finally:
        process.terminate()
        process.wait(30)
        children.remove(process)


def wait_for_answer(process, port, log):
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise HarnessError(f"the Rails app didn't answer 200:\n{log.read_text(errors='replace')[-3000:]}")


class Shop(Pages):
    """The Rails app, Campanile beside it, and the pages that are open."""

    def __init__(self, address, campanile, browser):
        super().__init__()
        self.address, self.campanile, self.browser = address, campanile, browser
        self.key = campanile.producer_key("shop")
        self.users, self.is_stopped = 0, False

    def new_user(self, unread=0):
        self.users += 1
        self.user = f"user-{self.users}"
        for _ in range(unread):
            self.post()

    def signed_in(self, unread=0):
        """A new user with so many notifications, and a page of a native app where they are signed in, before the first visit."""
        self.new_user(unread)
        page = self.browser.page()
        self.pages.append(page)
        page.call("Network.setUserAgentOverride", userAgent=NATIVE)
        page.call("Network.clearBrowserCookies")
        page.before_load(AT_ONCE)
        page.go(f"{self.address}/signed_out")
        self.sign_in(page)
        return page

    def sign_in(self, page):
        page.evaluate(f"fetch('/session', {{ method: 'POST', body: new URLSearchParams({{ user_id: '{self.user}' }}) }}).then(() => 0)")

    def post(self):
        answer = self.campanile.connection().request(
            "POST", "/notifications", credential=self.key, body={"user_id": self.user, "title": "Hello", "push": False})
        assert answer.status == 201, answer

    def read_all(self):
        token = self.campanile.user_token(self.user)
        assert self.campanile.connection().request("POST", "/notifications/mark_all_read", credential=token).status == 200

    def hang(self):
        self.campanile.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True
        # Each thread stops when it next runs.
        tasks, deadline = pathlib.Path(f"/proc/{self.campanile.process.pid}/task"), time.monotonic() + 20
        while any((task / "stat").read_text().rpartition(")")[2].split()[0] != "T" for task in tasks.iterdir()):
            assert time.monotonic() < deadline, "the server doesn't stop"
            time.sleep(0.01)

    def go_on(self):
        if self.is_stopped:
            self.campanile.process.send_signal(signal.SIGCONT)
        self.is_stopped = False


@contextlib.contextmanager
def shop_with(binary, browser, **environment):
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    settings = {
        "CAMPANILE_ALLOWED_ORIGINS": address,
        "CAMPANILE_CABLE_SIGNED_STREAM_KEY": SIGNING_KEY, "CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true"}
    with temporary_folder("campanile-rails-") as name, serving(binary, settings) as campanile:
        folder = pathlib.Path(name)
        assemble(folder)
        with rails(folder, port, f"http://127.0.0.1:{campanile.port}", environment):
            shop = Shop(address, campanile, browser)
            try:
                yield shop
            finally:
                shop.go_on()


@pytest.fixture(scope="module")
def kept_shop(binary, browser):
    with shop_with(binary, browser) as shop:
        yield shop


@pytest.fixture
def shop(kept_shop, complaints):
    yield kept_shop
    if kept_shop.campanile.process.poll() is not None:
        kept_shop.campanile.start()
    kept_shop.close(complaints)


def shows(text):
    return f"{BADGE}.textContent === '{text}' && {BADGE}.hidden === {str(text in ('', '0')).lower()}"


def is_live(text):
    """The element has heard the number from the stream, and shows it."""
    return f"{BADGE}.getAttribute('role') === 'img' && {shows(text)}"


def visit(page, path):
    page.evaluate(f"""new Promise((done) => {{ addEventListener("turbo:load", done, {{ once: true }}); Turbo.visit("{path}"); }}).then(() => 0)""")


def test_the_copies_are_the_pieces_that_the_server_has():
    copies = EXAMPLE / "vendor/javascript/campanile"
    for copy, piece in (("badge.js", "campanile-badge.js"), ("badge_controller.js", "badge_controller.js")):
        assert (copies / copy).read_bytes() == (PIECES / piece).read_bytes(), f"cp Sources/CampanileServer/web/{piece} {copies / copy}"


def test_three_visits_at_3_tell_the_app_3_each_and_never_0(shop):
    page = shop.signed_in(unread=3)
    page.go(f"{shop.address}/orders")
    for number in (1, 2, 3):
        page.wait(f"{HEARD}.length >= {number}")
        page.wait(is_live("3"))
        if number < 3:
            visit(page, f"/orders/{number}")
            page.wait(f"document.querySelector('main').textContent.includes('/orders/{number}')")
    assert page.evaluate(HEARD) == [3, 3, 3]
    shop.read_all()
    page.wait(f"{HEARD}.length > 3")
    page.wait(is_live(""))
    assert page.evaluate(HEARD) == [3, 3, 3, 0], "3 → 0 is told once"


def test_a_true_0_at_the_start_is_told_once(shop):
    page = shop.signed_in()
    page.go(f"{shop.address}/orders")
    page.wait(f"{HEARD}.length > 0")
    page.wait(is_live(""))
    assert page.evaluate(HEARD) == [0]


def test_an_apps_own_controller_finds_the_number_in_the_page_as_it_is_printed(shop):
    page = shop.signed_in(unread=12)
    page.go(f"{shop.address}/orders")
    assert page.evaluate("""fetch("/orders").then((answer) => answer.text()).then((text) => {
      const node = new DOMParser().parseFromString(text, "text/html").querySelector("campanile-badge");
      return [node.textContent, node.hidden]; })""") == ["12", False]


def test_while_campanile_is_stopped_the_page_runs_its_own_javascript_and_gets_its_number_later(shop):
    page = shop.signed_in(unread=3)
    shop.campanile.kill()
    page.go(f"{shop.address}/orders")
    page.wait("window.runs === \"the app's own JavaScript\"")
    assert page.evaluate(f"{shows('')} && {HEARD}.length === 0"), "an unknown number is told to nobody"
    visit(page, "/orders/2")
    shop.campanile.start()
    page.wait(is_live("3"), 60)
    assert page.evaluate(HEARD) == [3]


def test_while_campanile_hangs_the_page_is_painted_and_runs_its_own_javascript(binary, browser, complaints):
    with shop_with(binary, browser, SHOP_PATIENCE="") as shop:
        page = shop.signed_in(unread=3)
        shop.hang()
        page.go(f"{shop.address}/orders")
        page.wait("window.runs === \"the app's own JavaScript\"")
        page.wait("performance.getEntriesByName('first-contentful-paint').length === 1", what="the page to be painted")
        assert page.evaluate("document.querySelector('h1').textContent") == "Orders"
        assert page.evaluate(HEARD) == []
        shop.go_on()
        page.wait(is_live("3"), 60)
        assert page.evaluate(HEARD) == [3]
        shop.close(complaints)


def test_a_morph_keeps_3_also_when_the_server_could_print_none(shop):
    page = shop.signed_in(unread=3)
    page.go(f"{shop.address}/orders")
    page.wait(is_live("3"))
    page.evaluate((HERE / "pages/morph.js").read_text() + "; 0")
    shop.campanile.kill()
    page.evaluate("""window.badge = document.querySelector("campanile-badge");
      fetch("/orders").then((answer) => answer.text()).then((text) => {
        window.fresh = new DOMParser().parseFromString(text, "text/html").body.innerHTML; morphBody(fresh); })""")
    assert page.evaluate("new DOMParser().parseFromString(fresh, 'text/html').querySelector('campanile-badge').textContent") == ""
    assert page.evaluate(f"window.badge === {BADGE} && {shows('3')}")
    assert page.evaluate(HEARD) == [3]


def test_the_link_back_is_hidden_in_an_app_and_in_no_browser(shop):
    page = shop.signed_in()
    page.go(f"{shop.address}/orders")
    assert page.evaluate(LINK_BACK) == "none"
    page.call("Network.setUserAgentOverride", userAgent="Mozilla/5.0 Safari/605")
    page.go(f"{shop.address}/orders")
    assert page.evaluate(LINK_BACK) != "none"


@pytest.mark.complaints(PROGRESS_BAR, OWN_RULE, *AWAY, *REFUSED)
def test_a_sign_out_has_the_app_delete_its_token_and_shows_no_number_any_more(shop):
    page = shop.signed_in(unread=3)
    page.go(f"{shop.address}/orders")
    page.wait(is_live("3"))
    told = "sent.filter(({ component }) => component === 'notification-token')"
    page.wait(f"{told}.length === 1")
    assert page.evaluate(f"{told}[0].data.userID") == shop.user
    page.evaluate("void (replies.signOut = { deleted: true, message: null })")
    page.click("form button")
    page.wait("location.pathname === '/signed_out' && document.querySelector('campanile-badge') === null")
    assert page.evaluate(f"{told}.map(({{ event }}) => event)") == ["connect", "connect", "signOut"]
    assert page.evaluate(LINK_BACK) == "none", "the document keeps its own rule"


def test_a_token_that_ends_is_renewed_without_a_visit_also_after_the_page_was_hidden(binary, browser, complaints):
    with shop_with(binary, browser, SHOP_TOKEN_SECONDS="3") as shop:
        page = shop.signed_in(unread=3)
        page.go(f"{shop.address}/orders")
        page.wait(is_live("3"))
        # The bridge's component asks as well, when it connects and when the page is shown.
        page.wait("sent.some(({ component }) => component === 'notification-token')")
        asked = page.requested
        renewals = sum(one.endswith("/campanile_token") for one in asked)

        def wait_for_renewals(number):
            deadline = time.monotonic() + 60
            while sum(one.endswith("/campanile_token") for one in asked) < number:
                assert time.monotonic() < deadline, "the token wasn't renewed"
                time.sleep(0.05)
        wait_for_renewals(renewals + 1)
        shop.post()
        page.wait(is_live("4"), 60)
        page.hide()
        wait_for_renewals(sum(one.endswith("/campanile_token") for one in asked) + 1)
        page.show()
        shop.post()
        page.wait(is_live("5"), 60)
        assert set(page.evaluate(HEARD)) == {3, 4, 5}
        tokens = [one for one in asked if "access_token=" in one]
        assert tokens and all("access_token=cms_" in one for one in tokens), "a user token stands in no address"
        shop.close(complaints)


def test_the_documented_layout_keeps_its_number_over_visits_and_a_morph_and_belongs_to_its_user(shop):
    page = shop.signed_in(unread=3)
    node = "document.getElementById('notification-badge-count')"
    page.go(f"{shop.address}/documented/orders")
    page.evaluate(f"void (window.kept = {node})")
    for number in (1, 2, 3):
        page.wait(f"rendered.length >= {number}", what="the present badge from the cable")
        page.wait(f"posted.length >= {number}")
        assert page.evaluate(f"kept === {node} && {node}.textContent") == "3"
        if number < 3:
            visit(page, f"/documented/orders/{number}")
    assert page.evaluate("posted") == [3, 3, 3], "three visits at 3 tell the app 3 each and never 0"
    page.evaluate((HERE / "pages/morph.js").read_text() + "; 0")
    page.evaluate("""fetch(location.href).then((answer) => answer.text()).then((text) => {
      morphBody(new DOMParser().parseFromString(text, "text/html").body.innerHTML.replace(">3</span>", "></span>")); })""")
    assert page.evaluate(f"kept === {node} && {node}.textContent") == "3" and page.evaluate("posted") == [3, 3, 3]
    shop.post()
    page.wait(f"{node}.textContent === '4'")
    shop.read_all()
    page.wait(f"{node}.textContent === '0'")
    assert page.evaluate("posted") == [3, 3, 3, 4, 0]
    # Somebody else signs in without a document being loaded.
    shop.new_user(unread=1)
    shop.sign_in(page)
    visit(page, "/documented/home")
    page.wait(f"kept !== {node} && {node}.textContent === '1'")
    page.wait("posted.at(-1) === 1")
