"""Tests: what the pieces show, and how they reconnect."""
import pytest

from e2e.browser.pieces.page import APP_BADGE, PAGE, REFUSED, fresh_world, text_is  # noqa: F401 – the fixture `world`


def test_the_number_is_shown_and_hidden_at_zero(world):
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


def test_all_elements_share_one_connection(world):
    world.server.tell(4, 2)
    page = world.open("badge.html")
    page.wait(text_is("#one", "4"))
    page.evaluate("""document.body.insertAdjacentHTML("beforeend",
        '<b id="three" data-notification-badge="/badge/stream"></b><campanile-badge id="four" max="3"></campanile-badge>')""")
    page.wait(text_is("#three", "4") + " && " + text_is("#four", "3+"))
    # Turbo puts a new body in the place of the old one.
    page.evaluate("""document.documentElement.replaceChild(document.body.cloneNode(true), document.body)""")
    world.server.tell(5, 3)
    page.wait(text_is("#one", "5") + " && " + text_is("#three", "5"))
    assert len(world.server.requests("/badge/stream")) == 1, world.server.requests("/badge/stream")
    page.evaluate("document.body.replaceChildren()")
    world.server.wait_for_streams(0)


def test_an_element_with_the_bare_attribute_is_the_pages_own(world):
    world.server.tell(4, 2)
    own = '<span id="own" class="badge" data-controller="badge" data-notification-badge="">2</span>'
    frame = '<turbo-frame id="frame" data-notification-badge="" src="/badge/stream" token="its own">2</turbo-frame>'
    world.server.made["/pages/own.html"] = PAGE % (own + frame)
    page = world.open("own.html")
    page.evaluate("import('/assets/campanile-badge.js').then(() => document.body.append('more'))")
    # What comes after shows that it isn't only late.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<campanile-badge id=ours src=/other/stream></campanile-badge>')")
    page.wait(text_is("#ours", "4"))
    world.server.tell(5, 3)
    page.wait(text_is("#ours", "5"))
    assert page.evaluate("document.getElementById('own').outerHTML") == own
    assert page.evaluate("document.getElementById('frame').outerHTML") == frame
    assert not world.server.requests("/badge/stream"), world.server.requests("/badge/stream")


def test_a_value_an_address_or_a_token_makes_an_element_ours(world):
    world.server.tell(4, 2)
    world.server.made["/pages/ours.html"] = PAGE % '<b id="one" data-notification-badge>7</b>'
    for option in ("data-notification-badge", "data-src", "data-token", "data-token-src"):
        page = world.open("ours.html")
        page.evaluate("import('/assets/campanile-badge.js').then(() => 0)")
        value = {"data-token": "user-token", "data-token-src": "/own/exchange"}.get(option, "/badge/stream")
        page.evaluate(f"document.getElementById('one').setAttribute('{option}', '{value}')")
        page.wait(text_is("#one", "4"))
        page.evaluate("document.body.replaceChildren()")
        world.server.wait_for_streams(0)


def test_an_older_number_is_refused(world):
    page = world.shows(3, 20)
    world.server.tell_late(7, 19)
    world.server.tell_late(8, 20)
    world.server.tell_late(4, 21)
    page.evaluate("""window.shown = []; document.addEventListener("campanile:badge", (event) => shown.push(event.detail.count))""")
    world.server.tell(6, 22)
    page.wait(text_is("#one", "6"))
    assert not {7, 8} & set(page.evaluate("shown")), page.evaluate("shown")


def test_a_broken_connection_is_resumed(world):
    page = world.shows(3, 20)
    world.server.change_unheard(5, 21)
    world.server.cut()
    page.wait(text_is("#one", "5"))
    ids = [one["last_event_id"] for one in world.server.requests("/badge/stream")]
    assert ids == [None, "20"], ids


@pytest.mark.complaints(*REFUSED)
def test_a_refused_connection_is_tried_again(world):
    page = world.shows(3, 20)
    world.server.stream_status = 503
    world.server.cut()
    world.server.wait(lambda server: sum(one["path"] == "/badge/stream" for one in server.asked) >= 4, "tries")
    assert page.evaluate("document.getElementById('one').textContent") == "3", "the number stays meanwhile"
    world.server.change_unheard(2, 21)
    world.server.stream_status = 200
    page.wait(text_is("#one", "2"))


@pytest.mark.complaints(*REFUSED)
def test_waiting_grows_and_is_random(world):
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


@pytest.mark.complaints(*REFUSED)
def test_a_token_is_exchanged_and_never_in_an_address(world):
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
    assert tokens[0] == "cms_1.code" and tokens[-1] == f"cms_{len(grants)}.code", (tokens, grants)
    assert not any("user-token" in one["target"] for one in world.server.asked)


@pytest.mark.complaints(*REFUSED)
def test_a_refused_token_is_told_and_tried_again(world):
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


@pytest.mark.complaints(*REFUSED)
def test_another_user_does_not_see_the_number_of_the_one_before(world):
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


def test_a_page_that_is_shown_again_is_right(world):
    page = world.shows(3, 20)
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


def test_a_page_that_was_loaded_in_the_background_trusts_no_connection_when_shown(world):
    page = world.shows(3, 20)
    world.server.change_unheard(7, 22)
    # Shown for the first time: no event has told that it was hidden.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true })), 0")
    page.wait(text_is("#one", "7"))
    world.server.wait_for_streams(1)


@pytest.mark.complaints(*REFUSED)
def test_a_page_that_was_refused_while_hidden_does_not_wait_when_shown(world):
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


def test_the_title_tells_the_number(world):
    page = world.open("badge.html")
    world.server.tell(3, 2)
    page.wait("document.title === '(3) Shop'")
    page.evaluate("document.title = 'Orders'")
    page.wait("document.title === '(3) Orders'")
    world.server.tell(12, 3)
    page.wait("document.title === '(9+) Orders'")
    world.server.tell(0, 4)
    page.wait("document.title === 'Orders'")


def test_the_icon_of_an_installed_page_tells_the_number(world):
    page = world.open("badge.html", APP_BADGE)
    page.wait("appBadges.at(-1) === 0")
    world.server.tell(12, 3)
    page.wait("appBadges.at(-1) === 12")
    world.server.tell(0, 4)
    page.wait("appBadges.at(-1) === 0")
    assert page.evaluate("appBadges") == [0, 12, 0], page.evaluate("appBadges")


def test_a_page_that_comes_back_from_the_cache_is_right(world):
    page = world.shows(3, 20)
    page.evaluate("window.isTheSame = true; dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    world.server.wait_for_streams(0)
    world.server.change_unheard(4, 21)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    page.wait(text_is("#one", "4"))


def test_a_page_may_require_trusted_types(world):
    world.server.tell(3, 2)
    policy = '<meta http-equiv="Content-Security-Policy" content="require-trusted-types-for &#39;script&#39;">'
    world.server.made["/pages/trusted.html"] = PAGE.replace("<script", policy + "<script") % '<campanile-badge id="one"></campanile-badge>'
    page = world.open("trusted.html")
    page.wait(text_is("#one", "3"))
    assert page.evaluate("document.getElementById('one').getBoundingClientRect().width > 0")
