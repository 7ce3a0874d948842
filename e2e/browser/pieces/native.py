"""Tests: the number that a native app hears from a page, with Turbo 7.1 itself; and what a page refresh by morphing leaves of it."""
import pytest

from e2e.browser.pieces.page import fresh_world, text_is  # noqa: F401 – the fixture `world`
from e2e.harness.hotwire import PROGRESS_BAR

SPAN = "notification-badge-count"

pytestmark = pytest.mark.complaints(PROGRESS_BAR)


def stream(page, content, action="update"):
    """A message of the server's on a stream of Turbo's, rendered with the next frame."""
    page.evaluate(f"""Turbo.renderStreamMessage(
        `<turbo-stream action="{action}" target="{SPAN}"><template>{content}</template></turbo-stream>`)""")
    page.wait("document.querySelector('turbo-stream') === null", what="Turbo to have rendered the stream's message")


def visit(page, path):
    page.evaluate(f"""new Promise((done) => {{ addEventListener("turbo:load", done, {{ once: true }}); Turbo.visit("{path}"); }}).then(() => 0)""")


def test_turbo_is_turbo_itself(world):
    page = world.open("native.html")
    assert page.evaluate("typeof Turbo.visit === 'function' && typeof Turbo.connectStreamSource === 'function'")


def test_three_visits_at_3_send_3_each_and_never_0(world):
    page = world.open("native.html")
    for number in (1, 2, 3):
        stream(page, "3")
        page.wait(f"posted.ios.length >= {number} && posted.ios.at(-1) === 3")
        if number < 3:
            visit(page, f"/pages/native.html?visit={number}")
    assert page.evaluate("posted.ios") == [3, 3, 3]
    assert page.evaluate("bridged()") == [3, 3, 3]
    assert page.evaluate("posted.android") == ['{"count":3}'] * 3


def test_three_visits_at_3_with_the_element_send_3_each_and_never_0(world):
    world.server.tell(3, 20)
    page = world.open("live_native.html")
    for number in (1, 2, 3):
        page.wait(f"posted.ios.length >= {number} && " + text_is("#live", "3"))
        if number < 3:
            visit(page, f"/pages/live_native.html?visit={number}")
    assert page.evaluate("posted.ios") == [3, 3, 3]
    assert page.evaluate("bridged()") == [3, 3, 3]
    assert len(world.server.requests("/badge/stream")) == 1


def test_a_number_that_becomes_0_is_sent_as_0_once(world):
    page = world.open("native.html")
    for content in ("3", "0", "", "0"):
        stream(page, content)
        assert page.evaluate(text_is(f"#{SPAN}", content))
    assert page.evaluate("posted.ios") == [3, 0]
    stream(page, "2")
    stream(page, "")
    assert page.evaluate("posted.ios") == [3, 0, 2, 0], "an element that had a number and is emptied is at 0"


def test_a_true_0_at_the_start_is_sent_once(world):
    page = world.open("native.html")
    stream(page, "0")
    page.wait("posted.ios.length > 0")
    stream(page, "")
    assert page.evaluate("posted.ios") == [0] and page.evaluate("bridged()") == [0]


def test_a_true_0_of_the_element_is_sent_once(world):
    page = world.open("live_native.html")
    page.wait("posted.ios.length > 0")
    page.evaluate("document.addEventListener('campanile:badge', () => { window.isTold = true; })")
    world.server.tell(0, 9)
    page.wait("isTold")
    assert page.evaluate("posted.ios") == [0] and page.evaluate("bridged()") == [0]


def test_no_controller_asks_for_the_badge(world):
    page = world.open("native.html")
    stream(page, "3")
    page.wait("posted.ios.length === 1")
    assert not [one for one in world.server.asked if one["path"].startswith("/badge")]


def test_a_native_app_hears_what_turbo_shows(world):
    page = world.open("native.html")
    stream(page, "12")
    page.wait("posted.ios.length === 1")
    assert page.evaluate("sent[0]") == {
        "component": "badge", "event": "update",
        "data": {"count": 12, "metadata": {"url": f"{world.server.address}/pages/native.html"}}}
    stream(page, "12")
    stream(page, "")
    page.wait("posted.ios.length === 2")
    page.evaluate(f"window.gone = document.getElementById('{SPAN}')")
    stream(page, f"<span id='{SPAN}' data-controller='badge'>5</span>", "replace")
    page.wait("posted.ios.length === 3")
    page.evaluate("gone.textContent = '77'")   # nobody looks at it any more
    assert page.evaluate("posted.ios") == [12, 0, 5]
    assert page.evaluate("posted.android") == ['{"count":12}', '{"count":0}', '{"count":5}']
    assert page.evaluate("bridged()") == [12, 0, 5]


def test_a_native_app_hears_the_exact_number_of_the_element(world):
    page = world.open("live_native.html")
    world.server.wait_for_streams(1)
    world.server.tell(120, 3)
    page.wait(text_is("#live", "9+"))
    page.wait("posted.ios.at(-1) === 120")
    world.server.tell(0, 4)
    page.wait("posted.ios.at(-1) === 0")


def test_the_bridge_may_connect_twice_and_the_app_hears_the_number_again(world):
    page = world.open("native.html")
    stream(page, "3")
    page.wait("bridged().length === 1")
    page.evaluate(f"connected.get(document.getElementById('{SPAN}')).at(-1).connect()")
    page.wait("bridged().length >= 2")
    stream(page, "4")
    page.wait("bridged().at(-1) === 4")
    assert page.evaluate("bridged()") == [3, 3, 4], "one watch is left, which sends each number once"
    page.evaluate("document.body.dataset.gone = ''; connected.forEach((list) => list.forEach((one) => one.disconnect()))")
    stream(page, "5")
    assert page.evaluate("bridged()") == [3, 3, 4], "and none after the end"


def test_the_controller_fills_the_bare_pills_of_a_page(world):
    world.server.tell(7, 2)
    page = world.open("native.html")
    page.evaluate("""document.body.insertAdjacentHTML("beforeend",
        '<b id=other data-notification-badge="" data-src="/other/stream"></b>')""")
    page.wait(text_is("#other", "7"))
    pill = "(({ textContent, hidden, className }) => [textContent, hidden, className])(document.getElementById('pill'))"
    assert page.evaluate(pill) == ["", False, "pill hidden"]
    for content, shown in (("3", ["3", False, "pill"]), ("12", ["9+", False, "pill"]), ("0", ["", True, "pill hidden"])):
        stream(page, content)
        page.wait(f"JSON.stringify({pill}) === JSON.stringify({shown})".replace("True", "true").replace("False", "false").replace("'", '"'))
    assert page.evaluate("document.getElementById('other').textContent") == "7", "one with an address isn't a bare one"


def test_a_bare_pill_with_a_badge_controller_of_its_own_keeps_its_own_number(world):
    page = world.open("native.html")
    page.evaluate("""document.body.insertAdjacentHTML("beforeend", `<b id=second data-controller=badge data-notification-badge>5</b>
        <b id=third data-controller="menu bridge--badge" data-notification-badge>6</b>`)""")
    page.wait("posted.ios.length === 1 && " + text_is("#pill", "5"))
    stream(page, "12")
    page.wait(text_is("#pill", "9+"))
    assert page.evaluate("['second', 'third'].map((id) => document.getElementById(id).outerHTML)") == [
        '<b id="second" data-controller="badge" data-notification-badge="">5</b>',
        '<b id="third" data-controller="menu bridge--badge" data-notification-badge="">6</b>']
    assert page.evaluate("posted.ios") == [5, 12]


def test_a_controller_of_another_name_on_a_bare_pill_tells_the_exact_number(world):
    page = world.open("native.html")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b id=other data-controller=unread data-notification-badge></b>')")
    stream(page, "12")
    page.wait(text_is("#other", "9+") + " && posted.ios.length === 2")
    assert page.evaluate("posted.ios") == [12, 12] and page.evaluate("posted.android") == ['{"count":12}'] * 2


def test_elements_with_the_attribute_toggle_the_class_hidden_too(world):
    world.server.tell(3, 20)
    page = world.open("badge.html")
    page.wait(text_is("#two", "3"))
    page.evaluate("document.getElementById('two').classList.add('hidden')")
    world.server.tell(4, 21)
    page.wait(text_is("#two", "4") + " && !document.getElementById('two').classList.contains('hidden')")
    world.server.tell(0, 22)
    page.wait(text_is("#two", "") + " && document.getElementById('two').classList.contains('hidden')")


# --- a page refresh by morphing, imitated

SEEN = """['live', 'span'].map((id) => document.getElementById(id)).map((node) =>
  [node.textContent, node.hidden, node.classList.contains('hidden'), node.getAttribute('aria-label')])"""


def test_a_morph_keeps_3(world):
    world.server.tell(3, 20)
    page = world.open("live_native.html")
    page.wait(text_is("#live", "3") + " && " + text_is("#span", "3"))
    kept = [["3", False, False, "3 unread notifications"]] * 2
    assert page.evaluate(SEEN) == kept
    page.evaluate("window.told = []; document.addEventListener('campanile:badge', ({ detail }) => told.push(detail.count))")
    page.evaluate("window.live = document.getElementById('live'); refresh()")
    assert page.evaluate(SEEN) == kept
    assert page.evaluate("live === document.getElementById('live')"), "the element was kept, as a morph does"
    # An older number that the server printed is an older number, too.
    page.evaluate("morphBody(printed.replace('></campanile-badge>', '>1</campanile-badge>'))")
    assert page.evaluate(SEEN) == kept
    assert page.evaluate("posted.ios") == [3] and page.evaluate("bridged()") == [3] and page.evaluate("told") == []
    world.server.tell(4, 21)
    page.wait(text_is("#live", "4") + " && " + text_is("#span", "4"))
    page.wait("posted.ios.at(-1) === 4")
    assert page.evaluate("posted.ios") == [3, 4]


def test_a_morph_leaves_the_bare_pills_filled(world):
    world.server.tell(3, 20)
    page = world.open("live_native.html")
    page.wait(text_is("#pill", "3"))
    page.evaluate("refresh()")
    assert page.evaluate(text_is("#pill", "3") + " && !document.getElementById('pill').hidden")
    page.evaluate("document.getElementById('live').remove()")
    page.wait("connected.size === 0")
    page.evaluate("refresh()")
    page.wait("connected.size === 1")
    page.evaluate("document.getElementById('live').remove()")
    page.wait("connected.size === 0")
    page.evaluate("morphBody('<p id=pill data-notification-badge></p>')")
    assert page.evaluate(text_is("#pill", "")), "a page without the controller is left alone"


def test_a_morph_of_a_part_leaves_its_bare_pills_filled(world):
    world.server.tell(3, 20)
    page = world.open("live_native.html")
    page.wait(text_is("#pill", "3"))
    page.evaluate("morphPart('pill')")
    assert page.evaluate(text_is("#pill", "3") + " && !document.getElementById('pill').hidden")


def test_a_morph_before_there_is_a_number_shows_what_the_server_printed(world):
    world.server.tells_first = False
    page = world.open("live_native.html")
    world.server.wait_for_streams(1)
    page.evaluate("refresh()")
    assert page.evaluate("document.getElementById('live').hidden"), "an unknown number is hidden"
    page.evaluate("morphBody(printed.replace('></campanile-badge>', '>2</campanile-badge>'))")
    assert page.evaluate(SEEN)[0][:3] == ["2", False, False]
    page.wait("posted.ios.length === 1")
    assert page.evaluate("posted.ios") == [2]


def test_an_element_that_a_morph_takes_for_another_is_let_go(world):
    world.server.tell(3, 20)
    page = world.open("live_native.html")
    page.wait(text_is("#span", "3"))
    page.evaluate("morphBody(printed.replace(/<b .*<.b>/, '<b id=span>Orders</b>'))")
    assert page.evaluate("document.getElementById('span').outerHTML") == '<b id="span">Orders</b>'
    world.server.tell(4, 21)
    page.wait(text_is("#live", "4"))
    assert page.evaluate("document.getElementById('span').outerHTML") == '<b id="span">Orders</b>'
