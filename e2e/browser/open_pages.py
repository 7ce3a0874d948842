"""Tests: pages of another origin that show one user's number."""
import contextlib
import http.client
import json
import re
from urllib.parse import urlencode

import pytest

from e2e.browser.world import AWAY, REFUSED, USER, badge_is, plain_server


@pytest.fixture(scope="module")
def plain_of_its_own():
    """The example's page server without an address of Campanile, whatever the environment says."""
    with plain_server() as plain:
        plain.handler.campanile = None
        yield plain.address


def campanile_for(address, host):
    """The address of Campanile in the page that is asked for with this Host."""
    with contextlib.closing(http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)) as connection:
        connection.putrequest("GET", "/resources", skip_host=True)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 200
        return re.search(r'<meta name="campanile" content="(.*)">', answer.read().decode())[1]


def test_a_post_moves_the_badge_of_every_page(world):
    pages = [world.live(), world.live()]
    for page in pages:
        page.wait(badge_is(""))
    for number in (1, 2, 3):
        world.post()
        for page in pages:
            page.wait(badge_is(str(number)))
            page.wait(f"document.title === '({number}) Shop'")
    assert pages[0].accessible("#badge") == ("image", "3 unread notifications"), pages[0].accessible("#badge")


def test_mark_all_read_in_one_page_clears_the_other(world):
    world.post()
    one, other = world.live(), world.live()
    other.wait(badge_is("1"))
    assert one.evaluate("markAllRead()") == 200
    other.wait(badge_is(""))
    one.wait(badge_is(""))
    other.wait("document.title === 'Shop'")


def test_nine_is_the_most_that_is_shown(world):
    page = world.live()
    for _ in range(10):
        world.post(push=False)
    page.wait(badge_is("9+"))


@pytest.mark.complaints(*AWAY, *REFUSED)
def test_what_changed_while_the_server_was_down_appears(world):
    world.post()
    pages = [world.live(), world.live()]
    for page in pages:
        page.wait(badge_is("1"))
    world.campanile.kill()
    world.campanile.command("notify", USER, "While it was down", "by the command")
    world.campanile.start()
    world.post()
    for page in pages:
        page.wait(badge_is("3"), 60)
    world.post()
    for page in pages:
        page.wait(badge_is("4"))


def test_a_page_that_is_shown_again_is_right(world):
    page = world.live()
    page.hide()
    world.post()
    page.show()
    page.wait(badge_is("1"))
    page.hide()
    world.post()
    # As after half a minute of sleep: the connection isn't trusted any more.
    page.evaluate("(() => { const now = Date.now; Date.now = () => now() + 31000; })()")
    page.show()
    page.wait(badge_is("2"))
    world.post()
    page.wait(badge_is("3"))


@pytest.mark.complaints(*REFUSED)
def test_a_page_without_a_right_to_it_shows_nothing(world):
    world.post()
    page = world.open(f"{world.origin}/pages/live.html#{urlencode({'server': world.server, 'token': 'x.y.z'})}")
    page.wait("document.getElementById('badge') !== null")
    page.evaluate("""(async () => { const server = new URLSearchParams(location.hash.slice(1)).get("server");
      const { listen } = await import(new URL("/assets/campanile-badge.js", server));
      window.told = []; listen(document.getElementById("badge").getAttribute("src"), {}, [], (name, data) => told.push([name, data])); })()""")
    page.wait("told.some(([name, data]) => name === 'wait' && data === 401)")
    assert page.evaluate(badge_is(""))


def test_the_examples_page_hides_its_link_back_in_an_app_and_in_no_browser(world):
    shown = "getComputedStyle(document.querySelector('.native-back')).display"
    for native, agent in ((False, "Mozilla/5.0 Safari/605"), (True, "Mozilla/5.0 Shop/1.0; Hotwire Native iOS; Turbo Native iOS;")):
        page = world.browser.page()
        world.pages.append(page)
        page.call("Network.setUserAgentOverride", userAgent=agent)
        page.go(f"{world.plain}/resources")
        page.wait(f"sessionStorage.getItem('campanile.native') === '{json.dumps(native)}'")
        page.wait(f"({shown} === 'none') === {json.dumps(native)} && {shown} !== ''")
        assert page.evaluate("document.documentElement.classList.contains('native-app')") is native


@pytest.mark.parametrize(("host", "campanile"), [
    ("localhost:3000", "http://localhost:3001"), ("localhost", "http://localhost:3001"),
    ("10.0.2.2:3000", "http://10.0.2.2:3001"), ("my-mac.local:3000", "http://my-mac.local:3001"), ("[::1]:3000", "http://[::1]:3001")])
def test_the_examples_page_asks_campanile_on_the_host_that_it_was_asked_of(plain_of_its_own, host, campanile):
    assert campanile_for(plain_of_its_own, host) == campanile


@pytest.mark.parametrize("host", [
    None, "", ":3000", "host:port", "a'\"><script>alert(1)</script>", "nobody@example.com:3000", "example.com/path", "example.com connect-src *", "[::1"])
def test_a_host_that_is_none_gets_into_no_page_of_the_example(plain_of_its_own, host):
    assert campanile_for(plain_of_its_own, host) == "http://localhost:3001"


def test_the_examples_page_asks_campanile_where_its_setting_says(world):
    assert campanile_for(world.plain, "10.0.2.2:3000") == world.server


def test_the_examples_page_has_turbo_and_proposes_its_visits_to_an_app(world):
    """Hotwire Native looks for `Turbo` when the page tells of its load, and gives it an adapter."""
    page = world.browser.page()
    world.pages.append(page)
    page.before_load("""window.proposed = [];
      addEventListener("turbo:load", () => {
        Turbo.registerAdapter({ visitProposedToLocation: (location) => proposed.push(location.pathname), pageInvalidated() {} });
        window.isReady = true;
      }, { once: true })""")
    page.go(f"{world.plain}/")
    page.wait("window.isReady")
    page.click("a[href='/resources']")
    page.wait("proposed.length === 1")
    assert page.evaluate("proposed") == ["/resources"] and page.evaluate("location.pathname") == "/"


def test_the_examples_page_shows_the_inbox_at_its_address_and_at_no_other(world):
    world.post(title="First", deep_link="/resources")
    page = world.open(f"{world.plain}/notifications")
    page.wait("document.querySelector('campanile-inbox input')?.checkVisibility()")
    page.fill("campanile-inbox input", world.token)
    page.press("Enter")
    titles = "[...document.querySelector('campanile-inbox').shadowRoot.querySelectorAll('a')].map((node) => node.textContent).join()"
    page.wait(f"{titles} === 'First'")
    # A link in the element is one of Turbo's.
    page.evaluate("window.isTheSame = true")
    page.wait("document.querySelector('campanile-inbox').shadowRoot.querySelector('a').href")
    page.evaluate("document.querySelector('campanile-inbox').shadowRoot.querySelector('a').click()")
    page.wait("location.pathname === '/resources' && !document.querySelector('campanile-inbox')")
    world.post(title="Second")
    page.back()
    page.wait(f"{titles} === 'Second,First' && document.querySelectorAll('campanile-inbox').length === 1")
    page.click("a[href='/resources']")
    # Turbo shows what it kept of the page, and then the page: a click between them hits nothing.
    page.wait("location.pathname === '/resources' && !document.querySelector('campanile-inbox')"
              " && !document.documentElement.matches('[data-turbo-preview], [aria-busy]')")
    page.click("a[href='/notifications']")
    page.wait(f"{titles} === 'Second,First'")
    assert page.evaluate("isTheSame"), "one document all the time"
    assert world.as_user("GET", "/badge").json()["count"] == 1, "opened in a browser: read, and the badge not cleared"


def test_a_visit_of_turbos_to_the_examples_page_needs_no_new_document(world):
    page = world.open(f"{world.plain}/")
    page.evaluate("window.isTheSame = true; document.querySelector('h1').append(' before')")
    page.click("a[href='/resources']")
    page.wait("location.pathname === '/resources' && document.querySelector('h1').textContent === 'Shop'")
    assert page.evaluate("isTheSame")
