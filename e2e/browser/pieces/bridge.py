"""The bridge component `notification-token` of the gem: what it tells an app, and when."""
import json

import pytest

from e2e import ROOT
from e2e.browser.pieces.page import REFUSED, fresh_world  # noqa: F401 – the fixture `world`

CONTROLLER = ROOT / (
    "clients/ruby/lib/generators/campanile/install/templates/javascript/bridge/notification_token_controller.js")
PATH = "/campanile_token.json"
# The component's longest wait passes at once.
WITHOUT_PATIENCE = """const wait = window.setTimeout;
window.setTimeout = (work, delay, ...rest) => wait(work, delay >= 30000 ? 0 : delay, ...rest);"""


def sign_in(world, user, token):
    world.server.made[PATH] = json.dumps({"token": token, "user_id": user})


def open_page(world, *scripts):
    module = CONTROLLER.read_text(encoding="utf-8").replace("@hotwired/hotwire-native-bridge", "/pages/bridge.js")
    world.server.made["/pages/notification_token_controller.js"] = module
    return world.open("bridge.html", *scripts)


def handed(page):
    return page.evaluate("sent.filter((one) => one.event === 'connect').map(({ data: { metadata, ...given } }) => given)")


def test_an_app_is_handed_a_fresh_token_at_a_page_in_the_foreground_and_before_a_sign_out(world):
    sign_in(world, "alice", "t1")
    page = open_page(world)
    page.wait("sent.length === 1")
    sign_in(world, "alice", "t2")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait("sent.length === 2")
    sign_in(world, "alice", "t3")
    page.evaluate("replies.signOut = { deleted: true, message: null }; component.element.requestSubmit()")
    page.wait("submitted === 1")
    assert [one["userToken"] for one in handed(page)] == ["t1", "t2", "t3"], handed(page)
    assert page.evaluate("sent.map((one) => one.event)") == ["connect", "connect", "connect", "signOut"]
    assert page.evaluate("alerts") == []


def test_who_the_user_is_the_session_says_and_not_a_page_out_of_the_cache(world):
    sign_in(world, "alice", "t1")
    page = open_page(world)
    page.wait("sent.length === 1")
    sign_in(world, "bob", "t2")
    page.evaluate("document.documentElement.setAttribute('data-turbo-preview', ''); component.disconnect(); component.connect()")
    page.evaluate("document.documentElement.removeAttribute('data-turbo-preview'); component.disconnect(); component.connect()")
    page.wait("sent.length === 2")
    assert handed(page) == [{"userToken": "t1", "userID": "alice"}, {"userToken": "t2", "userID": "bob"}], handed(page)
    assert len(world.server.requests(PATH)) == 2
    page.evaluate("component.disconnect(); document.dispatchEvent(new Event('visibilitychange'))")
    assert len(world.server.requests(PATH)) == 2


def test_a_sign_out_says_what_the_app_says_and_goes_on_once(world):
    sign_in(world, "alice", "t1")
    page = open_page(world)
    page.wait("sent.length === 1")
    page.evaluate("replies.signOut = { deleted: false, message: 'Switched off here.' }")
    page.evaluate("component.element.requestSubmit(); component.element.requestSubmit()")
    page.wait("submitted === 1")
    assert page.evaluate("alerts") == ["Switched off here."]
    assert page.evaluate("sent.filter((one) => one.event === 'signOut').length") == 1


def test_while_the_app_signs_the_user_out_it_is_handed_no_other_token(world):
    sign_in(world, "alice", "t1")
    page = open_page(world)
    page.wait("sent.length === 1")
    page.evaluate("component.element.requestSubmit()")
    page.wait("sent.length === 3")
    asked = len(world.server.requests(PATH))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange')); component.connect()")
    # Whatever was asked before this is there when it is.
    page.evaluate("fetch('/pages/icon.svg').then(() => { window.isOver = true; })")
    page.wait("window.isOver === true")
    assert len(world.server.requests(PATH)) == asked
    assert page.evaluate("sent.map((one) => one.event)") == ["connect", "connect", "signOut"]


def test_an_app_that_does_not_answer_keeps_nobody_signed_in_and_the_user_is_told(world):
    sign_in(world, "alice", "t1")
    page = open_page(world, WITHOUT_PATIENCE)
    page.wait("sent.length === 1")
    page.evaluate("component.element.requestSubmit()")
    page.wait("submitted === 1")
    assert page.evaluate("alerts") == ["Notifications may go on coming to this device."]


@pytest.mark.complaints(*REFUSED)
def test_without_a_session_an_app_is_handed_nothing_and_a_sign_out_goes_on(world):
    page = open_page(world)
    page.evaluate("replies.signOut = { deleted: true }; component.element.requestSubmit()")
    page.wait("submitted === 1")
    assert handed(page) == []
