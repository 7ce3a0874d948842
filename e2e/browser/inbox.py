"""Tests: <campanile-inbox> on a page of another origin, against a real server that is also killed; what it asks, and whose it is."""
import time

import pytest

from e2e.browser.world import AWAY, REFUSED, USER
from e2e.harness.campanile import JWT_SECRET, user_token

# What a page asks, with the method; a browser's own questions (preflights) aren't among it.
CALLS = """window.calls = []; window.streams = [];
  { const { fetch: real, EventSource: Real } = window;
    window.fetch = (url, options) => { calls.push(`${options?.method ?? "GET"} ${new URL(url, location).pathname}`); return real(url, options); };
    window.EventSource = class extends Real {
      constructor(url, ...more) { super(url, ...more); streams.push(this); calls.push(`STREAM ${new URL(url).pathname}`); } }; }"""
OPEN = "streams.filter((one) => one.readyState < 2).length"
# The page's own server, which answers token-src with the tokens of `own`, one after another, and 401 when there is none left.
OWN_SERVER = """window.own = %s; window.renewed = 0;
  { const real = window.fetch; window.fetch = (url, options) => { if (!String(url).endsWith("/own/token")) return real(url, options);
      renewed += 1; const token = own.length > 1 ? own.shift() : own[0];
      return Promise.resolve(new Response(JSON.stringify({ token }), { status: token ? 200 : 401 })); }; }"""
EXPIRED = user_token(JWT_SECRET, USER, lifetime=-60)


def part(name, row=None):
    """The expression of an element inside the inbox, or inside one of its rows."""
    return f"{'root()' if row is None else f'rows()[{row}]'}.querySelector('[part~={name}]')"


def press(page, name, row=None):
    page.evaluate(f"{part(name, row)}.click()")


def shows(*titles):
    return f"titles().join() === {','.join(titles)!r}"


def token_after(world, user):
    """A token of a user whose tokens were revoked: one of a later second than that."""
    deadline = time.monotonic() + 60
    while True:
        token = world.campanile.user_token(user)
        if world.campanile.connection().request("GET", "/badge", credential=token).status == 200:
            return token
        assert time.monotonic() < deadline, "no token is taken after the revocation"
        time.sleep(0.1)


def test_entries_come_newest_first_and_tell_what_is_unread(world):
    old = world.post(title="Old", body="Of yesterday")
    world.post(title="New")
    world.as_user("PATCH", f"/notifications/{old['id']}", body={"read": True})
    page = world.inbox()
    page.wait(shows("New", "Old"))
    assert page.evaluate("unread()") == ["New"]
    assert page.evaluate(f"[{part('body', 1)}.textContent, {part('time', 1)}.textContent, {part('time', 1)}.dateTime]") == [
        "Of yesterday", "now", old["created_at"]]
    assert page.evaluate("said()") == ""


def test_what_one_tab_does_the_other_shows(world):
    world.post(title="First")
    one, other = world.inbox(), world.inbox()
    for page in (one, other):
        page.wait(shows("First"))
    world.post(title="Second")
    for page in (one, other):
        page.wait(shows("Second", "First"))
    press(one, "mark", 1)
    other.wait("unread().join() === 'Second'")
    press(other, "mark", 1)
    one.wait("unread().join() === 'Second,First'")
    press(one, "all")
    for page in (one, other):
        page.wait("unread().length === 0")
    press(other, "delete", 0)
    for page in (one, other):
        page.wait(shows("First"))
    press(one, "delete", 0)
    for page in (one, other):
        page.wait("titles().length === 0 && said() === 'empty'")
    world.post(title="Third")
    for page in (one, other):
        page.wait(shows("Third") + " && said() === ''")


def test_a_page_asks_for_a_stream_token_a_stream_and_the_list_whatever_badges_it_has(world):
    world.post(title="First")
    page = world.inbox(CALLS, badge="/badge/stream")
    page.wait(shows("First") + " && document.getElementById('badge').textContent === '1'")
    world.post(title="Second")
    page.wait(shows("Second", "First") + " && document.getElementById('badge').textContent === '2'")
    assert page.evaluate("calls") == ["POST /stream_tokens", "STREAM /notifications/stream", "GET /notifications"]
    # Whatever comes later, a badge included, shares the connection.
    page.evaluate("""document.body.insertAdjacentHTML("beforeend",
      `<b id="later" data-notification-badge="${new URL("/badge/stream", inbox.getAttribute("src"))}"></b>
      <campanile-inbox id="more" src="${inbox.getAttribute("src")}" token="${inbox.getAttribute("token")}"></campanile-inbox>`)""")
    page.wait("document.getElementById('later').textContent === '2' && document.getElementById('more').shadowRoot.querySelector('a')")
    assert page.evaluate("calls.slice(3)") == ["GET /notifications"], "each inbox reads its own list"


def test_deep_links_are_asked_for_once_and_only_when_an_entry_has_one(world):
    for number in range(3):
        world.post(title="With a link", deep_link=f"/orders/{number}?tab=parcels#last")
    page = world.inbox(CALLS)
    page.wait("rows().length === 3 && rows().every((row) => row.querySelector('a').href)")
    assert page.evaluate("rows()[0].querySelector('a').href") == f"{world.origin}/orders/2?tab=parcels#last"
    world.post(title="Another", deep_link="orders/7")
    page.wait(f"titles()[0] === 'Another' && rows()[0].querySelector('a').href === '{world.origin}/orders/7'")
    assert page.evaluate("calls.filter((call) => call.endsWith('/deep_links'))") == ["GET /deep_links"]
    # To open an entry is to read it.
    page.evaluate("document.addEventListener('click', (event) => event.preventDefault(), { once: true })")
    page.evaluate("rows()[0].querySelector('a').click()")
    page.wait("!unread().includes('Another')")


def test_what_a_producer_edits_or_withdraws_shows_at_once(world):
    world.post(title="Stays")
    entry = world.post(title="Order 7", deep_link="/orders/7")
    page = world.inbox()
    page.wait(f"{shows('Order 7', 'Stays')} && rows()[0].querySelector('a').href === '{world.origin}/orders/7'")

    def as_producer(method, body=None):
        return world.campanile.connection().request(method, f"/notifications/{entry['id']}", credential=world.key, body=body)

    assert as_producer("PATCH", {"title": "Order 8", "body": "Changed", "deep_link": "/orders/8"}).status == 200
    page.wait(f"{shows('Order 8', 'Stays')} && rows()[0].querySelector('a').href === '{world.origin}/orders/8'")
    assert page.evaluate(part("body", 0) + ".textContent") == "Changed"
    assert as_producer("DELETE").status == 204
    page.wait(shows("Stays"))


def test_a_look_in_a_browser_leaves_the_badge(world):
    world.post()
    page = world.inbox(badge="/badge/stream")
    page.wait("rows().length === 1 && document.getElementById('badge').textContent === '1'")
    assert world.as_user("GET", "/badge").json()["count"] == 1


@pytest.mark.complaints(*REFUSED)
def test_a_refused_token_is_told_once_and_the_page_sets_another(world):
    world.post(title="First")
    page = world.inbox(token=EXPIRED)
    page.wait("said() === 'signed-out' && asked.length === 1")
    assert page.evaluate("asked") == [EXPIRED]
    page.evaluate(f"inbox.setAttribute('token', '{world.token}')")
    page.wait(shows("First") + " && said() === ''")
    assert page.evaluate("asked.length") == 1


@pytest.mark.complaints(*REFUSED, *AWAY)
def test_a_token_that_ends_leaves_the_list_and_a_fresh_one_goes_on(world):
    world.post(user_id="rita", title="First")
    page = world.inbox(CALLS, token=world.campanile.user_token("rita"))
    page.wait(shows("First"))
    world.campanile.command("revoke", "rita")
    page.wait("asked.length > 0 && said() === 'signed-out'", 60, what="the end of the token")
    assert page.evaluate("titles()") == ["First"], "what was shown stays"
    press(page, "mark", 0)
    world.post(user_id="rita", title="Meanwhile")
    page.evaluate(f"inbox.setAttribute('token', '{token_after(world, 'rita')}')")
    page.wait(shows("Meanwhile", "First") + " && said() === ''")
    page.wait("unread().join() === 'Meanwhile'", what="what was asked for with the token that had ended")
    assert page.evaluate("calls.filter((call) => call === 'GET /notifications').length") == 1, "the stream told what was missed"


@pytest.mark.complaints(*REFUSED)
def test_token_src_brings_the_token_and_renews_it(world):
    world.post(title="First")
    page = world.inbox(CALLS, OWN_SERVER % f"['{EXPIRED}', '{world.token}']", token=EXPIRED, **{"token-src": "/own/token"})
    page.wait(shows("First") + " && said() === ''")
    assert page.evaluate("renewed") <= 3, "it doesn't ask for ever"
    alone = world.inbox(CALLS, OWN_SERVER % f"['{world.token}']", token="", **{"token-src": "/own/token"})
    alone.wait(shows("First"))
    assert alone.evaluate("renewed") == 1
    assert alone.evaluate("calls") == ["POST /stream_tokens", "STREAM /notifications/stream", "GET /notifications"]


@pytest.mark.complaints(*REFUSED)
def test_a_session_that_is_over_shows_nobodys_entries(world):
    world.post(title="First")
    page = world.inbox(OWN_SERVER % f"['{world.token}']", token="", **{"token-src": "/own/token"})
    page.wait(shows("First"))
    page.evaluate("own = []; dispatchEvent(new Event('online'))")
    # A connection that is open stays; the next one needs a token.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))")
    page.wait("titles().length === 0 && said() === 'signed-out'")


@pytest.mark.complaints(*REFUSED)
def test_a_token_that_is_taken_away_ends_everything_and_another_users_shows_only_theirs(world):
    world.post(title="Of Alice")
    world.post(user_id="bob", title="Of Bob")
    page = world.inbox(CALLS, badge="/badge/stream")
    page.wait(shows("Of Alice") + " && document.getElementById('badge').textContent === '1'")
    page.evaluate("inbox.removeAttribute('token')")
    page.wait("titles().length === 0 && said() === 'signed-out' && document.getElementById('badge').hidden")
    assert page.evaluate(OPEN) == 0
    page.evaluate(f"inbox.setAttribute('token', '{world.campanile.user_token('bob')}')")
    page.wait(shows("Of Bob") + " && document.getElementById('badge').textContent === '1' && said() === ''")
    at_once = page.evaluate(f"(inbox.setAttribute('token', '{world.token}'), titles())")
    assert at_once == [], "nobody sees the entries of the one before"
    page.wait(shows("Of Alice"))
    assert page.evaluate(OPEN) == 1


def test_a_fresh_token_of_the_same_user_asks_for_nothing(world):
    world.post(title="First")
    page = world.inbox(CALLS)
    page.wait(shows("First"))
    page.evaluate(f"inbox.setAttribute('token', '{user_token(JWT_SECRET, USER)}')")
    world.post(title="Second")
    page.wait(shows("Second", "First"))
    assert page.evaluate("calls") == ["POST /stream_tokens", "STREAM /notifications/stream", "GET /notifications"]


def test_an_element_that_is_moved_or_comes_back_is_right(world):
    world.post(title="First")
    page = world.inbox(CALLS)
    page.wait(shows("First"))
    page.evaluate("document.querySelector('footer').append(inbox)")
    world.post(title="Second")
    page.wait(shows("Second", "First"))
    assert page.evaluate("calls.length") == 3, "to move it asks for nothing"
    # Turbo keeps a copy of the body, and puts it back at a restoration visit.
    page.evaluate("window.copy = document.body.cloneNode(true); document.body.replaceChildren()")
    world.post(title="Third")
    page.evaluate("document.documentElement.replaceChild(copy, document.body); window.inbox = document.querySelector('campanile-inbox')")
    page.wait(shows("Third", "Second", "First"))
    # One that was away missed what was told.
    page.evaluate("window.kept = inbox; inbox.remove()")
    world.post(title="Fourth")
    page.evaluate("new Promise((done) => setTimeout(done)).then(() => document.querySelector('main').append(kept))")
    page.wait(shows("Fourth", "Third", "Second", "First"))
    page.wait(f"{OPEN} === 1")


@pytest.mark.complaints("ERR_INTERNET_DISCONNECTED", *AWAY)
def test_a_page_that_was_offline_says_what_failed_and_goes_on(world):
    world.post(title="First")
    page = world.inbox()
    page.wait(shows("First"))
    page.offline(True)
    press(page, "mark", 0)
    page.wait("said() === 'error'")
    assert page.evaluate("unread()") == ["First"]
    world.post(title="Meanwhile")
    page.offline(False)
    # A page that is online again connects anew and tries again by itself, which may be before this.
    page.evaluate(f"{part('retry')}.hidden || {part('retry')}.click()")
    page.wait("titles().join() === 'Meanwhile,First' && unread().join() === 'Meanwhile' && said() === ''")


# The first change of an entry fails, and each later one waits until `window.go` is called.
FAILING_CHANGE = """{ const real = window.fetch; let hasFailed = false; const ready = new Promise((done) => (window.go = done));
  window.fetch = async (url, options) => {
    if (!["PATCH", "POST"].includes(options?.method) || String(url).endsWith("/stream_tokens")) return real(url, options);
    if (!hasFailed) { hasFailed = true; throw new TypeError("no network"); }
    await ready;
    return real(url, options); }; }"""


def test_what_a_fresh_token_tries_again_offers_no_button_meanwhile(world):
    world.post(title="First")
    page = world.inbox(FAILING_CHANGE)
    page.wait(shows("First"))
    press(page, "mark", 0)
    page.wait("said() === 'error'")
    page.evaluate(f"inbox.setAttribute('token', '{user_token(JWT_SECRET, USER)}')")
    page.wait(f"{part('retry')}.hidden")
    page.evaluate("go()")
    page.wait("unread().length === 0 && said() === ''")


def test_a_change_that_is_tried_again_is_the_one_that_was_asked_for(world):
    first = world.post(title="First")
    page = world.inbox(FAILING_CHANGE)
    page.wait(shows("First"))
    press(page, "mark", 0)
    page.wait("said() === 'error'")
    world.as_user("PATCH", f"/notifications/{first['id']}", body={"read": True})
    page.wait("unread().length === 0", what="what another device did")
    press(page, "retry")
    page.evaluate("go()")
    page.wait("said() === ''")
    assert page.evaluate("unread()") == []
    assert world.as_user("GET", "/badge").json()["count"] == 0


def test_mark_all_tried_again_leaves_what_came_after_it(world):
    world.post(title="First")
    page = world.inbox(FAILING_CHANGE)
    page.wait(shows("First"))
    press(page, "all")
    page.wait("said() === 'error'")
    world.post(title="Second")
    page.wait(shows("Second", "First"))
    press(page, "retry")
    page.evaluate("go()")
    page.wait("said() === ''")
    assert page.evaluate("unread()") == ["Second"]


@pytest.mark.complaints(*AWAY, *REFUSED)
def test_a_server_that_is_killed_leaves_the_list_and_what_came_meanwhile_follows(world):
    world.post(title="First")
    page = world.inbox(CALLS)
    page.wait(shows("First"))
    world.campanile.kill()
    press(page, "delete", 0)
    page.wait("said() === 'error'")
    assert page.evaluate("titles()") == ["First"]
    world.campanile.command("notify", USER, "While it was down", "by the command")
    world.campanile.start()
    page.wait("titles().includes('While it was down')", 60)
    assert page.evaluate("said()") == "error", "what failed can still be tried again"
    press(page, "delete", 1)
    page.wait(shows("While it was down") + " && said() === ''")
    world.post(title="After it")
    page.wait(shows("After it", "While it was down"))


@pytest.mark.parametrize("of_proxy", ["404 page not found", '{"code":404}'], ids=["text", "json"])
def test_a_404_of_a_proxy_says_nothing_of_the_entry(world, of_proxy):
    world.post(title="First")
    page = world.inbox(f"""{{ const real = window.fetch; window.isAway = true; window.refused = 0;
      window.fetch = (url, options) => isAway && ["PATCH", "DELETE"].includes(options?.method)
        ? Promise.resolve(new Response({of_proxy!r}, {{ status: 404, headers: {{ n: ++refused }} }})) : real(url, options); }}""")
    page.wait(shows("First"))
    for count, name in enumerate(["mark", "delete"], 1):
        press(page, name, 0)
        page.wait(f"refused === {count} && said() === 'error'")
        page.evaluate("new Promise((done) => setTimeout(done))")
        assert page.evaluate("titles()") == ["First"]
    page.evaluate("window.isAway = false")
    press(page, "retry")
    page.wait("titles().length === 0 && said() === 'empty'")


@pytest.mark.complaints(*REFUSED)
def test_a_list_that_fails_can_be_asked_for_again(world):
    world.post(title="First")
    page = world.inbox("""{ const real = window.fetch; window.broken = true;
      window.fetch = (url, options) => broken && String(url).includes("/notifications?")
        ? Promise.resolve(new Response("", { status: 503 })) : real(url, options); }""")
    page.wait("said() === 'error'")
    page.evaluate("window.broken = false")
    press(page, "retry")
    page.wait(shows("First") + " && said() === ''")


def test_an_answer_does_not_overwrite_what_the_stream_told_since(world):
    first = world.post(title="First")
    page = world.inbox("""{ const real = window.fetch; window.fetch = async (url, options) => { const answer = await real(url, options);
      while (options?.method === "PATCH" && !window.letGo) await new Promise((done) => setTimeout(done, 10));
      if (options?.method === "PATCH") setTimeout(() => { window.isThere = true; });
      return answer; }; }""")
    page.wait(shows("First"))
    press(page, "mark", 0)
    page.wait("unread().length === 0", what="the stream to tell it")
    world.as_user("PATCH", f"/notifications/{first['id']}", body={"read": False})
    page.wait("unread().length === 1")
    page.evaluate("window.letGo = true")
    page.wait("window.isThere")
    assert page.evaluate("new Promise((done) => setTimeout(done)).then(unread)") == ["First"]


def test_new_entries_are_said_seldom_and_together(world):
    page = world.inbox("{ const real = setTimeout; window.setTimeout = (work, ms, ...more) => real(work, ms >= 5000 ? 300 : ms, ...more); }")
    page.wait("said() === 'empty'")
    page.evaluate("""window.heard = []; new MutationObserver(() => heard.push(root().querySelector('[role=status]').textContent))
      .observe(root().querySelector('[role=status]'), { childList: true })""")
    for _ in range(8):
        world.post(push=False)
    page.wait("rows().length === 8")
    page.wait("heard.length > 0")
    page.wait("heard.map(parseFloat).reduce((sum, one) => sum + one, 0) === 8")
    assert page.evaluate("heard.length") < 8, "not each by itself"
