"""Tests: the console, by mouse and by keyboard, in every width."""
import json
import os

import pytest

from e2e.browser.inbox import CALLS
from e2e.browser.world import (
    ANDROID,
    AWAY,
    IPHONE,
    REFUSED,
    USER,
    badge_is,
    check_requests,
    check_width,
    keep_answers,
    let_answers_go,
    titled,
)

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


def test_the_console_shows_what_is_sent(world):
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
    assert page.evaluate("root().querySelector('[part=details]').textContent").endswith("GREETING/greetings/1order 42")
    page.wait("document.getElementById('sent').textContent.startsWith('Sent to alice')")
    page.click("#sent button")
    page.wait("document.getElementById('deliveries').open && document.querySelector('.state.accepted')", what="the delivery")
    page.press("Escape")
    page.wait("!document.getElementById('deliveries').open")
    page.click("campanile-inbox >>> [part~=mark]")
    page.wait(badge_is(""))
    page.wait("unread().length === 0")
    page.wait("!document.querySelector('.phone-badge')", what="the phone's badge to leave")


def test_deliveries_are_followed_in_words_and_drawn_anew_only_when_there_is_news(world):
    world.device(IPHONE, "ios")
    world.post()
    page = world.console()
    page.wait("rows().length === 1")
    page.evaluate("""(() => { const real = window.fetch; window.asked = [];
      window.fetch = (path, ...rest) => !path.endsWith("/deliveries") ? real(path, ...rest)
        : new Promise((resolve) => window.asked.push((delivery) => resolve(new Response(JSON.stringify({ reason: null, deliveries: [delivery] }))))); })()""")
    delivery = {"token": IPHONE, "platform": "ios", "provider": "apns", "environment": "production", "state": "owed", "reason": None,
                "attempts": 0, "next_attempt_at": "2040-01-01T00:00:00.000Z", "answers": []}
    page.evaluate("root().querySelector('[part~=deliveries]').click()")
    page.wait("window.asked.length === 1")
    page.evaluate(f"window.asked[0]({json.dumps(delivery)})")
    page.wait("document.getElementById('deliveries').open && document.querySelector('#deliveries .state.owed')")
    page.evaluate("""(() => { window.changes = 0;
      new MutationObserver((all) => { window.changes += all.length; })
        .observe(document.getElementById("deliveries-body"), { childList: true, subtree: true, characterData: true }); })()""")
    page.wait("window.asked.length === 2", what="another look, because the push is owed")
    page.evaluate(f"window.asked[1]({json.dumps(delivery)})")
    page.wait("window.asked.length === 3")
    assert page.evaluate("window.changes") == 0
    page.evaluate(f"window.asked[2]({json.dumps({**delivery, 'state': 'superseded', 'reason': 'restored'})})")
    page.wait("document.querySelector('#deliveries .state.superseded')")
    told = page.evaluate("document.getElementById('deliveries-body').textContent")
    assert "owed when the backup was made" in told and "read, deleted or expired" not in told, told


def test_what_others_do_appears_in_the_console(world):
    first, second = world.post(), world.post()
    page = world.console()
    page.wait("unread().length === 2")
    world.as_user("PATCH", f"/notifications/{first['id']}", body={"read": True})
    page.wait("unread().length === 1")
    world.as_user("DELETE", f"/notifications/{second['id']}", 204)
    page.wait("rows().length === 1")
    third = world.post()
    page.wait(f"rows()[0].dataset.id === {json.dumps(third['id'])}", what="the newest on top")
    world.as_user("POST", "/notifications/mark_all_read")
    page.wait("unread().length === 0")
    page.wait("document.getElementById('summary').textContent === 'Everything is read'")


@pytest.mark.complaints(*AWAY, *REFUSED)
def test_the_console_survives_a_restart(world):
    world.post()
    page = world.console()
    page.wait("rows().length === 1")
    world.campanile.kill()
    page.wait("!document.getElementById('live').classList.contains('on')")
    world.campanile.command("notify", USER, "While it was down", "by the command")
    world.campanile.start()
    page.wait(titled("While it was down"), 60)
    page.wait(badge_is("2"))
    world.post()
    page.wait("rows().length === 3")


def test_the_list_goes_on_to_its_end(world):
    created = [world.post(push=False)["id"] for _ in range(65)]
    page = world.console()
    page.wait("rows().length >= 20")
    created.append(world.post(push=False, title="In between")["id"])
    page.wait(titled("In between"))
    newest_first, seen = created[::-1], set()
    while True:
        shown = page.evaluate("rows().map((row) => row.dataset.id)")
        first = newest_first.index(shown[0])
        assert shown == newest_first[first:first + len(shown)], "in their order, none twice"
        seen.update(shown)
        if shown[-1] == created[0]:
            break
        page.evaluate("window.lastShown = rows().at(-1); lastShown.scrollIntoView()")
        page.wait("rows().at(-1) !== lastShown", what="the list to go on")
    assert seen == set(created), "all of them"
    page.evaluate("scrollTo(0, 0)")
    page.click("campanile-inbox >>> [part~=all]")
    page.wait("rows().length && unread().length === 0")


def test_what_comes_while_an_older_page_is_loaded_counts(world):
    oldest, second, *_ = [world.post(push=False)["id"] for _ in range(60)]
    page = world.console()
    page.wait("rows().length >= 20")
    keep_answers(page, "String(path).includes('cursor=')")
    page.evaluate("root().querySelector('[part~=more]').scrollIntoView()")
    page.wait("performance.getEntriesByType('resource').some(({ name }) => name.includes('cursor='))", what="the answer, which is kept back")
    world.as_user("PATCH", f"/notifications/{oldest}", body={"read": True})
    world.as_user("DELETE", f"/notifications/{second}", 204)
    page.wait("document.getElementById('summary').textContent.startsWith('58 unread')")
    let_answers_go(page)
    page.wait(f"rows().at(-1).dataset.id === '{oldest}'")
    assert page.evaluate(f"rows().some((row) => row.dataset.id === '{second}') || unread().includes(rows().at(-1))") is False


def test_the_filter_leaves_what_it_says(world):
    old, new = world.post(title="Old"), world.post(title="New")
    world.as_user("PATCH", f"/notifications/{old['id']}", body={"read": True})
    page = world.console()
    page.wait("titles().join() === 'New,Old'")
    page.click("input[name=status][value=read]")
    page.wait("titles().join() === 'Old'")
    page.click("input[name=status][value=unread]")
    page.wait("titles().join() === 'New'")
    # What is marked stays while it has the focus, so that the keyboard has its place.
    page.tab_to("[part~=mark]")
    page.press(" ")
    page.wait("titles().join() === 'New' && unread().length === 0")
    page.tab_to("#clear-badge", shift=True)
    page.wait("rows().length === 0 && document.getElementById('nothing').checkVisibility()")
    assert page.evaluate("document.getElementById('nothing').textContent") == "Everything is read."
    world.post(title="Newer")
    page.wait("titles().join() === 'Newer' && !document.getElementById('nothing').checkVisibility()")
    # The next entry, which is hidden, can't take the focus of a deleted one.
    page.tab_to("[part~=delete]")
    page.press("Enter")
    page.wait("rows().length === 0 && document.activeElement.id === 'inbox'")
    world.as_user("PATCH", f"/notifications/{old['id']}", body={"read": False})
    world.as_user("PATCH", f"/notifications/{new['id']}", body={"read": False})
    page.click("input[name=status][value=read]")
    page.wait("rows().length === 0 && document.getElementById('nothing').textContent === 'Nothing is read yet.'")


def test_a_filter_that_finds_every_unread_entry_asks_for_no_more(world):
    for _ in range(70):
        world.post(push=False)
    world.as_user("POST", "/notifications/mark_all_read")
    page = world.console(scripts=[CALLS])
    page.wait("rows().length >= 20")
    page.click("input[name=status][value=unread]")
    page.wait("document.getElementById('nothing').checkVisibility()")
    world.post(title="Unread")
    page.wait("titles().join() === 'Unread' && !document.getElementById('nothing').checkVisibility()")
    assert page.evaluate("calls.filter((call) => call === 'GET /notifications').length") == 1
    page.click("input[name=status][value=all]")
    page.wait("rows().length >= 20")


def test_the_console_has_one_stream_and_asks_for_the_list_once(world):
    world.post(deep_link="/orders/1")
    page = world.console(scripts=[CALLS])
    page.wait("rows().length === 1")
    world.post(title="Another")
    page.wait(titled("Another") + " && " + badge_is("2"))
    page.wait("document.getElementById('summary').textContent.startsWith('2 unread')")
    shared = [one for one in page.evaluate("calls") if one not in ("GET /device_tokens", "GET /sandbox/pushes", "GET /badge")]
    assert shared == ["POST /stream_tokens", "STREAM /notifications/stream", "GET /notifications"], shared
    # A deep link's page is the app's, so that the title is no link here; and a look at an entry doesn't read it.
    assert page.evaluate("[...root().querySelectorAll('a')].some((one) => one.href)") is False
    page.evaluate("root().querySelectorAll('[part=title]')[1].click()")
    world.post(title="Later")
    page.wait(titled("Later"))
    assert page.evaluate("unread().length") == 3


def test_the_badge_can_be_cleared_and_everything_stays_unread(world):
    world.device(IPHONE, "ios")
    world.post()
    page = world.console()
    page.wait(badge_is("1"))
    page.wait("document.querySelector('.phone-badge') && unread().length")
    page.click("#clear-badge")
    page.wait(badge_is(""))
    page.wait("document.getElementById('summary').textContent.startsWith('1 unread')")
    page.wait("!document.querySelector('.phone-badge')")
    assert page.evaluate("unread().length") == 1


def test_devices_come_and_go(world):
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


@pytest.mark.complaints(*REFUSED)
def test_mistakes_are_said_where_they_are(world):
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


@pytest.mark.complaints(*REFUSED)
def test_a_refused_token_leads_back_to_the_sign_in(world):
    page = world.console()
    page.evaluate("""(() => { const place = "campanile-console"; const kept = JSON.parse(sessionStorage.getItem(place));
      sessionStorage.setItem(place, JSON.stringify({ ...kept, token: kept.token + "x" })); })()""")
    page.go(f"{world.server}/console")
    page.wait("!document.getElementById('sign-in').hidden && document.getElementById('token-error').textContent")
    assert page.evaluate("sessionStorage.getItem('campanile-console')") is None


def test_everything_can_be_done_by_keyboard(world):
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
    page.tab_to("[part~=mark]", shift=True)
    page.press(" ")
    page.wait(badge_is(""))
    assert page.evaluate("root().activeElement.title") == "Mark as unread", "the focus stays on the button"
    page.tab_to("[part~=deliveries]", most=1)
    page.press("Enter")
    page.wait("document.getElementById('deliveries').open")
    page.press("Escape")
    page.wait("!document.getElementById('deliveries').open && root().activeElement?.matches('[part~=deliveries]')", what="the focus to come back")
    page.tab_to("[part~=delete]", most=1)
    page.press("Enter")
    page.wait("rows().length === 0 && root().activeElement?.matches('[part=list]')", what="the focus to stay in the list")
    page.tab_to("input[name=status]", shift=True)
    page.press("ArrowRight")
    page.wait("document.querySelector('input[name=status]:checked').value === 'unread'")
    page.tab_to("#sign-out", shift=True)
    page.press("Enter")
    page.wait("!document.getElementById('sign-in').hidden && document.getElementById('console').hidden")
    assert page.evaluate("sessionStorage.getItem('campanile-console')") is None


def test_the_focus_stays_in_the_list_when_the_stream_tells_before_the_answer_does(world):
    page = world.console()
    older = world.post(title="Older")
    world.post(title="Newer")
    page.wait(titled("Newer"))
    # The answer to DELETE is kept back until the stream has told it.
    keep_answers(page, "method === 'DELETE'")
    page.evaluate("root().querySelector('[part~=delete]').focus()")
    page.press("Enter")
    page.wait("rows().length === 1")
    assert page.evaluate("root().activeElement?.matches('[part~=delete]')"), "on the next one's button"
    let_answers_go(page)
    # What another takes away leaves nobody on a button that he did not choose.
    world.as_user("DELETE", f"/notifications/{older['id']}", 204)
    page.wait("rows().length === 0 && root().activeElement?.matches('[part=list]')")


def test_every_control_has_a_name_and_nothing_comes_from_elsewhere(world):
    world.device(IPHONE, "ios")
    world.post(category="A", deep_link="/a", data={"n": 1})
    page = world.console()
    page.wait("document.querySelector('.phone-badge')")
    page.wait("rows().length")
    assert page.nameless() == [], page.nameless()
    page.click("campanile-inbox >>> [part~=deliveries]")
    page.wait("document.getElementById('deliveries').open")
    assert page.nameless() == [], page.nameless()
    check_requests(page, world.server, world.token, world.key)


def test_it_fits_390_pixels(world):
    world.device(IPHONE, "ios")
    world.post(title="A" * 200, body="B" * 300, category="C" * 60, deep_link="/" + "d" * 200)
    page = world.console(width=390, height=844)
    page.wait("rows().length && document.querySelector('.phone')")
    check_width(page, 390, touched="#inbox button, [part~=button], .sections a, #compose button, .switch")
    page.click("campanile-inbox >>> [part~=deliveries]")
    page.wait("document.getElementById('deliveries').open")
    check_width(page, 390)


def test_pictures(world, screenshots):
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
        page.screenshot(os.path.join(screenshots, f"{name}.png"))
