"""The web pieces in a real browser, against a server that refuses, cuts and lies on command.

Chromium is Debian's; the pages are in pages/. Nothing is waited for by the clock: what takes random or long times in the
pieces (backing off, having slept) is set to nothing or told to have passed.

Prints a line a test and "N passed, N failed"; exit code 1 if anything failed.
"""
import argparse
import re
import sys
import traceback

from chromium import Browser, clean_up_when_told_to_end
from fake_server import ASSETS, HERE, FakeServer

# What a browser writes on its console about a refused or broken stream; it can't be kept from it.
REFUSED = ("Failed to load resource", "ERR_")
AT_ONCE = "Math.random = () => 0;"
APP_BADGE = """window.appBadges = [];
navigator.setAppBadge = async (count) => { appBadges.push(count); };
navigator.clearAppBadge = async () => { appBadges.push(0); throw new Error("not allowed"); };"""

DOCUMENT = HERE.parent / "docs" / "realtime-pages.md"

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def text_is(selector, text):
    return f"document.querySelector('{selector}').textContent === '{text}'"


class World:
    """A fresh page on a server that knows nothing."""

    def __init__(self, browser, server):
        self.browser, self.server = browser, server
        self.pages = []

    def open(self, name, *scripts, page=None):
        page = page or self.browser.page()
        self.pages.append(page)
        for script in (AT_ONCE, *scripts):
            page.before_load(script)
        page.go(f"{self.server.address}/pages/{name}")
        return page

    def close(self, expected):
        complaints = [one for page in self.pages for one in page.take_complaints(expected)]
        for page in self.pages:
            page.close()
        self.server.wait_for_streams(0)
        assert not complaints, f"complaints: {complaints}"


@test
def the_number_is_shown_and_hidden_at_zero(world):
    page = world.open("badge.html")
    world.server.wait_for_streams(1)
    assert page.evaluate("document.getElementById('one').hidden"), "an unknown number is hidden"
    world.server.tell(1, 2)
    page.wait(text_is("#one", "1"))
    assert page.accessible("#one") == ("image", "1 unread notification"), page.accessible("#one")
    world.server.tell(9, 3)
    page.wait(text_is("#one", "9"))
    world.server.tell(10, 4)
    page.wait(text_is("#one", "9+") + " && " + text_is("#two", "10"))
    assert page.accessible("#one") == ("image", "10 unread notifications"), page.accessible("#one")
    assert page.evaluate("getComputedStyle(document.getElementById('one')).display") == "inline-block"
    world.server.tell(0, 5)
    page.wait(text_is("#one", ""))
    assert page.evaluate("getComputedStyle(document.getElementById('one')).display") == "none"
    assert page.evaluate("document.getElementById('two').hidden")


@test
def all_elements_share_one_connection(world):
    world.server.tell(4, 2)
    page = world.open("badge.html")
    page.wait(text_is("#one", "4"))
    page.evaluate("""document.body.insertAdjacentHTML("beforeend", '<b id="three" data-notification-badge></b><campanile-badge id="four" max="3"></campanile-badge>')""")
    page.wait(text_is("#three", "4") + " && " + text_is("#four", "3+"))
    # Turbo puts a new body in the place of the old one.
    page.evaluate("""document.documentElement.replaceChild(document.body.cloneNode(true), document.body)""")
    world.server.tell(5, 3)
    page.wait(text_is("#one", "5") + " && " + text_is("#three", "5"))
    assert len(world.server.requests("/badge/stream")) == 1, world.server.requests("/badge/stream")
    page.evaluate("document.body.replaceChildren()")
    world.server.wait_for_streams(0)


@test
def an_older_number_is_refused(world):
    page = world.open("badge.html")
    world.server.tell(3, 20)
    page.wait(text_is("#one", "3"))
    world.server.tell_late(7, 19)
    world.server.tell_late(8, 20)
    world.server.tell_late(4, 21)
    page.evaluate("""window.shown = []; document.addEventListener("campanile:badge", (event) => shown.push(event.detail.count))""")
    world.server.tell(6, 22)
    page.wait(text_is("#one", "6"))
    assert not {7, 8} & set(page.evaluate("shown")), page.evaluate("shown")


@test
def a_broken_connection_is_resumed(world):
    page = world.open("badge.html")
    world.server.tell(3, 20)
    page.wait(text_is("#one", "3"))
    world.server.change_unheard(5, 21)
    world.server.cut()
    page.wait(text_is("#one", "5"))
    ids = [one["last_event_id"] for one in world.server.requests("/badge/stream")]
    assert ids == [None, "20"], ids


@test
def a_refused_connection_is_tried_again(world):
    page = world.open("badge.html")
    world.server.tell(3, 20)
    page.wait(text_is("#one", "3"))
    world.server.stream_status = 503
    world.server.cut()
    world.server.wait(lambda server: sum(one["path"] == "/badge/stream" for one in server.asked) >= 4, "tries")
    assert page.evaluate("document.getElementById('one').textContent") == "3", "the number stays meanwhile"
    world.server.change_unheard(2, 21)
    world.server.stream_status = 200
    page.wait(text_is("#one", "2"))


a_refused_connection_is_tried_again.expected = REFUSED


@test
def waiting_grows_and_is_random(world):
    page = world.open("badge.html", """window.waits = []; window.realTimeout = setTimeout; Math.random = () => 0.5;
      setTimeout = (work, ms, ...rest) => realTimeout(work, ms >= 500 ? (waits.push(ms), 0) : ms, ...rest);""")
    world.server.tell(3, 20)
    page.wait(text_is("#one", "3"))
    world.server.stream_status = 401
    world.server.cut()
    page.wait("waits.length >= 9")
    assert page.evaluate("waits.slice(0, 9)") == [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000], page.evaluate("waits")
    page.evaluate("waits.length = 0")
    world.server.stream_status = 200
    world.server.wait_for_streams(1)
    world.server.tell(4, 22)
    page.wait(text_is("#one", "4"))
    page.evaluate("waits.length = 0")
    world.server.stream_status = 503
    world.server.cut()
    page.wait("waits.length >= 2")
    assert page.evaluate("waits.slice(0, 2)") == [500, 1000], "a good connection begins the waiting anew"


waiting_grows_and_is_random.expected = REFUSED


@test
def a_token_is_exchanged_and_never_in_an_address(world):
    world.server.tell(2, 2)
    page = world.open("token.html")
    page.wait(text_is("#one", "2"))
    world.server.stream_status = 401   # the stream token is too old
    world.server.cut()
    world.server.wait(lambda server: server.granted >= 3, "another stream token")
    world.server.change_unheard(6, 3)
    world.server.stream_status = 200
    page.wait(text_is("#one", "6"))
    grants = world.server.requests("/stream_tokens")
    assert {one["authorization"] for one in grants} == {"Bearer user-token-of-alice"}, grants
    tokens = [one["query"]["access_token"][0] for one in world.server.requests("/badge/stream")]
    assert tokens[0] == "stream-token-1" and tokens[-1] == f"stream-token-{len(grants)}", (tokens, grants)
    assert not any("user-token" in one["target"] for one in world.server.asked)


a_token_is_exchanged_and_never_in_an_address.expected = REFUSED


@test
def a_refused_token_is_told_and_tried_again(world):
    world.server.token_status = 401
    page = world.open("token.html")
    world.server.wait(lambda server: server.granted >= 3, "tries")
    page.evaluate("""(async () => { const { listen } = await import("/assets/campanile-badge.js");
      window.told = []; listen("/badge/stream", {}, [], (name, data) => told.push([name, data])); })()""")
    page.wait("told.some(([name, data]) => name === 'wait' && data === 401)")
    assert not world.server.requests("/badge/stream")
    world.server.tell(1, 9)
    world.server.token_status = 201
    page.wait(text_is("#one", "1"))


a_refused_token_is_told_and_tried_again.expected = REFUSED


@test
def another_user_does_not_see_the_number_of_the_one_before(world):
    world.server.tell(8, 2000)
    page = world.open("token.html")
    page.wait(text_is("#one", "8"))
    world.server.stream_status = 503
    assert page.evaluate("""(() => { const one = document.getElementById("one");
      one.setAttribute("token", "user-token-of-bob"); return one.textContent === "" && one.hidden; })()""")
    # Bob's version is smaller than Alice's: it is another count.
    world.server.change_unheard(1, 3)
    world.server.stream_status = 200
    page.wait(text_is("#one", "1"))
    assert world.server.requests("/stream_tokens")[-1]["authorization"] == "Bearer user-token-of-bob"


another_user_does_not_see_the_number_of_the_one_before.expected = REFUSED


@test
def a_page_that_is_shown_again_is_right(world):
    page = world.open("badge.html")
    world.server.tell(3, 20)
    page.wait(text_is("#one", "3"))
    page.hide()
    world.server.tell(4, 21)
    page.wait(text_is("#one", "4"))
    page.show()
    assert len(world.server.requests("/badge/stream")) == 1, "a short absence leaves the connection"
    page.hide()
    # The connection is dead, and nobody has noticed: a proxy forgot it while the machine slept.
    world.server.change_unheard(7, 22)
    page.evaluate("(() => { const now = Date.now; Date.now = () => now() + 31000; })()")
    page.show()
    page.wait(text_is("#one", "7"))
    world.server.wait_for_streams(1)


@test
def a_page_that_was_refused_while_hidden_does_not_wait_when_shown(world):
    page = world.open("badge.html", "Math.random = () => 0.999;")
    world.server.tell(3, 20)
    page.wait(text_is("#one", "3"))
    page.hide()
    world.server.stream_status = 503
    world.server.cut()
    world.server.wait(lambda server: sum(one["path"] == "/badge/stream" for one in server.asked) >= 2, "a try")
    world.server.change_unheard(9, 21)
    world.server.stream_status = 200
    page.show()
    page.wait(text_is("#one", "9"))


a_page_that_was_refused_while_hidden_does_not_wait_when_shown.expected = REFUSED


@test
def the_title_tells_the_number(world):
    page = world.open("badge.html")
    world.server.tell(3, 2)
    page.wait("document.title === '(3) Shop'")
    page.evaluate("document.title = 'Orders'")
    page.wait("document.title === '(3) Orders'")
    world.server.tell(12, 3)
    page.wait("document.title === '(9+) Orders'")
    world.server.tell(0, 4)
    page.wait("document.title === 'Orders'")


@test
def the_icon_of_an_installed_page_tells_the_number(world):
    page = world.open("badge.html", APP_BADGE)
    page.wait("appBadges.at(-1) === 0")
    world.server.tell(12, 3)
    page.wait("appBadges.at(-1) === 12")
    world.server.tell(0, 4)
    page.wait("appBadges.at(-1) === 0")
    assert page.evaluate("appBadges") == [0, 12, 0], page.evaluate("appBadges")


@test
def a_page_that_comes_back_from_the_cache_is_right(world):
    page = world.open("badge.html")
    world.server.tell(3, 20)
    page.wait(text_is("#one", "3"))
    page.evaluate("window.isTheSame = true; dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    world.server.wait_for_streams(0)
    world.server.change_unheard(4, 21)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    page.wait(text_is("#one", "4"))


@test
def a_native_app_hears_what_turbo_shows(world):
    page = world.open("native.html")
    page.wait("posted.ios.some((one) => one.count === 2)")
    assert page.evaluate("posted.bridge[0]") == {
        "component": "badge", "event": "update",
        "data": {"count": 2, "metadata": {"url": f"{world.server.address}/pages/native.html"}}}
    page.evaluate("for (const list of Object.values(posted)) list.length = 0")

    def turbo(action, content):
        page.evaluate(f"""renderStreamMessage(`<turbo-stream action="{action}" target="notification-badge-count"><template>{content}</template></turbo-stream>`)""")

    turbo("update", "12")
    page.wait("posted.ios.length === 1")
    turbo("update", "12")
    turbo("update", "")
    page.wait("posted.ios.length === 2")
    page.evaluate("window.gone = document.getElementById('notification-badge-count')")
    turbo("replace", "<span id='notification-badge-count' data-controller='badge'>5</span>")
    page.wait("posted.ios.length === 3")
    page.evaluate("gone.textContent = '77'")   # nobody looks at it any more
    assert page.evaluate("posted.ios") == [{"count": 12}, {"count": 0}, {"count": 5}], page.evaluate("posted.ios")
    assert page.evaluate("posted.android") == ['{"count":12}', '{"count":0}', '{"count":5}'], page.evaluate("posted.android")
    assert page.evaluate("posted.bridge.map((one) => one.data.count)") == [12, 0, 5]


@test
def a_native_app_hears_the_exact_number_of_the_element(world):
    page = world.open("native.html")
    page.evaluate("document.getElementById('notification-badge-count').remove()")
    world.server.wait_for_streams(1)
    world.server.tell(120, 3)
    page.wait(text_is("#live", "9+"))
    page.wait("posted.ios.at(-1).count === 120")
    world.server.tell(0, 4)
    page.wait("posted.ios.at(-1).count === 0")


def documented(language, after):
    """The first block of code of a language behind a heading of docs/realtime-pages.md."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.search(rf"^## {after}$.*?^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE).group(1)


@test
def the_documented_page_does_what_it_says(world):
    text = documented("html", "Plain HTML").replace("https://push.example.com", world.server.address)
    world.server.made["/pages/documented.html"] = text.replace("<head>", "<head><link rel='icon' href='/pages/icon.svg'>")
    world.server.tell(3, 2)
    page = world.open("documented.html")
    page.wait(text_is("campanile-badge", "3") + " && document.title === '(3) Shop'")
    assert world.server.requests("/stream_tokens")[0]["authorization"] == "Bearer USER_TOKEN"


@test
def the_documented_hook_does_what_it_says(world):
    hook = documented("js", "React").replace('"react"', '"/pages/react.js"').replace("./campanile-badge.js", "/assets/campanile-badge.js")
    world.server.made["/pages/hook.js"] = hook + """
      import { start } from "/pages/react.js";
      window.token = "token-of-alice";
      window.draw = () => { document.body.textContent = useBadge("/badge/stream", token).count; };
      window.again = () => start(draw);
      again();"""
    world.server.made["/pages/hook.html"] = (
        "<!doctype html><title>Hook</title><link rel=icon href=/pages/icon.svg><body><script type=module src=/pages/hook.js></script>")
    world.server.tell(3, 20)
    page = world.open("hook.html")
    page.wait(text_is("body", "3"))
    world.server.tell(4, 21)
    page.wait(text_is("body", "4"))
    world.server.change_unheard(1, 5)
    page.evaluate("token = 'token-of-bob'; again()")
    page.wait(text_is("body", "1"))
    world.server.wait_for_streams(1)
    assert [one["authorization"] for one in world.server.requests("/stream_tokens")] == ["Bearer token-of-alice", "Bearer token-of-bob"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chromium", default="chromium", help="the browser's program")
    parser.add_argument("--assets", default=ASSETS, help="the folder of the web pieces")
    parser.add_argument("--only", help="a part of the names of the tests to run")
    options = parser.parse_args()
    clean_up_when_told_to_end()
    failed = passed = 0
    with Browser(options.chromium) as browser:
        for one in TESTS:
            if options.only and options.only not in one.__name__:
                continue
            # A server each: what a page of the test before still asks goes to its own.
            with FakeServer(options.assets) as server:
                world = World(browser, server)
                try:
                    one(world)
                    world.close(getattr(one, "expected", ()))
                    passed += 1
                    print(f"ok    {one.__name__}", flush=True)
                except Exception:
                    failed += 1
                    print(f"WRONG {one.__name__}\n{traceback.format_exc()}", flush=True)
                    for page in world.pages:
                        page.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
