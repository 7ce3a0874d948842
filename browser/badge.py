"""Open pages show the number while it changes, and the console shows all of it: a real server, a real browser.

Chromium is Debian's package; the server is the program given with --binary. The test's own pages come from another origin
(allowed_origins), the console from the server's. With --screenshots DIR the console's pictures are written there.

Prints a line a step and "N passed, N failed"; exit code 1 if anything failed.
"""
import argparse
import contextlib
import http.server
import json
import os
import pathlib
import sys
import threading
import traceback
from urllib.parse import urlencode

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "trust"))
from campanile_process import Campanile, temporary_folder  # noqa: E402

from chromium import Browser, clean_up_when_told_to_end  # noqa: E402

USER = "alice"
# What a browser writes on its console when a server is away or refuses; it can't be kept from it.
AWAY = ("ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_SOCKET")
REFUSED = ("the server responded with a status of 4",)
IPHONE, ANDROID = "a1b2c3d4" * 8, "alices-android-phone"
STORY = [
    {"title": "Your statement for October is ready", "category": "STATEMENT", "deep_link": "/statements/2026-10", "push": False},
    {"title": "Table for four, tomorrow at 19:30", "body": "Osteria alla Torre confirmed your booking.", "category": "BOOKING",
     "deep_link": "/bookings/881"},
    {"title": "Marta replied to your note", "body": "“Saturday works for me. Shall we take the early train?”", "category": "MESSAGE",
     "deep_link": "/threads/17#last"},
    {"title": "Your order is on its way", "body": "Parcel 2 of 2 left the warehouse.", "category": "ORDER_UPDATE",
     "deep_link": "/orders/42?tab=parcels", "data": {"order": 42, "carrier": "Post"}},
    {"title": "New sign-in from Lisbon", "body": "Was it you? Look at your sessions.", "category": "SECURITY",
     "deep_link": "/settings/sessions"},
]

STEPS = []


def step(function):
    STEPS.append(function)
    return function


@contextlib.contextmanager
def page_server():
    """Serves pages/ on an origin of its own; gives that origin."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(HERE))

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class World:
    """The server, its users' credentials, and the browser."""

    def __init__(self, campanile, browser, origin, screenshots):
        self.campanile, self.browser, self.origin, self.screenshots = campanile, browser, origin, screenshots
        self.server = f"http://127.0.0.1:{campanile.port}"
        self.key, self.token = campanile.producer_key("console"), campanile.user_token(USER)
        self.pages, self.number = [], 0

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

    def console(self, width=1440, height=900, signed_in=True):
        page = self.open(f"{self.server}/console", width=width, height=height)
        if signed_in:
            page.fill("#token", self.token)
            page.fill("#key", self.key)
            page.click("#sign-in-form [type=submit]")
            page.wait("document.getElementById('live').classList.contains('on')", what="the console to be live")
            page.wait("document.getElementById('badge').dataset.count !== undefined", what="the console's badge")
        return page

    def close(self, expected):
        complaints = [one for page in self.pages for one in page.take_complaints(expected)]
        for page in self.pages:
            page.close()
        self.pages = []
        assert not complaints, f"complaints: {complaints}"


def badge_is(text):
    return f"document.getElementById('badge').textContent === '{text}' && document.getElementById('badge').hidden === {json.dumps(not text)}"


def titled(title):
    return f"[...document.querySelectorAll('.notification')].find((node) => node.querySelector('h3').textContent === {json.dumps(title)})"


# --- pages of another origin

@step
def a_post_moves_the_badge_of_every_page(world):
    pages = [world.live(), world.live()]
    for page in pages:
        page.wait(badge_is(""))
    for number in (1, 2, 3):
        world.post()
        for page in pages:
            page.wait(badge_is(str(number)))
            page.wait(f"document.title === '({number}) Shop'")
    assert pages[0].accessible("#badge") == ("image", "3 unread notifications"), pages[0].accessible("#badge")


@step
def mark_all_read_in_one_page_clears_the_other(world):
    world.post()
    one, other = world.live(), world.live()
    other.wait(badge_is("1"))
    assert one.evaluate("markAllRead()") == 200
    other.wait(badge_is(""))
    one.wait(badge_is(""))
    other.wait("document.title === 'Shop'")


@step
def nine_is_the_most_that_is_shown(world):
    page = world.live()
    for _ in range(10):
        world.post(push=False)
    page.wait(badge_is("9+"))


@step
def what_changed_while_the_server_was_down_appears(world):
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


what_changed_while_the_server_was_down_appears.expected = AWAY + REFUSED


@step
def a_page_that_is_shown_again_is_right(world):
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


@step
def a_page_without_a_right_to_it_shows_nothing(world):
    world.post()
    page = world.open(f"{world.origin}/pages/live.html#{urlencode({'server': world.server, 'token': 'x.y.z'})}")
    page.wait("document.getElementById('badge') !== null")
    page.evaluate("""(async () => { const { listen } = await import(new URL("/assets/campanile-badge.js", new URLSearchParams(location.hash.slice(1)).get("server")));
      window.told = []; listen(document.getElementById("badge").getAttribute("src"), {}, [], (name, data) => told.push([name, data])); })()""")
    page.wait("told.some(([name, data]) => name === 'wait' && data === 401)")
    assert page.evaluate(badge_is(""))


a_page_without_a_right_to_it_shows_nothing.expected = REFUSED


# --- the console

@step
def the_console_shows_what_is_sent(world):
    world.device(IPHONE, "ios")
    page = world.console()
    page.wait("document.querySelectorAll('.phone').length === 1")
    page.fill("#title", "Hello <b>Alice</b>")
    page.fill("#body", "from the console")
    page.click("#more summary")
    page.fill("#category", "GREETING")
    page.fill("#deep_link", "/greetings/1")
    page.fill("#data", '{"order": 42}')
    page.click("#compose [type=submit]")
    page.wait(badge_is("1"))
    page.wait(titled("Hello <b>Alice</b>"), what="the title as text")
    page.wait("document.querySelector('.phone-badge')?.textContent === '1'", what="the phone's badge")
    page.wait("document.querySelector('.phone-banner b').textContent === 'Hello <b>Alice</b>'")
    assert page.evaluate("document.querySelector('.details').textContent").endswith("GREETING/greetings/1order 42")
    page.wait("document.getElementById('sent').textContent.startsWith('Sent to alice')")
    page.click("#sent button")
    page.wait("document.getElementById('deliveries').open && document.querySelector('.state.accepted')", what="the delivery")
    page.press("Escape")
    page.wait("!document.getElementById('deliveries').open")
    page.click(".notification .toggle")
    page.wait(badge_is(""))
    page.wait("!document.querySelector('.notification.unread')")
    page.wait("!document.querySelector('.phone-badge')", what="the phone's badge to leave")


@step
def what_others_do_appears_in_the_console(world):
    first, second = world.post(), world.post()
    page = world.console()
    page.wait("document.querySelectorAll('.notification.unread').length === 2")
    world.as_user("PATCH", f"/notifications/{first['id']}", body={"read": True})
    page.wait("document.querySelectorAll('.notification.unread').length === 1")
    world.as_user("DELETE", f"/notifications/{second['id']}", 204)
    page.wait("document.querySelectorAll('.notification').length === 1")
    third = world.post()
    page.wait(f"document.querySelector('.notification').dataset.id === {json.dumps(third['id'])}", what="the newest on top")
    world.as_user("POST", "/notifications/mark_all_read")
    page.wait("!document.querySelector('.notification.unread')")
    page.wait("document.getElementById('summary').textContent === 'Everything is read'")


@step
def the_console_survives_a_restart(world):
    world.post()
    page = world.console()
    page.wait("document.querySelectorAll('.notification').length === 1")
    world.campanile.kill()
    page.wait("!document.getElementById('live').classList.contains('on')")
    world.campanile.command("notify", USER, "While it was down", "by the command")
    world.campanile.start()
    page.wait(titled("While it was down"), 60)
    page.wait(badge_is("2"))
    world.post()
    page.wait("document.querySelectorAll('.notification').length === 3")


the_console_survives_a_restart.expected = AWAY + REFUSED


@step
def the_list_goes_on_to_its_end(world):
    created = [world.post(push=False)["id"] for _ in range(45)]
    page = world.console()
    page.wait("document.querySelectorAll('.notification').length >= 20")
    world.post(push=False, title="In between")
    page.wait(titled("In between"))
    while page.evaluate("!document.getElementById('older').hidden"):
        before = page.evaluate("document.querySelectorAll('.notification').length")
        page.evaluate("document.getElementById('older').scrollIntoView()")
        page.wait(f"document.querySelectorAll('.notification').length > {before} || document.getElementById('older').hidden")
    shown = page.evaluate("[...document.querySelectorAll('.notification')].map((node) => node.dataset.id)")
    assert shown[1:] == created[::-1], "all of them, newest first, none twice"
    page.evaluate("scrollTo(0, 0)")
    page.click("#mark-all")
    page.wait("!document.querySelector('.notification.unread')")
    page.click("input[name=status][value=unread]")
    page.wait("document.getElementById('nothing').textContent === 'Everything is read.'")
    page.click("input[name=status][value=read]")
    page.wait("document.querySelectorAll('.notification').length >= 20")


@step
def the_badge_can_be_cleared_and_everything_stays_unread(world):
    world.device(IPHONE, "ios")
    world.post()
    page = world.console()
    page.wait(badge_is("1"))
    page.wait("document.querySelector('.phone-badge')")
    page.click("#clear-badge")
    page.wait(badge_is(""))
    page.wait("document.getElementById('summary').textContent.startsWith('1 unread')")
    page.wait("!document.querySelector('.phone-badge')")
    assert page.evaluate("document.querySelectorAll('.notification.unread').length") == 1


@step
def devices_come_and_go(world):
    page = world.console()
    page.wait("!document.getElementById('no-devices').hidden")
    page.click("[data-add=ios]")
    page.wait("document.querySelectorAll('.phone').length === 1")
    page.click("[data-add=android]")
    page.wait("document.querySelectorAll('.phone').length === 2")
    world.post()
    page.wait("[...document.querySelectorAll('.phone-badge')].map((node) => node.textContent).join() === '1,1'")
    page.click("#device-list button")
    page.wait("document.querySelectorAll('.phone').length === 1")


@step
def mistakes_are_said_where_they_are(world):
    page = world.console(signed_in=False)
    page.click("#sign-in-form [type=submit]")
    page.wait("document.getElementById('token-error').textContent")
    page.fill("#token", "nonsense")
    page.click("#sign-in-form [type=submit]")
    page.wait("document.getElementById('token-error').textContent === 'The token is malformed.'")
    page.fill("#token", world.key)
    page.fill("#key", world.token)
    page.click("#sign-in-form [type=submit]")
    page.wait("document.getElementById('token-error').textContent.startsWith('This is an API key')")
    page.fill("#token", world.token)
    page.click("#sign-in-form [type=submit]")
    page.wait("!document.getElementById('token-error').textContent && document.getElementById('key-error').textContent.startsWith('This is a user')")
    page.fill("#key", world.key)
    page.press("Enter")
    page.wait("!document.getElementById('console').hidden")
    page.click("#compose [type=submit]")
    page.wait("document.getElementById('title-error').textContent && document.activeElement.id === 'title'")
    page.fill("#title", "x" * 257)
    page.click("#more summary")
    page.fill("#data", '{"aps": 1, "deep": {}}')
    page.click("#compose [type=submit]")
    page.wait("document.getElementById('title-error').textContent.includes('256')")
    page.wait("document.getElementById('data-error').textContent.includes('aps')")
    page.fill("#data", "{")
    page.click("#compose [type=submit]")
    page.wait("document.getElementById('data-error').textContent.includes('JSON')")
    assert page.evaluate("document.getElementById('data').getAttribute('aria-invalid')") == "true"


mistakes_are_said_where_they_are.expected = REFUSED


@step
def a_refused_token_leads_back_to_the_sign_in(world):
    page = world.console()
    page.evaluate("""(() => { const place = "campanile-console"; const kept = JSON.parse(sessionStorage.getItem(place));
      sessionStorage.setItem(place, JSON.stringify({ ...kept, token: kept.token + "x" })); })()""")
    page.go(f"{world.server}/console")
    page.wait("!document.getElementById('sign-in').hidden && document.getElementById('token-error').textContent")
    assert page.evaluate("sessionStorage.getItem('campanile-console')") is None


a_refused_token_leads_back_to_the_sign_in.expected = REFUSED


@step
def everything_can_be_done_by_keyboard(world):
    world.device(IPHONE, "ios")
    page = world.console(signed_in=False)
    assert page.evaluate("document.activeElement.id") == "token"
    page.type(world.token)
    page.tab_to("#key", most=1)
    page.type(world.key)
    page.press("Enter")
    page.wait("document.getElementById('live').classList.contains('on')")
    page.evaluate("document.activeElement.blur()")
    page.tab_to(".skip", most=2)
    page.press("Enter")
    page.wait("document.activeElement.id === 'inbox'")
    page.tab_to("#title")
    page.type("By keyboard")
    page.tab_to("#push")
    page.tab_to("#compose [type=submit]", most=1)
    page.press("Enter")
    page.wait(titled("By keyboard"))
    page.wait(badge_is("1"))
    page.tab_to("#sent button")
    page.press("Enter")
    page.wait("document.getElementById('deliveries').open && document.querySelector('.state')")
    page.press("Escape")
    page.wait("!document.getElementById('deliveries').open && document.activeElement.matches('#sent button')", what="the focus to come back")
    page.tab_to(".notification .toggle", shift=True)
    page.press(" ")
    page.wait(badge_is(""))
    assert page.evaluate("document.activeElement.title") == "Mark unread", "the focus stays on the button"
    page.tab_to(".notification [title=Delete]")
    page.press("Enter")
    page.wait("document.querySelectorAll('.notification').length === 0 && document.activeElement.id === 'inbox'")
    page.tab_to("input[name=status]")
    page.press("ArrowRight")
    page.wait("document.querySelector('input[name=status]:checked').value === 'unread'")
    page.tab_to("#sign-out", shift=True)
    page.press("Enter")
    page.wait("!document.getElementById('sign-in').hidden && document.getElementById('console').hidden")
    assert page.evaluate("sessionStorage.getItem('campanile-console')") is None


@step
def every_control_has_a_name_and_nothing_comes_from_elsewhere(world):
    world.device(IPHONE, "ios")
    world.post(category="A", deep_link="/a", data={"n": 1})
    page = world.console()
    page.wait("document.querySelector('.phone-badge')")
    page.wait("document.querySelector('.notification')")
    assert page.nameless() == [], page.nameless()
    page.click(".notification [title=Deliveries]")
    page.wait("document.getElementById('deliveries').open")
    assert page.nameless() == [], page.nameless()
    foreign = [one for one in page.requested if not one.startswith(f"{world.server}/")]
    assert not foreign, foreign
    told = [one for one in page.requested if world.token in one or world.key in one]
    assert not told, "credentials stand in no address"


@step
def it_fits_390_pixels(world):
    world.device(IPHONE, "ios")
    world.post(title="A" * 200, body="B" * 300, category="C" * 60, deep_link="/" + "d" * 200)
    page = world.console(width=390, height=844)
    page.wait("document.querySelector('.notification') && document.querySelector('.phone')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = page.evaluate("""[...document.querySelectorAll("#inbox button, .sections a, #compose button, .switch")]
      .filter((node) => node.getClientRects().length && (node.getBoundingClientRect().height < 40)).map((node) => node.outerHTML.slice(0, 80))""")
    assert not small, f"too small for a finger: {small}"
    page.click(".notification [title=Deliveries]")
    page.wait("document.getElementById('deliveries').open")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@step
def pictures(world):
    if not world.screenshots:
        return
    world.device(IPHONE, "ios")
    world.device(ANDROID, "android")
    for one in STORY:
        last = world.post(**one)
    world.as_user("PATCH", f"/notifications/{last['id']}", body={"read": True})
    world.post(title="Your train leaves at 17:42", body="Platform 7, on time.", category="TRAVEL",
               deep_link="/trips/2290", data={"platform": 7})
    for name, width, height, theme in (
            ("console-light", 1440, 940, "light"), ("console-dark", 1440, 940, "dark"), ("console-narrow", 390, 844, "light")):
        page = world.console(width, height)
        page.size(width, height, scale=2 if width < 500 else 1, mobile=width < 500)
        page.theme(theme)
        page.wait(badge_is("5") + " && document.querySelectorAll('.phone-badge').length === 2")
        page.evaluate("document.activeElement.blur()")
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=height - 2)
        page.screenshot(os.path.join(world.screenshots, f"{name}.png"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True, help="the campanile program to test")
    parser.add_argument("--chromium", default="chromium", help="the browser's program")
    parser.add_argument("--screenshots", help="a folder for pictures of the console")
    parser.add_argument("--only", help="a part of the names of the steps to run")
    options = parser.parse_args()
    if options.screenshots:
        options.screenshots = os.path.abspath(options.screenshots)
        os.makedirs(options.screenshots, exist_ok=True)
    clean_up_when_told_to_end()
    failed = passed = 0
    with temporary_folder("campanile-browser-") as folder, page_server() as origin, Browser(options.chromium) as browser:
        campanile = Campanile(options.binary, os.path.join(folder, "campanile.sqlite"), folder, {
            "CAMPANILE_CONSOLE": "true", "CAMPANILE_ALLOWED_ORIGINS": origin})
        campanile.start()
        world = World(campanile, browser, origin, options.screenshots)
        for one in STEPS:
            if options.only and options.only not in one.__name__:
                continue
            try:
                world.empty()
                one(world)
                world.close(getattr(one, "expected", ()))
                passed += 1
                print(f"ok    {one.__name__}", flush=True)
            except Exception:
                failed += 1
                print(f"WRONG {one.__name__}\n{traceback.format_exc()}", flush=True)
                with contextlib.suppress(Exception):
                    world.close(("",))
                if campanile.process.poll() is not None:
                    campanile.start()
        campanile.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
