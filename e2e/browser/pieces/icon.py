"""Tests: the number on an installed web app's icon, where a visit leads to a page without the element."""
import pytest

from e2e.browser.pieces.followed import OLD, WITH_OR_WITHOUT_A_TOKEN, with_own_exchange
from e2e.browser.pieces.page import APP_BADGE, REFUSED, fresh_world, text_is  # noqa: F401 – the fixture `world`

# What came of each call, and a promise that keeps back the answers.
ANSWERS = """window.answers = []; window.held = Promise.resolve(); window.fetch = ((own) => async (...what) => {
  const answer = await own(...what).catch(() => ({ status: 0 }));
  await held;
  answers.push(answer.status);
  return answer;
})(fetch);"""


# What was asked for.
ASKED = "window.asked = []; window.fetch = ((own) => (...what) => (asked.push(String(what[0])), own(...what)))(fetch);"


def without_the_element(world, token, status):
    """The page of `with_own_exchange` after a visit to one without the element, and when its own server was asked who is signed in."""
    page = with_own_exchange(world, token, APP_BADGE, ANSWERS)
    page.wait("appBadges.at(-1) === 3")
    world.server.token_status = status
    page.evaluate("document.body.innerHTML = '<p>Nothing</p>'")
    world.server.wait(lambda server: len(server.requests("/own/exchange")) == 2, "whether somebody is signed in")
    return page


@pytest.mark.complaints(*REFUSED)
@WITH_OR_WITHOUT_A_TOKEN
def test_the_icon_loses_its_number_when_a_visit_shows_that_nobody_is_signed_in(world, token):
    page = without_the_element(world, token, 401)
    page.wait("appBadges.at(-1) === 0")
    assert len(world.server.requests("/own/exchange")) == 2 and page.evaluate("appBadges") == [3, 0]


@pytest.mark.complaints(*REFUSED)
@pytest.mark.parametrize("status", [201, 404, 503])
def test_the_icon_keeps_its_number_over_a_page_without_the_element(world, status):
    page = without_the_element(world, OLD, status)
    page.wait(f"answers.at(-1) === {status} && answers.length === 2")
    page.evaluate("new Promise((done) => setTimeout(done, 0))")
    assert page.evaluate("appBadges") == [3]


@pytest.mark.complaints(*REFUSED)
def test_the_icon_keeps_the_number_of_who_has_signed_in_meanwhile(world):
    page = with_own_exchange(world, OLD, APP_BADGE, ANSWERS)
    world.server.token_status = 401
    page.evaluate("window.held = new Promise((done) => { window.release = done; }); document.body.innerHTML = ''")
    world.server.wait(lambda server: len(server.requests("/own/exchange")) == 2, "whether somebody is signed in")
    world.server.change_unheard(1, 3)
    page.evaluate("document.body.innerHTML = '<campanile-badge id=one></campanile-badge>'")
    page.wait(text_is("#one", "1"))
    page.evaluate("release()")
    page.wait("answers.at(-1) === 401")
    page.evaluate("new Promise((done) => setTimeout(done, 0))")
    assert page.evaluate("appBadges") == [3, 1]


def test_an_icon_without_a_number_asks_nobody(world):
    page = with_own_exchange(world, OLD, APP_BADGE, ASKED)
    world.server.tell(0, 21)
    page.wait("appBadges.at(-1) === 0")
    page.evaluate("document.body.innerHTML = ''")
    world.server.wait_for_streams(0)
    page.evaluate("new Promise((done) => setTimeout(done, 0))")
    assert page.evaluate("asked.filter((address) => address.endsWith('/own/exchange')).length") == 1
