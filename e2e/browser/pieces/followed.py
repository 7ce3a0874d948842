"""Tests: tokens and users that change, what listeners hear, the console under traffic, and the documented snippets."""
import base64
import json

import pytest

from e2e.browser.fake_server import HERE
from e2e.browser.pieces.page import APP_BADGE, PAGE, REFUSED, fresh_world, text_is  # noqa: F401 – the fixture `world`
from e2e.harness.documents import documented


def token_of(user, number=1, **claims):
    """A token of a user as the modules read it; the name is one whose base64 needs what an address can't hold."""
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value, ensure_ascii=False).encode()).rstrip(b"=").decode()
    return ".".join((part({"alg": "none"}), part({"sub": user, "iat": number, "name": "ÿÿþ>?~>?~", **claims}), f"signature{number}"))


SHOWS = """(() => { const { textContent, hidden, dataset, ariaLabel } = document.querySelector('%s');
  return [textContent, hidden, dataset.count, ariaLabel]; })()"""
NOTHING = ["", True, "0", "0 unread notifications"]
LISTEN = """(async () => { const { listen } = await import("/assets/campanile-badge.js");
  window.listenTo = (names, options = {}, list = (window.told = [])) => listen("/badge/stream", options, names, (...what) => list.push(what));
  %s })()"""


def with_token(world, token, *scripts):
    """The page token.html with another token."""
    text = (HERE / "pages" / "token.html").read_text(encoding="utf-8").replace("user-token-of-alice", token)
    world.server.made["/pages/with-token.html"] = text
    return world.open("with-token.html", *scripts)


def bearers(world):
    return [one["authorization"].removeprefix("Bearer ") for one in world.server.requests("/stream_tokens")]


def test_versions_are_compared_within_a_connection_only(world):
    page = world.shows(8, 2000)
    # The database was restored, or somebody else has the cookie.
    world.server.change_unheard(1, 3)
    world.server.cut()
    page.wait(text_is("#one", "1"))
    world.server.tell_late(7, 2)
    world.server.tell(2, 4)
    page.wait(text_is("#one", "2"))


def test_a_token_that_is_taken_away_ends_it(world):
    world.server.tell(8, 2000)
    for change in ("one.removeAttribute('token')", "one.setAttribute('token', '')"):
        page = with_token(world, token_of("alice"), APP_BADGE)
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b id=two data-notification-badge=/badge/stream></b>')")
        page.wait(text_is("#one", "8") + " && " + text_is("#two", "8"))
        page.evaluate(f"(() => {{ const one = document.getElementById('one'); {change}; window.after = {SHOWS % '#one'}; }})()")
        assert page.evaluate("after") == NOTHING, page.evaluate("after")
        assert page.evaluate(SHOWS % "#two") == NOTHING
        assert page.evaluate("appBadges.at(-1)") == 0
        world.server.wait_for_streams(0)
        asked = len(world.server.asked)
        page.evaluate("dispatchEvent(new Event('online'))")
        page.evaluate("new Promise((done) => setTimeout(done, 0))")
        assert len(world.server.asked) == asked, "nothing is asked for nobody"
        world.server.tell(3, 5)
        page.evaluate(f"document.getElementById('one').setAttribute('token', '{token_of('bob')}')")
        page.wait(text_is("#one", "3") + " && " + text_is("#two", "3"))
        page.evaluate("document.body.replaceChildren()")
        world.server.wait_for_streams(0)
        world.server.tell(8, 2000)


def test_a_fresh_token_of_the_same_user_leaves_the_connection(world):
    world.server.tell(3, 20)
    page = with_token(world, token_of("alice"))
    page.wait(text_is("#one", "3"))
    page.evaluate("window.counts = []; document.addEventListener('campanile:badge', ({ detail }) => counts.push(detail.count))")
    for number in (2, 3):
        # As Turbo does at a visit, and as it does when it morphs.
        page.evaluate(f"""document.body.innerHTML = '<campanile-badge id="one" token="{token_of('alice', number)}"></campanile-badge>'""")
        page.evaluate(f"document.getElementById('one').setAttribute('token', '{token_of('alice', number + 10)}')")
    world.server.tell(4, 21)
    page.wait(text_is("#one", "4"))
    assert set(page.evaluate("counts")) == {3, 4}, page.evaluate("counts")
    assert bearers(world) == [token_of("alice")] and len(world.server.requests("/badge/stream")) == 1
    # The newest is used when one is needed.
    world.server.change_unheard(5, 22)
    page.evaluate("dispatchEvent(new Event('online'))")
    page.wait(text_is("#one", "5"))
    assert bearers(world) == [token_of("alice"), token_of("alice", 13)]


@pytest.mark.complaints(*REFUSED)
def test_a_stale_token_of_a_restored_page_falls_back_to_the_one_that_worked(world):
    old, good = token_of("alice", 1), token_of("alice", 2)
    world.server.refused.add(old)
    world.server.tell(3, 20)
    page = with_token(world, good)
    page.wait(text_is("#one", "3"))
    page.evaluate(f"""document.body.innerHTML = '<campanile-badge id="one" token="{old}"></campanile-badge>'""")
    page.wait(text_is("#one", "3"))
    world.server.change_unheard(4, 21)
    page.evaluate("dispatchEvent(new Event('online'))")
    page.wait(text_is("#one", "4"))
    assert bearers(world) == [good, old, good], bearers(world)


@pytest.mark.complaints(*REFUSED)
def test_a_fresh_token_ends_the_waiting(world):
    old, good = token_of("alice", 1), token_of("alice", 2)
    world.server.refused.add(old)
    page = with_token(world, old, "Math.random = () => 0.999;")
    world.server.wait(lambda server: server.granted >= 1, "a try")
    world.server.tell(3, 20)
    page.evaluate(f"document.getElementById('one').setAttribute('token', '{good}')")
    page.wait(text_is("#one", "3"), 20)
    assert good in bearers(world)


@pytest.mark.complaints(*REFUSED)
def test_another_users_token_counts_at_once(world):
    world.server.tell(8, 2000)
    page = with_token(world, token_of("alice"), APP_BADGE)
    page.wait(text_is("#one", "8"))
    world.server.token_status = 503
    page.evaluate(f"""(() => {{ const one = document.getElementById("one"); one.setAttribute("token", "{token_of('bob')}");
      window.after = {SHOWS % '#one'}; }})()""")
    assert page.evaluate("after") == NOTHING and page.evaluate("appBadges.at(-1)") == 0
    world.server.wait_for_streams(0)
    world.server.change_unheard(1, 3)
    world.server.token_status = 201
    page.wait(text_is("#one", "1"))
    assert page.evaluate("appBadges.at(-1)") == 1
    # A visit after somebody else signed in: a new element in the place of the old one.
    world.server.change_unheard(6, 2)
    page.evaluate(f"""document.body.innerHTML = '<campanile-badge id="one" token="{token_of('carol')}"></campanile-badge>';
      window.after = {SHOWS % '#one'}""")
    assert page.evaluate("after")[0] == "", page.evaluate("after")
    page.wait(text_is("#one", "6"))
    assert "last_event_id" not in world.server.requests("/badge/stream")[-1]["query"], "it is nobody's to resume"


def test_options_of_other_elements_may_change(world):
    world.server.tell(3, 20)
    page = world.open("badge.html")
    page.wait(text_is("#two", "3"))
    page.evaluate("document.getElementById('one').remove()")
    page.evaluate("document.getElementById('two').dataset.src = '/other/stream'")
    world.server.wait(lambda server: any(one["path"] == "/other/stream" for one in server.asked), "the other stream")
    page.wait(text_is("#two", "3"))
    page.evaluate(f"document.getElementById('two').dataset.token = '{token_of('bob')}'")
    world.server.wait(lambda server: server.granted == 1, "an exchange")
    page.wait(text_is("#two", "3"))
    page.evaluate("delete document.getElementById('two').dataset.token; document.getElementById('two').dataset.tokenSrc = '/own/exchange'")
    world.server.wait(lambda server: server.granted == 2, "the other exchange")
    page.wait(text_is("#two", "3"))
    assert len(world.server.requests("/own/exchange")) == 1
    world.server.wait_for_streams(1)


def test_a_changed_value_of_the_attribute_is_noticed(world):
    world.server.tell(3, 20)
    page = world.open("badge.html")
    page.wait(text_is("#two", "3"))
    page.evaluate("void (document.getElementById('two').dataset.notificationBadge = '/other/stream')")
    world.server.wait_for_streams(2)
    page.wait(text_is("#two", "3"))
    assert len(world.server.requests("/other/stream")) == 1


def test_an_element_that_becomes_the_pages_own_is_let_go(world):
    world.server.tell(3, 20)
    world.server.made["/pages/other.html"] = PAGE % '<b id="one" data-notification-badge data-src="/other/stream"></b>'
    page = world.open("other.html")
    page.wait(text_is("#one", "3"))
    page.evaluate("void delete document.getElementById('one').dataset.src")
    page.wait("document.getElementById('one').hidden && " + text_is("#one", ""))
    world.server.wait_for_streams(0)
    page.evaluate("void (document.getElementById('one').textContent = '2', document.getElementById('one').hidden = false)")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b id=two data-notification-badge=/other/stream></b>')")
    page.wait(text_is("#two", "3"))
    assert page.evaluate(SHOWS % "#one")[:2] == ["2", False], page.evaluate(SHOWS % "#one")
    assert not world.server.requests("/badge/stream"), "the page's own origin is asked for nothing"


def test_a_token_is_taken_away_from_an_element_that_has_nothing_else(world):
    world.server.tell(8, 2000)
    world.server.made["/pages/other.html"] = PAGE % f"""<b id="one" data-notification-badge data-token="{token_of('alice')}"></b>
      <b id="two" data-notification-badge="/badge/stream"></b>"""
    page = world.open("other.html")
    page.wait(text_is("#one", "8") + " && " + text_is("#two", "8"))
    page.evaluate("void delete document.getElementById('one').dataset.token")
    page.wait("document.getElementById('one').hidden && document.getElementById('two').hidden")
    assert page.evaluate(SHOWS % "#one") == NOTHING and page.evaluate(SHOWS % "#two") == NOTHING
    world.server.wait_for_streams(0)
    world.server.tell(3, 5)
    page.evaluate(f"void (document.getElementById('one').dataset.token = '{token_of('bob')}')")
    page.wait(text_is("#one", "3") + " && " + text_is("#two", "3"))


@pytest.mark.complaints(*REFUSED, "CORS policy")
def test_an_exchange_of_the_pages_origin_gets_its_csrf_token(world):
    world.server.tell(3, 20)
    elsewhere = world.server.address.replace("127.0.0.1", "localhost")
    for source, expected in (("/own/exchange", "the-token"), (f"{elsewhere}/own/exchange", None)):
        world.server.made["/pages/csrf.html"] = f"""<!doctype html><title>CSRF</title><link rel="icon" href="/pages/icon.svg">
          <meta name="csrf-token" content="the-token"><script type="module" src="/assets/campanile-badge.js"></script>
          <campanile-badge id="one" token-src="{source}"></campanile-badge>"""
        world.open("csrf.html")
        world.server.wait(lambda server: any(one["path"] == "/own/exchange" for one in server.asked), "an exchange")
        asked = world.server.requests("/own/exchange")[0]
        assert (asked["method"], asked["csrf"]) == ("POST", expected), asked
        world.pages[-1].evaluate("document.body.replaceChildren()")
        with world.server.lock:
            world.server.asked.clear()


OLD, GOOD = token_of("alice", 1), token_of("alice", 2)
WITH_OR_WITHOUT_A_TOKEN = pytest.mark.parametrize("token", [OLD, None], ids=["with a token", "with token-src alone"])


def with_own_exchange(world, token, *scripts):
    """A page that shows 3, with a token or without, and the address of its own server. It keeps in `counts` what it tells."""
    world.server.tell(3, 20)
    attribute = f'token="{token}"' if token else ""
    world.server.made["/pages/renewed.html"] = PAGE % f'<campanile-badge id="one" {attribute} token-src="/own/exchange"></campanile-badge>'
    page = world.open("renewed.html", """window.counts = [];
      document.addEventListener("campanile:badge", ({ detail }) => counts.push(detail.count));""", *scripts)
    page.wait(text_is("#one", "3"))
    return page


def access_tokens(world):
    return [one["query"]["access_token"][0] for one in world.server.requests("/badge/stream")]


def test_a_user_token_of_the_pages_own_server_stands_in_no_address(world):
    world.server.own_token = GOOD
    page = with_own_exchange(world, OLD)
    assert bearers(world) == [GOOD] and access_tokens(world) == ["cms_1.code"]
    assert not any(".signature" in one["target"] for one in world.server.asked)
    # So it does without a token in the page.
    page.evaluate("document.body.innerHTML = '<campanile-badge id=one src=/other/stream token-src=/own/exchange></campanile-badge>'")
    page.wait(text_is("#one", "3"))
    assert bearers(world) == [GOOD] * 2
    assert not any(".signature" in one["target"] for one in world.server.asked)


@WITH_OR_WITHOUT_A_TOKEN
def test_the_pages_own_server_is_asked_without_a_token(world, token):
    """One in `Authorization` would take the place of a browser's own, for a page behind HTTP Basic."""
    page = with_own_exchange(world, token)
    page.evaluate("dispatchEvent(new Event('online'))")
    world.server.wait(lambda server: len(server.requests("/own/exchange")) == 2, "another exchange")
    assert [one["authorization"] for one in world.server.requests("/own/exchange")] == [None] * 2


@pytest.mark.complaints(*REFUSED)
def test_a_token_that_has_ended_is_renewed_without_a_visit(world):
    world.server.own_token = OLD
    page = with_own_exchange(world, OLD)
    # The stream ends with its token, and the server refuses the old ones.
    world.server.refused.add(OLD)
    world.server.own_token = GOOD
    world.server.stream_status = 401
    world.server.change_unheard(4, 21)
    world.server.cut()
    world.server.wait(lambda server: GOOD in bearers(world), "an exchange of the fresh token")
    world.server.stream_status = 200
    page.wait(text_is("#one", "4"))
    assert 0 not in page.evaluate("counts")


@pytest.mark.complaints(*REFUSED)
def test_a_token_that_ended_while_the_page_was_hidden_is_renewed(world):
    world.server.own_token = OLD
    page = with_own_exchange(world, OLD)
    page.hide()
    page.evaluate("(() => { const now = Date.now; Date.now = () => now() + 900_000; })()")
    world.server.refused.add(OLD)
    world.server.own_token = GOOD
    world.server.change_unheard(4, 21)
    page.show()
    page.wait(text_is("#one", "4"))
    assert bearers(world) == [OLD, GOOD]


@WITH_OR_WITHOUT_A_TOKEN
def test_a_page_whose_session_becomes_another_users_resumes_nothing_of_the_former_ones(world, token):
    world.server.own_token = GOOD
    page = with_own_exchange(world, token)
    world.server.own_token = token_of("bob", 3)
    world.server.change_unheard(1, 3)
    page.evaluate("counts.length = 0; dispatchEvent(new Event('online'))")
    page.wait(text_is("#one", "1"))
    assert page.evaluate("counts") == [0, 1]
    assert "last_event_id" not in world.server.requests("/badge/stream")[-1]["query"], "it is nobody's to resume"


@pytest.mark.complaints(*REFUSED)
@WITH_OR_WITHOUT_A_TOKEN
def test_a_page_whose_session_has_ended_shows_no_number_and_says_so_once(world, token):
    page = with_own_exchange(world, token)
    world.server.token_status = 401
    asked = len(world.server.requests("/own/exchange"))
    page.evaluate("counts.length = 0; dispatchEvent(new Event('online'))")
    page.wait("counts.length > 0")
    # The element asks anew when it has taken an answer in.
    world.server.wait(lambda server: len(server.requests("/own/exchange")) >= asked + 4, "more tries")
    world.server.token_status = 201
    page.evaluate("dispatchEvent(new Event('online'))")
    page.wait(text_is("#one", "3"))
    assert page.evaluate("counts") == [0, 3]


@pytest.mark.complaints(*REFUSED)
def test_a_session_ends_also_where_a_visit_has_brought_another_token(world):
    page = with_own_exchange(world, OLD)
    page.evaluate(f"document.getElementById('one').setAttribute('token', '{GOOD}')")
    world.server.token_status = 401
    page.evaluate("counts.length = 0; dispatchEvent(new Event('online'))")
    page.wait("counts.length > 0")
    assert page.evaluate("counts") == [0]


def test_a_later_element_brings_the_address_that_renews(world):
    world.server.tell(3, 20)
    page = with_token(world, token_of("alice"))
    page.wait(text_is("#one", "3"))
    world.server.own_token = token_of("alice", 2)
    page.evaluate("document.getElementById('one').setAttribute('token-src', '/own/exchange')")
    world.server.refused.add(token_of("alice"))
    world.server.change_unheard(4, 21)
    page.evaluate("dispatchEvent(new Event('online'))")
    page.wait(text_is("#one", "4"))


def test_a_listener_gets_its_own_names_and_hears_that_it_is_open(world):
    world.server.tell(3, 20)
    page = world.open("badge.html")
    page.wait(text_is("#one", "3"))
    page.evaluate(LISTEN % "listenTo(['notification.deleted']); window.early = told.slice(); window.other = []; listenTo(['reset', 'badge'], {}, other)")
    assert page.evaluate("early") == [["open", False]], page.evaluate("early")
    assert [one[0] for one in page.evaluate("other")] == ["open", "badge"]
    world.server.tell_event(21, "notification.deleted", {"id": "a"})
    world.server.tell_event(22, "reset", {"reason": "unknown"})
    world.server.tell(4, 23)
    page.wait(text_is("#one", "4"))
    assert page.evaluate("told.map(([name]) => name)") == ["open", "notification.deleted"], page.evaluate("told")
    assert page.evaluate("other.map(([name]) => name)") == ["open", "badge", "reset", "badge"], page.evaluate("other")


@pytest.mark.complaints(*REFUSED)
def test_a_connection_made_anew_resumes_for_the_same_user(world):
    page = with_token(world, token_of("alice"))
    world.server.wait_for_streams(1)
    page.wait("document.getElementById('one').dataset.count !== undefined")
    page.evaluate(LISTEN % "listenTo([])")
    world.server.tell_event(40, "notification.deleted", {"id": "a"})   # nobody listens to that
    world.server.tell(3, 41)
    page.wait(text_is("#one", "3"))
    page.evaluate("told.length = 0; dispatchEvent(new Event('online'))")
    page.wait("told.some(([name]) => name === 'open')")
    assert page.evaluate("told") == [["open", True]], page.evaluate("told")
    assert world.server.requests("/badge/stream")[-1]["query"]["last_event_id"] == ["41"]
    assert "last_event_id" not in world.server.requests("/badge/stream")[0]["query"]
    # Whoever joins while there is no connection missed more than the others.
    world.server.token_status = 503
    page.evaluate("told.length = 0; dispatchEvent(new Event('online'))")
    page.wait("told.some(([name]) => name === 'wait')")
    page.evaluate("window.late = []; listenTo([], {}, late)")
    world.server.token_status = 201
    page.wait("late.some(([name]) => name === 'open')")
    assert page.evaluate("late.filter(([name]) => name === 'open')") == [["open", False]], page.evaluate("late")
    page.evaluate(f"told.length = 0; document.getElementById('one').setAttribute('token', '{token_of('bob')}')")
    page.wait("told.some(([name]) => name === 'open')")
    assert page.evaluate("told") == [["clear", {"count": 0}], ["open", False]], page.evaluate("told")


def test_a_connection_without_events_resumes_nothing(world):
    world.server.tells_first = False
    page = world.open("badge.html")
    page.evaluate(LISTEN % "listenTo([])")
    page.wait("told.some(([name]) => name === 'open')")
    page.evaluate("told.length = 0")
    world.server.cut()
    page.wait("told.some(([name]) => name === 'open')")
    assert page.evaluate("told.filter(([name]) => name === 'open')") == [["open", False]], page.evaluate("told")


def test_phones_move_under_steady_traffic(world):
    page = world.open("parts.html", """window.realTimeout = setTimeout; window.timers = []; window.now = 0;
      setTimeout = (work, ms = 0) => ms >= 100 ? timers.push({ at: now + ms, work }) : realTimeout(work, ms);
      window.pass = (ms) => { now += ms; for (const one of timers.filter(({ at }) => at <= now)) { timers.splice(timers.indexOf(one), 1); one.work(); } };""")
    page.evaluate("window.phones = makePhones()")
    page.evaluate("for (let change = 0; change < 40; change += 1) { phones.look(); pass(100); }")
    looks = page.evaluate("asked.length")
    assert 15 <= looks <= 40, f"{looks} looks in 4 s"
    page.evaluate("asked.length = 0; pass(2600); pass(2600); pass(2600)")
    assert page.evaluate("asked.length") >= 1, "the last change is looked at when it has settled"
    assert page.evaluate("timers.length") == 0
    page.evaluate("asked.length = 0; void phones.load()")
    page.evaluate("""answer("GET /device_tokens", { device_tokens: [{ token: "a", platform: "ios", last_registered_at: "2026-11-01T00:00:00.000Z" }] })""")
    page.evaluate("phones.look([100]); pass(100)")
    page.wait("asked.length === 2")
    page.evaluate("""answer("GET /sandbox", { pushes: [] })""")
    assert page.evaluate("document.querySelectorAll('#phone-list li').length") == 1, "drawn, though another look is under way"


def test_the_pieces_are_as_small_as_documented(world):
    sizes = {name: (world.server.assets / f"{name}.js").stat().st_size
             for name in ("campanile-badge", "badge_controller", "campanile-inbox", "campanile-links")}
    assert sizes["campanile-badge"] + sizes["badge_controller"] < 13 * 1024, sizes
    assert sizes["campanile-inbox"] <= 12 * 1024 and sizes["campanile-links"] < 3 * 1024, sizes


def test_the_documented_page_does_what_it_says(world):
    text = documented("html", "Plain HTML").replace("https://push.example.com", world.server.address)
    world.server.made["/pages/documented.html"] = text.replace("<head>", "<head><link rel='icon' href='/pages/icon.svg'>")
    world.server.tell(3, 2)
    page = world.open("documented.html")
    page.wait(text_is("campanile-badge", "3") + " && document.title === '(3) Shop'")
    assert world.server.requests("/stream_tokens")[0]["authorization"] == "Bearer USER_TOKEN"


def test_the_documented_hook_does_what_it_says(world):
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
