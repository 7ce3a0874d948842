"""Tests: the operator's side of the console."""
import datetime
import json
import os
import time

import pytest

from harness import Simulator, serving, temporary_folder
from world import (
    ANDROID,
    IPHONE,
    OPERATOR,
    REFUSED,
    USER,
    World,
    check_requests,
    check_width,
    keep_answers,
    let_answers_go,
)

LONG_TOKEN = "an-android-phone-of-alice-91de8f"


@pytest.fixture(scope="module")
def kept_pushing(binary, browser):
    """A server whose pushes go to the simulator of Apple and Google."""
    with temporary_folder("campanile-operate-") as folder:
        simulator = Simulator(binary, folder, seed=14)
        try:
            with serving(binary, {"CAMPANILE_CONSOLE": "true"}, simulator.settings(["default"])) as campanile:
                world = World(campanile, browser, None)
                world.simulator = simulator
                yield world
        finally:
            simulator.process.terminate()
            simulator.process.wait()


@pytest.fixture
def pushing(kept_pushing, complaints):
    kept_pushing.empty()
    yield kept_pushing
    kept_pushing.simulator.set_faults([])
    kept_pushing.close(complaints)


def provider(name, selector):
    return f"document.querySelector('[data-provider={name}] {selector}')"


def picture(label):
    """The picture with this caption; of a provider's, the first."""
    return f"[...document.querySelectorAll('.picture')].find((node) => node.querySelector('figcaption').firstChild.data === {json.dumps(label)})"


def settled(world, notification, seconds=30):
    """The notification, when its pushes have been answered for good."""
    deadline = time.monotonic() + seconds
    while True:
        answer = world.campanile.connection().request("GET", f"/notifications/{notification['id']}/deliveries", credential=world.key)
        if all(one["settled_at"] for one in answer.json()["deliveries"]):
            return notification
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def refuse(world, reason, **more):
    world.simulator.set_faults([{"match": {"service": "apns"}, "action": {"type": "status", "reason": reason, **more}}])


def test_a_lane_that_stops_is_seen_with_its_reason_and_what_it_owes_and_then_that_it_runs_again(pushing):
    refuse(pushing, "InvalidProviderToken")
    pushing.device(IPHONE, "ios")
    pushing.post()
    page = pushing.operator()
    page.wait(provider("apns", ".state") + ".textContent === 'parked'", 30)
    page.wait(provider("apns", ".why") + ".textContent.includes('InvalidProviderToken')")
    page.wait(provider("apns", ".facts") + ".textContent.startsWith('1 alert is owed, the oldest for ')", 30)
    assert page.evaluate(provider("fcm", ".state") + ".textContent") == "running"
    pushing.simulator.set_faults([])
    page.wait(provider("apns", ".state") + ".textContent === 'running'", 60)
    page.wait(provider("apns", ".facts") + ".textContent.startsWith('Nothing is owed.')", 60)


def test_a_refused_push_is_found_with_its_reason_and_followed_from_creation_to_answer(pushing):
    pushing.device(IPHONE, "ios")
    refuse(pushing, "BadCollapseId")
    created = settled(pushing, pushing.post(title="Refused"))
    page = pushing.operator()
    page.wait(f"document.querySelector('#push-list .link')?.textContent === '{USER}'")
    assert "BadCollapseId" in page.evaluate("document.querySelector('.push').textContent")
    page.fill("#reason", "Unregistered")
    page.press("Enter")
    page.wait("document.getElementById('no-pushes').textContent === 'There is none.' && !document.getElementById('no-pushes').hidden")
    page.fill("#reason", "BadCollapseId")
    page.press("Enter")
    page.wait("document.querySelectorAll('.push').length === 1")
    page.click(".push .icon-button")
    page.wait("document.getElementById('story').open && document.querySelector('.steps')")
    told = page.evaluate("document.getElementById('story').textContent")
    assert created["id"] in told and f"for {USER}" in told and "APNs answered rejected · 400" in told and "BadCollapseId" in told
    assert IPHONE not in page.evaluate("document.body.textContent") and f"…{IPHONE[-6:]}" in told
    page.press("Escape")
    page.wait("!document.getElementById('story').open")


def test_dead_tokens_are_shown_by_their_end(pushing):
    pushing.device(IPHONE, "ios")
    refuse(pushing, "Unregistered", timestamp_ms=4_000_000_000_000)
    pushing.post()
    page = pushing.operator()
    page.wait("document.getElementById('dead-list').textContent.includes('Unregistered')", 30)
    assert f"…{IPHONE[-6:]}" in page.evaluate("document.getElementById('dead-list').textContent")
    page.wait("document.getElementById('dead-summary').textContent.endsWith('in the last hour')")
    page.wait(f"Number(({provider('apns', '.pictures')}).lastElementChild.querySelector('b').textContent) >= 1")


def test_the_last_hour_is_a_picture_with_words_and_can_be_read_minute_by_minute(world):
    page = world.operator()
    before = page.evaluate(picture("Notifications created") + ".querySelector('b').textContent")
    for _ in range(3):
        world.post(push=False)
    page.wait(f"Number(({picture('Notifications created')}).querySelector('b').textContent) === {int(before) + 3}", 30)
    said = page.evaluate(picture("Notifications created") + ".querySelector('svg').getAttribute('aria-label')")
    assert said.startswith(f"Notifications created: {int(before) + 3} in the last ") and ", at most " in said, said
    assert page.evaluate(picture("Notifications created") + ".querySelector('.bars').getAttribute('d').length > 0")
    # Before the server's start nothing is known, which is not 0.
    page.tab_to("#created input")
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')").startswith("this minute: ")
    for _ in range(58):
        page.press("ArrowLeft")
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')").endswith(": not known")
    assert page.evaluate("document.querySelector('#created .reading').textContent").endswith(": not known")
    assert page.evaluate(provider("apns", ".state") + ".textContent") == "sandbox"


@pytest.mark.complaints(*REFUSED)
def test_a_user_is_looked_at_and_nothing_changes(world):
    world.device(LONG_TOKEN, "android")
    for number in range(55):
        world.post(push=False, title=f"Entry {number}")
    settled(world, world.post(title="Pushed", category="A", deep_link="/a"))
    before = world.as_user("GET", "/badge").json()
    page = world.operator()
    page.fill("#look-user", "nobody")
    page.press("Enter")
    page.wait("document.getElementById('look-user-error').textContent === 'The app knows nothing of this user.'")
    page.fill("#look-user", USER)
    page.press("Enter")
    page.wait("!document.getElementById('user-seen').hidden && document.querySelectorAll('#user-inbox li').length === 50")
    assert page.evaluate("document.getElementById('user-badge').textContent") == "56 on the icon, 56 unread"
    devices = page.evaluate("document.getElementById('user-devices').textContent")
    assert "Android" in devices and "…91de8f" in devices and LONG_TOKEN not in devices, devices
    page.click("#user-older")
    page.wait("document.querySelectorAll('#user-inbox li').length === 56 && document.getElementById('user-older').hidden")
    page.click("#user-inbox .icon-button")
    page.wait("document.getElementById('story').open && document.querySelector('#story .state.accepted')")
    assert "FCM answered accepted" in page.evaluate("document.querySelector('.steps').textContent")
    page.press("Escape")
    assert world.as_user("GET", "/badge").json() == before
    assert len(world.as_user("GET", "/notifications?status=unread&limit=100").json()["notifications"]) == 56
    looks = [line for line in world.campanile.log_tail(1_000_000).splitlines() if "An operator looked at a user." in line]
    assert any(OPERATOR in line and "nobody" in line for line in looks), looks
    assert any(OPERATOR in line and USER in line and "deliveries" in line for line in looks), looks


def test_an_answer_that_comes_late_is_shown_under_nobody_elses_name(world):
    world.post(push=False, title="Alice's")
    world.campanile.connection().request("POST", "/notifications", credential=world.key, body={"user_id": "bob", "title": "Bob's", "push": False})
    page = world.operator()
    # The answers about Alice are kept back until Bob has been shown.
    keep_answers(page, "path.includes('/users/alice/')")
    page.fill("#look-user", USER)
    page.press("Enter")
    page.wait("document.getElementById('user-name').textContent === 'alice'", what="Alice's badge")
    page.click("[name=push-state][value='']")
    page.wait("[...document.querySelectorAll('#push-list .link')].some((node) => node.textContent === 'bob')")
    page.evaluate("[...document.querySelectorAll('#push-list .link')].find((node) => node.textContent === 'bob').click()")
    page.wait("!document.getElementById('user-seen').hidden && document.getElementById('user-name').textContent === 'bob'")
    let_answers_go(page)
    assert page.evaluate("document.getElementById('user-inbox').textContent").count("Alice's") == 0
    assert "Bob's" in page.evaluate("document.getElementById('user-inbox').textContent")


def test_why_nothing_was_owed_can_be_asked_for(world):
    world.post(push=False)
    page = world.operator()
    page.click("[name=push-state][value=none]")
    page.wait("document.querySelector('.push')?.textContent.includes('created without an alert')")
    page.click(".push .icon-button")
    page.wait("document.getElementById('story').open && document.getElementById('story-body').textContent.includes('created without an alert')")


@pytest.mark.complaints(*REFUSED)
def test_who_may_not_is_told_why_at_the_field(world):
    page = world.console(signed_in=False)
    for credential, words in (("cmp_unknown", "The API key is unknown or revoked."), (world.key, "This is a producer’s key"),
                              (world.token, "This is a user’s token.")):
        page.fill("#key", credential)
        page.press("Enter")
        page.wait(f"document.getElementById('key-error').textContent.startsWith({json.dumps(words)})")
    page.fill("#key", world.operate_key)
    page.fill("#token", world.token)
    page.press("Enter")
    page.wait("document.getElementById('key-error').textContent.startsWith('This key was made with --operate')")
    page.fill("#token", "")
    page.press("Enter")
    page.wait("!document.getElementById('operator').hidden && document.getElementById('console').hidden")


@pytest.mark.complaints(*REFUSED)
def test_a_revoked_key_leads_back_to_the_sign_in(world):
    world.operate_key, kept = world.campanile.command("keys", "create", "passing", "--operate")[1], world.operate_key
    try:
        page = world.operator()
    finally:
        world.operate_key = kept
    world.campanile.command("keys", "revoke", "passing")
    page.wait("!document.getElementById('sign-in').hidden && document.getElementById('key-error').textContent", 30)
    assert page.evaluate("sessionStorage.getItem('campanile-console')") is None


def test_everything_can_be_done_by_keyboard(world):
    world.device(IPHONE, "ios")
    world.post(title="By keyboard")
    page = world.console(signed_in=False)
    page.tab_to("#key", most=2)
    page.type(world.operate_key)
    page.press("Enter")
    page.wait("document.getElementById('fresh').classList.contains('on')")
    page.evaluate("document.activeElement.blur()")
    page.tab_to("#operator .skip", most=2)
    page.press("Enter")
    page.wait("document.activeElement.id === 'health'")
    page.tab_to("[data-provider=fcm] input")
    page.tab_to("#look-user")
    page.type(USER)
    page.press("Enter")
    page.wait("document.querySelector('#user-inbox .icon-button') && document.activeElement.id === 'lookup'")
    page.tab_to("#user-inbox .icon-button")
    page.press("Enter")
    page.wait("document.getElementById('story').open && document.querySelector('#story .state')")
    page.press("Escape")
    page.wait("!document.getElementById('story').open && document.activeElement.matches('#user-inbox .icon-button')")
    page.tab_to("[name=push-state]")
    for _ in range(6):
        page.press("ArrowRight")
    page.wait("document.querySelector('[name=push-state]:checked').value === '' && document.querySelector('.push')")
    page.tab_to(".push .icon-button")
    page.tab_to("#operator-sign-out", shift=True)
    page.press("Enter")
    page.wait("!document.getElementById('sign-in').hidden && document.getElementById('operator').hidden")


def test_every_control_has_a_name_and_nothing_comes_from_elsewhere(world):
    world.device(IPHONE, "ios")
    world.post(category="A", deep_link="/a")
    page = world.operator()
    page.fill("#look-user", USER)
    page.press("Enter")
    page.wait("!document.getElementById('user-seen').hidden")  # it moves what is below
    page.click("[name=push-state][value='']")
    page.wait("document.querySelector('.push') && document.querySelector('#user-inbox li')")
    assert page.nameless() == [], page.nameless()
    page.click(".push .icon-button")
    page.wait("document.getElementById('story').open")
    assert page.nameless() == [], page.nameless()
    check_requests(page, world.server, world.operate_key)


def test_it_fits_390_pixels(world):
    world.device(IPHONE, "ios")
    world.post(title="A" * 200, body="B" * 300, category="C" * 60, deep_link="/" + "d" * 200)
    page = world.operator(390, 844)
    page.fill("#look-user", USER)
    page.press("Enter")
    page.wait("!document.getElementById('user-seen').hidden")  # it moves what is below
    page.click("[name=push-state][value='']")
    page.wait("document.querySelector('.push') && document.querySelector('#user-inbox li')")
    check_width(page, 390, touched="#operator button:not(.link), #operator .sections a")
    page.click(".push .icon-button")
    page.wait("document.getElementById('story').open")
    check_width(page, 390)


def hour(now):
    """An hour as the server would tell it: a busy app whose Android pushes wait, because Google refuses the service account."""
    wave = [30 + (minute * 7) % 11 + (18 if 20 < minute < 44 else 0) for minute in range(60)]
    none = [0] * 60
    stopped = 47
    def at(minutes):
        return (now - datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return {
        "app": "shop", "at": at(0), "started_at": at(60 * 71),
        "providers": [
            {"provider": "apns", "condition": "running", "reason": None, "since": None, "in_flight": 2,
             "owed": {"count": 0, "oldest_created_at": None},
             "last_hour": {"accepted": [count * 2 // 3 for count in wave],
                           "retried": [2 if minute in (12, 13, 31) else 0 for minute in range(60)],
                           "rejected": [1 if minute == 26 else 0 for minute in range(60)],
                           "gone": [1 if minute in (8, 33, 52) else 0 for minute in range(60)]}},
            {"provider": "fcm", "condition": "parked", "reason": "PERMISSION_DENIED", "since": at(59 - stopped), "in_flight": 0,
             "owed": {"count": 214, "oldest_created_at": at(59 - stopped)},
             "last_hour": {"accepted": [count // 3 if minute < stopped else 0 for minute, count in enumerate(wave)],
                           "retried": [0 if minute < stopped else 3 if minute == stopped else 1 for minute in range(60)], "rejected": none, "gone": none}}],
        "dead_tokens": {"last_hour": 3, "spared_until": None, "latest": [
            {"token": token, "provider": "apns", "at": at(minutes), "reason": "Unregistered"}
            for token, minutes in (("91de8f", 7), ("0b44ac", 26), ("e7f210", 51))]},
        "last_hour": {"first_minute": at(59)[:17] + "00.000Z", "created": wave}}


def test_pictures(pushing, screenshots):
    """The hour is made up, because a server that was just started has none; the rest is the server's own."""
    pushing.device(IPHONE, "ios")
    pushing.device(ANDROID, "android")
    for title, category in (("Your statement for October is ready", "STATEMENT"), ("Marta replied to your note", "MESSAGE")):
        pushing.post(title=title, category=category)
    refuse(pushing, "BadCollapseId")
    last = pushing.post(title="Your train leaves at 17:42", body="Platform 7, on time.", category="TRAVEL", deep_link="/trips/2290")
    settled(pushing, last)
    told = json.dumps(hour(datetime.datetime.now(datetime.UTC)))
    for name, theme in (("operator-light", "light"), ("operator-dark", "dark")):
        page = pushing.browser.page(width=1440, height=1080)
        pushing.pages.append(page)
        page.before_load(
            "const real = window.fetch; window.fetch = async (path, ...rest) =>"
            f" path === '/operate/overview' ? new Response({json.dumps(told)}) : real(path, ...rest);")
        page.go(f"{pushing.server}/console")
        page.size(1440, 1080)
        page.theme(theme)
        page.fill("#key", pushing.operate_key)
        page.press("Enter")
        page.wait("document.getElementById('fresh').classList.contains('on')")
        page.fill("#look-user", USER)
        page.press("Enter")
        page.wait("document.querySelectorAll('#user-inbox li').length === 3")
        page.wait("document.querySelector('.push')")
        page.evaluate("(document.activeElement.blur(), scrollTo(0, 0))")
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=1078)
        page.screenshot(os.path.join(screenshots, f"{name}.png"))
