"""Tests: the console, by mouse and by keyboard, in every width."""
import json
import os

import pytest

from world import (
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


def test_deliveries_are_followed_in_words_and_drawn_anew_only_when_there_is_news(world):
    world.device(IPHONE, "ios")
    world.post()
    page = world.console()
    page.wait("document.querySelectorAll('.notification').length === 1")
    page.evaluate("""(() => { const real = window.fetch; window.asked = [];
      window.fetch = (path, ...rest) => !path.endsWith("/deliveries") ? real(path, ...rest)
        : new Promise((resolve) => window.asked.push((delivery) => resolve(new Response(JSON.stringify({ reason: null, deliveries: [delivery] }))))); })()""")
    delivery = {"token": IPHONE, "platform": "ios", "provider": "apns", "environment": "production", "state": "owed", "reason": None,
                "attempts": 0, "next_attempt_at": "2040-01-01T00:00:00.000Z", "answers": []}
    page.evaluate("document.querySelector('.notification [aria-label=Deliveries]').click()")
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


@pytest.mark.complaints(*AWAY, *REFUSED)
def test_the_console_survives_a_restart(world):
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


def test_the_list_goes_on_to_its_end(world):
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


def test_the_badge_can_be_cleared_and_everything_stays_unread(world):
    world.device(IPHONE, "ios")
    world.post()
    page = world.console()
    page.wait(badge_is("1"))
    page.wait("document.querySelector('.phone-badge') && document.querySelector('.notification.unread')")
    page.click("#clear-badge")
    page.wait(badge_is(""))
    page.wait("document.getElementById('summary').textContent.startsWith('1 unread')")
    page.wait("!document.querySelector('.phone-badge')")
    assert page.evaluate("document.querySelectorAll('.notification.unread').length") == 1


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


def test_the_focus_stays_in_the_list_when_the_stream_tells_before_the_answer_does(world):
    page = world.console()
    # When the stream opens, the list is loaded anew, which takes the focus; what the stream tells is shown after that.
    older = world.post(title="Older")
    world.post(title="Newer")
    page.wait(titled("Newer"))
    # The answer to DELETE is kept back until the stream has told it.
    keep_answers(page, "method === 'DELETE'")
    page.evaluate("document.querySelector('.notification [title=Delete]').focus()")
    page.press("Enter")
    page.wait("document.querySelectorAll('.notification').length === 1")
    assert page.evaluate("document.activeElement.matches('.notification [title=Delete]')"), "on the next one's button"
    let_answers_go(page)
    # What another takes away leaves nobody on a button that he did not choose.
    world.as_user("DELETE", f"/notifications/{older['id']}", 204)
    page.wait("document.querySelectorAll('.notification').length === 0 && document.activeElement.id === 'inbox'")


def test_every_control_has_a_name_and_nothing_comes_from_elsewhere(world):
    world.device(IPHONE, "ios")
    world.post(category="A", deep_link="/a", data={"n": 1})
    page = world.console()
    page.wait("document.querySelector('.phone-badge')")
    page.wait("document.querySelector('.notification')")
    assert page.nameless() == [], page.nameless()
    page.click(".notification [title=Deliveries]")
    page.wait("document.getElementById('deliveries').open")
    assert page.nameless() == [], page.nameless()
    check_requests(page, world.server, world.token, world.key)


def test_it_fits_390_pixels(world):
    world.device(IPHONE, "ios")
    world.post(title="A" * 200, body="B" * 300, category="C" * 60, deep_link="/" + "d" * 200)
    page = world.console(width=390, height=844)
    page.wait("document.querySelector('.notification') && document.querySelector('.phone')")
    check_width(page, 390, touched="#inbox button, .sections a, #compose button, .switch")
    page.click(".notification [title=Deliveries]")
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
