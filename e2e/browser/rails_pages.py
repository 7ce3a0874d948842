"""Tests: the layout, the tokens and the bridge that the gem's generator makes, in Chromium, against a real server that also stops and hangs."""
import time

import pytest

from e2e import ROOT
from e2e.browser.rails_shop import BADGE, HERE, TEMPLATES, is_live, shop_with, shows, visit
from e2e.browser.world import AWAY, REFUSED
from e2e.harness.hotwire import PROGRESS_BAR

PIECES = ROOT / "Sources/CampanileServer/web"
# Names the layout's own rule. A session that ends takes its nonce with it, and Chromium refuses the rule of the page that Turbo fetches then;
# the document keeps the one that it has.
OWN_RULE = "sha256-lyrDhSmoe122xEOm+mcJNvs9//fe3wXRa5tAzS4DMqw="
HEARD = "sent.filter(({ component }) => component === 'badge').map(({ data }) => data.count)"
LINK_BACK = "getComputedStyle(document.querySelector('.native-back')).display"

pytestmark = [pytest.mark.needs("puma", "ruby", "chromium"), pytest.mark.complaints(PROGRESS_BAR, *AWAY, *REFUSED)]


def test_the_copies_are_the_pieces_that_the_server_has():
    copies = TEMPLATES / "javascript/campanile"
    for copy, piece in (("badge.js", "campanile-badge.js"), ("badge_controller.js", "badge_controller.js"), ("cable.js", "campanile-cable.js")):
        assert (copies / copy).read_bytes() == (PIECES / piece).read_bytes(), f"cp Sources/CampanileServer/web/{piece} {copies / copy}"


def test_three_visits_at_3_tell_the_app_3_each_and_never_0(shop):
    page = shop.signed_in(unread=3)
    page.go(f"{shop.address}/orders")
    for number in (1, 2, 3):
        page.wait(f"{HEARD}.length >= {number}")
        page.wait(is_live("3"))
        if number < 3:
            visit(page, f"/orders/{number}")
            page.wait(f"document.querySelector('main').textContent.includes('/orders/{number}')")
    assert page.evaluate(HEARD) == [3, 3, 3]
    shop.read_all()
    page.wait(f"{HEARD}.length > 3")
    page.wait(is_live(""))
    assert page.evaluate(HEARD) == [3, 3, 3, 0], "3 → 0 is told once"


def test_a_true_0_at_the_start_is_told_once(shop):
    page = shop.signed_in()
    page.go(f"{shop.address}/orders")
    page.wait(f"{HEARD}.length > 0")
    page.wait(is_live(""))
    assert page.evaluate(HEARD) == [0]


def test_an_apps_own_controller_finds_the_number_in_the_page_as_it_is_printed(shop):
    page = shop.signed_in(unread=12)
    page.go(f"{shop.address}/orders")
    assert page.evaluate("""fetch("/orders").then((answer) => answer.text()).then((text) => {
      const node = new DOMParser().parseFromString(text, "text/html").querySelector("campanile-badge");
      return [node.textContent, node.hidden]; })""") == ["12", False]


def test_while_campanile_is_stopped_the_page_runs_its_own_javascript_and_gets_its_number_later(shop):
    page = shop.signed_in(unread=3)
    shop.campanile.kill()
    page.go(f"{shop.address}/orders")
    page.wait("window.runs === \"the app's own JavaScript\"")
    assert page.evaluate(f"{shows('')} && {HEARD}.length === 0"), "an unknown number is told to nobody"
    visit(page, "/orders/2")
    shop.campanile.start()
    page.wait(is_live("3"), 60)
    assert page.evaluate(HEARD) == [3]


def test_while_campanile_hangs_the_page_is_painted_and_runs_its_own_javascript(impatient_shop):
    shop = impatient_shop
    page = shop.signed_in(unread=3)
    shop.hang()
    page.go(f"{shop.address}/orders")
    page.wait("window.runs === \"the app's own JavaScript\"")
    page.wait("performance.getEntriesByName('first-contentful-paint').length === 1", what="the page to be painted")
    assert page.evaluate("document.querySelector('h1').textContent") == "Orders"
    assert page.evaluate(HEARD) == []
    shop.go_on()
    page.wait(is_live("3"), 60)
    assert page.evaluate(HEARD) == [3]


def test_a_morph_keeps_3_also_when_the_server_could_print_none(shop):
    page = shop.signed_in(unread=3)
    page.go(f"{shop.address}/orders")
    page.wait(is_live("3"))
    page.evaluate((HERE / "pages/morph.js").read_text() + "; 0")
    shop.campanile.kill()
    page.evaluate("""window.badge = document.querySelector("campanile-badge");
      fetch("/orders").then((answer) => answer.text()).then((text) => {
        window.fresh = new DOMParser().parseFromString(text, "text/html").body.innerHTML; morphBody(fresh); })""")
    assert page.evaluate("new DOMParser().parseFromString(fresh, 'text/html').querySelector('campanile-badge').textContent") == ""
    assert page.evaluate(f"window.badge === {BADGE} && {shows('3')}")
    assert page.evaluate(HEARD) == [3]


def test_the_link_back_is_hidden_in_an_app_and_in_no_browser(shop):
    page = shop.signed_in()
    page.go(f"{shop.address}/orders")
    assert page.evaluate(LINK_BACK) == "none"
    page.call("Network.setUserAgentOverride", userAgent="Mozilla/5.0 Safari/605")
    page.go(f"{shop.address}/orders")
    assert page.evaluate(LINK_BACK) != "none"


@pytest.mark.complaints(PROGRESS_BAR, OWN_RULE, *AWAY, *REFUSED)
def test_a_sign_out_has_the_app_delete_its_token_and_shows_no_number_any_more(shop):
    page = shop.signed_in(unread=3)
    page.go(f"{shop.address}/orders")
    page.wait(is_live("3"))
    told = "sent.filter(({ component }) => component === 'notification-token')"
    page.wait(f"{told}.length === 1")
    assert page.evaluate(f"{told}[0].data.userID") == shop.user
    page.evaluate("void (replies.signOut = { deleted: true, message: null })")
    page.click("form button")
    page.wait("location.pathname === '/signed_out' && document.querySelector('campanile-badge') === null")
    assert page.evaluate(f"{told}.map(({{ event }}) => event)") == ["connect", "connect", "signOut"]
    assert page.evaluate(LINK_BACK) == "none", "the document keeps its own rule"


def test_a_token_that_ends_is_renewed_without_a_visit_also_after_the_page_was_hidden(binary, browser, complaints):
    with shop_with(binary, browser, SHOP_TOKEN_SECONDS="3") as shop:
        page = shop.signed_in(unread=3)
        page.go(f"{shop.address}/orders")
        page.wait(is_live("3"))
        # The bridge's component asks as well, when it connects and when the page is shown.
        page.wait("sent.some(({ component }) => component === 'notification-token')")
        asked = page.requested
        renewals = sum(one.endswith("/campanile_token") for one in asked)

        def wait_for_renewals(number):
            deadline = time.monotonic() + 60
            while sum(one.endswith("/campanile_token") for one in asked) < number:
                assert time.monotonic() < deadline, "the token wasn't renewed"
                time.sleep(0.05)
        wait_for_renewals(renewals + 1)
        shop.post()
        page.wait(is_live("4"), 60)
        page.hide()
        wait_for_renewals(sum(one.endswith("/campanile_token") for one in asked) + 1)
        page.show()
        shop.post()
        page.wait(is_live("5"), 60)
        assert set(page.evaluate(HEARD)) == {3, 4, 5}
        tokens = [one for one in asked if "access_token=" in one]
        assert tokens and all("access_token=cms_" in one for one in tokens), "a user token stands in no address"
        shop.close(complaints)


def test_the_documented_layout_keeps_its_number_over_visits_and_a_morph_and_belongs_to_its_user(shop):
    page = shop.signed_in(unread=3)
    node = "document.getElementById('notification-badge-count')"
    page.go(f"{shop.address}/documented/orders")
    page.evaluate(f"void (window.kept = {node})")
    for number in (1, 2, 3):
        page.wait(f"rendered.length >= {number}", what="the present badge from the cable")
        page.wait(f"posted.length >= {number}")
        assert page.evaluate(f"kept === {node} && {node}.textContent") == "3"
        if number < 3:
            visit(page, f"/documented/orders/{number}")
    assert page.evaluate("posted") == [3, 3, 3], "three visits at 3 tell the app 3 each and never 0"
    page.evaluate((HERE / "pages/morph.js").read_text() + "; 0")
    page.evaluate("""fetch(location.href).then((answer) => answer.text()).then((text) => {
      morphBody(new DOMParser().parseFromString(text, "text/html").body.innerHTML.replace(">3</span>", "></span>")); })""")
    assert page.evaluate(f"kept === {node} && {node}.textContent") == "3" and page.evaluate("posted") == [3, 3, 3]
    shop.post()
    page.wait(f"{node}.textContent === '4'")
    shop.read_all()
    page.wait(f"{node}.textContent === '0'")
    assert page.evaluate("posted") == [3, 3, 3, 4, 0]
    # Somebody else signs in without a document being loaded.
    shop.new_user(unread=1)
    shop.sign_in(page)
    visit(page, "/documented/home")
    page.wait(f"kept !== {node} && {node}.textContent === '1'")
    page.wait("posted.at(-1) === 1")
