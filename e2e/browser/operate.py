"""Tests: the operator's side of the console."""
import datetime
import json
import os
import time

import pytest

from e2e.browser.world import (
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
from e2e.harness import Simulator, serving, temporary_folder

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


def hold(page, start):
    """Keeps back what the page asks of paths that begin so: the test answers, when and in the order that it likes (`answer`)."""
    page.evaluate("""(start => { const real = window.fetch; window.asked ??= [];
      window.fetch = (path, ...rest) => !path.startsWith(start) ? real(path, ...rest)
        : new Promise((resolve) => window.asked.push({ path: decodeURIComponent(path), resolve, query: new URLSearchParams(path.split("?")[1]) }));
      })""" + f"({json.dumps(start)})")


def answer(page, number, body, status=200):
    page.evaluate(f"window.asked[{number}].resolve(new Response({json.dumps(json.dumps(body))}, {{ status: {status} }}))")


def asked(page, number):
    """What was asked for in the query, as the first, second, … of what is held back."""
    page.wait(f"(window.asked ?? []).length > {number}", what=f"question {number}")
    return dict(page.evaluate(f"[...window.asked[{number}].query]"))


def found(users, cursor=None):
    """An answer of /operate/deliveries with a delivery for each of these users."""
    return {"next_cursor": cursor, "deliveries": [delivery(user_id=user) for user in users]}


def delivery(**members):
    return {"id": "0193f8a2-7c1e-7b52-9d3a-5f0c2e8b1a48", "notification_id": "0193f8a2-7c1e-7b52-9d3a-5f0c2e8b1a47", "user_id": USER,
            "created_at": "2026-11-01T00:00:00.000Z", "token": "91de8f", "platform": "ios", "provider": "apns", "environment": "production",
            "state": "rejected", "reason": None, "attempts": 1, "next_attempt_at": None, "settled_at": None, "traceparent": None,
            "answers": [], **members}


def search(page, reason):
    page.fill("#reason", reason)
    page.press("Enter")


SHOWN_USERS = "[...document.querySelectorAll('#push-list .link')].map((node) => node.textContent).join()"
FURTHER = "!document.getElementById('further').hidden"


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


def test_streams_of_the_apps_own_are_shown_with_their_listeners_and_nothing_where_there_are_none(world):
    page = world.operator()
    page.wait("document.getElementById('fresh').classList.contains('on')")
    assert page.evaluate("document.getElementById('streams').hidden")
    told = hour(datetime.datetime.now(datetime.UTC))
    told["streams"] = {"count": 2, "listeners": 41, "most_heard": [{"stream": "<b>room</b>", "listeners": 40}, {"stream": "room:7", "listeners": 1}]}
    page.evaluate("const real = window.fetch; window.fetch = async (path, ...rest) =>"
                  f" path === '/operate/overview' ? new Response({json.dumps(json.dumps(told))}) : real(path, ...rest); 0")
    page.wait("!document.getElementById('streams').hidden", 30)
    assert page.evaluate("document.getElementById('streams-summary').textContent") == "41 subscriptions to 2 streams on this node"
    assert page.evaluate("[...document.querySelectorAll('#streams-list li')].map((one) => one.textContent).join()") == \
        "<b>room</b>40 subscriptions,room:71 subscription"


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
    world.logged("An operator looked at a user.", OPERATOR, "nobody")
    world.logged("An operator looked at a user.", OPERATOR, USER, "deliveries")


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


@pytest.mark.complaints(*REFUSED)
def test_a_user_who_is_not_there_is_said_so_to_nobody_who_asked_for_another_one_since(world):
    world.post(push=False)
    page = world.operator()
    hold(page, "/operate/users/nobody")
    page.fill("#look-user", "nobody")
    page.press("Enter")
    page.wait("window.asked.length === 1")
    page.fill("#look-user", USER)
    page.press("Enter")
    page.wait("!document.getElementById('user-seen').hidden", what="alice, though the answer about nobody isn't there")
    answer(page, 0, {"title": "Not found", "status": 404, "code": "not_found"}, 404)
    page.wait("document.querySelectorAll('[aria-disabled=true]').length === 0")
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert page.evaluate("document.getElementById('look-user-error').textContent") == ""
    assert page.evaluate("document.getElementById('user-name').textContent") == USER


def test_a_search_that_is_not_over_gives_way_to_the_next_one(world):
    page = world.operator()
    page.wait("document.querySelectorAll('[aria-disabled=true]').length === 0")
    hold(page, "/operate/deliveries?")
    search(page, "First")
    assert asked(page, 0) == {"state": "rejected", "reason": "First"}
    answer(page, 0, found([], "cursor of the first"))
    assert asked(page, 1) == {"state": "rejected", "reason": "First", "cursor": "cursor of the first"}
    search(page, "Second")
    assert asked(page, 2) == {"state": "rejected", "reason": "Second"}
    answer(page, 1, found(["first"], "another cursor of the first"))
    answer(page, 2, found([], "cursor of the second"))
    assert asked(page, 3) == {"state": "rejected", "reason": "Second", "cursor": "cursor of the second"}
    answer(page, 3, found(["second"]))
    page.wait(f"{SHOWN_USERS} === 'second'")
    assert not page.evaluate(FURTHER)
    page.click("[name=push-state][value=gone]")
    assert asked(page, 4) == {"state": "gone", "reason": "Second"}


@pytest.mark.complaints("the server responded with a status of 5")
def test_a_search_that_fails_leaves_nothing_of_the_one_before(world):
    page = world.operator()
    page.wait("document.querySelectorAll('[aria-disabled=true]').length === 0")
    hold(page, "/operate/deliveries?")
    search(page, "First")
    asked(page, 0)
    answer(page, 0, found(["first"], "cursor"))
    page.wait(f"{SHOWN_USERS} === 'first' && {FURTHER}")
    search(page, "Second")
    asked(page, 1)
    assert page.evaluate(SHOWN_USERS) == "" and not page.evaluate(FURTHER)
    answer(page, 1, {"title": "Unavailable", "detail": "The database can't be read."}, 503)
    page.wait("document.getElementById('alerts').textContent.includes('Unavailable')")
    assert page.evaluate(SHOWN_USERS) == "" and not page.evaluate(FURTHER)
    search(page, "Third")
    asked(page, 2)
    search(page, "Fourth")
    asked(page, 3)
    answer(page, 3, {"title": "Unavailable again", "detail": "The database can't be read."}, 503)
    page.wait("document.getElementById('alerts').textContent.includes('Unavailable again')")
    answer(page, 2, found(["third"]))
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert page.evaluate(SHOWN_USERS) == ""
    assert "Unavailable again" in page.evaluate("document.getElementById('alerts').textContent")
    search(page, "Fifth")
    asked(page, 4)
    answer(page, 4, found(["fifth"]))
    page.wait(f"{SHOWN_USERS} === 'fifth' && document.getElementById('alerts').textContent === ''")


def test_looking_further_back_belongs_to_its_search(world):
    page = world.operator()
    page.wait("document.querySelectorAll('[aria-disabled=true]').length === 0")
    hold(page, "/operate/deliveries?")
    search(page, "First")
    asked(page, 0)
    answer(page, 0, found(["first"], "cursor of the first"))
    page.wait(FURTHER)
    page.click("#further")
    assert asked(page, 1)["cursor"] == "cursor of the first"
    search(page, "Second")
    assert asked(page, 2) == {"state": "rejected", "reason": "Second"}
    answer(page, 2, found(["second"], "cursor of the second"))
    page.wait(f"{SHOWN_USERS} === 'second' && {FURTHER}")
    page.click("#further")
    assert asked(page, 3) == {"state": "rejected", "reason": "Second", "cursor": "cursor of the second"}
    answer(page, 1, found(["older of the first"], "another cursor of the first"))
    page.evaluate("new Promise((done) => setTimeout(done))")
    page.click("#further")  # it still waits
    answer(page, 3, found(["older"], "last"))
    page.wait(f"{SHOWN_USERS} === 'second,older'")
    page.click("#further")
    assert asked(page, 4)["cursor"] == "last"


def test_a_story_is_drawn_anew_only_when_there_is_news(world):
    """Its place is read out whenever it changes."""
    page = world.operator()
    page.wait("document.querySelectorAll('[aria-disabled=true]').length === 0")
    hold(page, "/operate/deliveries?")
    search(page, "First")
    asked(page, 0)
    answer(page, 0, found([USER]))
    page.wait("document.querySelector('.push')")
    page.click(".push .icon-button")
    assert "notification_id" in asked(page, 1)
    answer(page, 1, {"next_cursor": None, "deliveries": [delivery(state="owed", next_attempt_at="2040-01-01T00:00:00.000Z")]})
    page.wait("document.getElementById('story').open")
    page.evaluate("""(() => { window.changes = 0;
      new MutationObserver((all) => { window.changes += all.length; })
        .observe(document.getElementById("story-body"), { childList: true, subtree: true, characterData: true }); })()""")
    asked(page, 2)
    answer(page, 2, {"next_cursor": None, "deliveries": [delivery(state="owed", next_attempt_at="2040-01-01T00:00:00.000Z")]})
    asked(page, 3)
    assert page.evaluate("window.changes") == 0
    answer(page, 3, {"next_cursor": None, "deliveries": [delivery(state="superseded", reason="restored")]})
    page.wait("document.querySelector('#story .state.superseded') && window.changes > 0")


def test_a_reason_of_ours_has_words_of_its_own(world):
    """Not those of its state: what a restore settled was neither read, nor deleted, nor had it expired."""
    page = world.operator()
    page.wait("document.querySelectorAll('[aria-disabled=true]').length === 0")
    hold(page, "/operate/deliveries?")
    search(page, "restored")
    asked(page, 0)
    both = {"next_cursor": None, "deliveries": [
        delivery(state="superseded", reason="restored"), delivery(state="accepted", reason="without_link")]}
    answer(page, 0, both)
    page.wait("document.querySelectorAll('.push').length === 2")
    page.click(".push .icon-button")
    asked(page, 1)
    answer(page, 1, both)
    page.wait("document.getElementById('story').open")
    for place in ("push-list", "story-body"):
        told = page.evaluate(f"document.getElementById('{place}').textContent")
        assert "owed when the backup was made" in told and "read, deleted or expired" not in told, told
        assert "the provider took it, without its deep link" in told, told


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
        "last_hour": {"first_minute": at(59)[:17] + "00.000Z", "created": wave},
        "streams": {"count": 0, "listeners": 0, "most_heard": []}}


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
