"""Tests: an inbox and badges on one page share a stream, over visits of Turbo 7.1, a refresh by morphing, and copies of the module."""
import json

import pytest

from e2e.browser.pieces.followed import token_of
from e2e.browser.pieces.page import PAGE, REFUSED, fresh_world, text_is  # noqa: F401 – the fixture `world`
from e2e.harness.documents import INBOX as DOCUMENT
from e2e.harness.documents import documented
from e2e.harness.hotwire import PROGRESS_BAR

pytestmark = pytest.mark.complaints(PROGRESS_BAR)

TOKEN = token_of("alice")
INBOX = f'<campanile-inbox id="inbox" token="{TOKEN}"></campanile-inbox>'
BADGE = '<campanile-badge id="one"></campanile-badge>'
# Two scripts, as a page has them that shows both.
BOTH = PAGE.replace("<script", '<script src="/turbo.js" defer></script><script type="module" src="/assets/campanile-inbox.js"></script><script')
TITLES = "[...document.getElementById('inbox').shadowRoot.querySelectorAll('a')].map((node) => node.textContent).join()"
COUNTS = "window.counts = []; document.addEventListener('campanile:badge', ({ detail }) => counts.push(detail.count));"


def listed(world, *titles):
    """What GET /notifications answers from now on, the newest first."""
    entries = [{"id": f"{900 - number}", "title": title, "body": None, "deep_link": None, "created_at": "2026-01-15T09:30:00.000Z", "read_at": None}
               for number, title in enumerate(titles)]
    world.server.made["/notifications"] = json.dumps({"notifications": entries, "next_cursor": None})


def both(world, text, *scripts):
    world.server.tell(2, 20)
    listed(world, "Second", "First")
    world.server.made["/pages/both.html"] = BOTH % text
    world.server.made["/pages/alone.html"] = BOTH % f'<p id="alone">Alone</p>{BADGE}'
    return world.open("both.html", *scripts)


def visit(page, path):
    page.evaluate(f"""new Promise((done) => {{ addEventListener("turbo:load", done, {{ once: true }}); Turbo.visit("{path}"); }}).then(() => 0)""")


def streams(world):
    return [one["path"] for one in world.server.asked if one["path"].endswith("/stream")]


@pytest.mark.parametrize("text", [BADGE + INBOX, INBOX + BADGE, BADGE.replace("id=", 'src="/other/stream" id=') + INBOX],
                         ids=["badge first", "inbox first", "whatever its address"])
def test_a_badge_beside_an_inbox_opens_no_stream_of_its_own(world, text):
    page = both(world, text)
    page.wait(f"{TITLES} === 'Second,First' && {text_is('#one', '2')}")
    world.server.tell(3, 21)
    page.wait(text_is("#one", "3"))
    assert streams(world) == ["/notifications/stream"] and len(world.server.requests("/stream_tokens")) == 1
    assert len(world.server.requests("/notifications")) == 1


def test_a_badge_moves_to_the_stream_of_an_inbox_that_comes_later_and_keeps_its_number(world):
    page = both(world, BADGE, COUNTS)
    page.wait(text_is("#one", "2"))
    page.evaluate(f"document.body.insertAdjacentHTML('beforeend', '{INBOX}')")
    page.wait(f"{TITLES} === 'Second,First'")
    world.server.wait_for_streams(1)
    world.server.tell(3, 21)
    page.wait(text_is("#one", "3"))
    assert 0 not in page.evaluate("counts"), page.evaluate("counts")
    assert streams(world) == ["/badge/stream", "/notifications/stream"]


def test_visits_to_pages_without_the_inbox_and_back_keep_the_stream(world):
    page = both(world, BADGE + INBOX, COUNTS)
    page.wait(f"{TITLES} === 'Second,First' && {text_is('#one', '2')}")
    visit(page, "/pages/alone.html")
    page.wait("document.getElementById('alone') && " + text_is("#one", "2"))
    listed(world, "Third", "Second", "First")
    world.server.tell(3, 21)
    page.wait(text_is("#one", "3"))
    visit(page, "/pages/both.html")
    page.wait(f"{TITLES} === 'Third,Second,First'")
    visit(page, "/pages/alone.html")
    page.wait("document.getElementById('alone')")
    listed(world, "Fourth", "Third", "Second", "First")
    page.back()
    page.wait(f"!document.getElementById('alone') && {TITLES} === 'Fourth,Third,Second,First'", what="the list of a page out of Turbo's cache")
    assert streams(world) == ["/notifications/stream"] and len(world.server.requests("/stream_tokens")) == 1
    assert 0 not in page.evaluate("counts")


def test_a_refresh_by_morphing_leaves_the_list_as_it_is(world):
    page = both(world, BADGE + INBOX + '<script src="/pages/morph.js" defer></script>')
    page.wait(f"window.refresh && {TITLES} === 'Second,First' && {text_is('#one', '2')}")
    page.evaluate("window.row = document.getElementById('inbox').shadowRoot.querySelector('[role=listitem]'); refresh()")
    page.evaluate(f"morphBody(printed.replace('{TOKEN}', '{token_of('alice', 2)}'))")
    world.server.tell(3, 21)
    page.wait(text_is("#one", "3"))
    assert page.evaluate(f"row.isConnected && {TITLES}") == "Second,First"
    assert len(world.server.requests("/notifications")) == 1 and streams(world) == ["/notifications/stream"]


def test_a_pages_own_copy_of_the_module_shares_the_stream(world):
    world.server.made["/pages/copy.js"] = (world.server.assets / "campanile-badge.js").read_text(encoding="utf-8")
    copy = '<script type="module" src="/pages/copy.js"></script>'
    world.server.tell(2, 20)
    listed(world, "Second", "First")
    for scripts in (copy + '<script type="module" src="/assets/campanile-inbox.js"></script>',
                    '<script type="module" src="/assets/campanile-inbox.js"></script>' + copy):
        world.server.made["/pages/copied.html"] = f'<!doctype html><title>Shop</title><link rel="icon" href="/pages/icon.svg">{scripts}{BADGE}{INBOX}'
        with world.server.lock:
            world.server.asked.clear()
        page = world.open("copied.html")
        page.wait(f"{TITLES} === 'Second,First' && {text_is('#one', '2')}")
        assert streams(world) == ["/notifications/stream"]
        page.evaluate("document.body.replaceChildren()")
        world.server.wait_for_streams(0)


def test_an_inbox_works_where_trusted_types_are_required(world):
    policy = '<meta http-equiv="Content-Security-Policy" content="require-trusted-types-for &#39;script&#39;; style-src &#39;none&#39;">'
    listed(world, "<b>One</b>")
    world.server.made["/pages/trusted.html"] = BOTH.replace('<script src="/turbo.js" defer></script>', policy) % INBOX
    page = world.open("trusted.html")
    page.wait(f"{TITLES} === '<b>One</b>'")
    styled = "getComputedStyle(document.getElementById('inbox').shadowRoot.querySelector('[role=listitem]')).display"
    assert page.evaluate(styled) == "grid", "its style isn't inline"


@pytest.mark.complaints(PROGRESS_BAR, *REFUSED)
def test_a_list_is_shown_where_the_stream_is_refused(world):
    world.server.stream_status = 503
    listed(world, "One")
    world.server.made["/pages/refused.html"] = BOTH % INBOX
    page = world.open("refused.html")
    page.wait(f"{TITLES} === 'One'")
    listed(world, "Two", "One")
    world.server.stream_status = 200
    page.wait(f"{TITLES} === 'Two,One'", what="the list anew, when there is a stream")


@pytest.mark.complaints(*REFUSED)
def test_the_documented_page_shows_the_list_and_sets_a_refused_token_anew(world):
    listed(world, "One")
    world.server.tell(2, 20)
    world.server.refused.add("USER_TOKEN")
    world.server.made["/campanile_token"] = json.dumps({"token": TOKEN})
    world.server.made["/pages/handler.js"] = documented("js", "When a token is refused", DOCUMENT)
    text = documented("html", "The inbox on your page", DOCUMENT).replace("https://push.example.com", world.server.address)
    world.server.made["/pages/documented.html"] = text.replace(
        "<head>", "<head><link rel='icon' href='/pages/icon.svg'><script src='/pages/handler.js'></script>")
    page = world.open("documented.html")
    page.wait("document.querySelector('campanile-inbox').shadowRoot.querySelector('a')?.textContent === 'One'")
    page.wait(text_is("campanile-badge", "2"))
    assert len(world.server.requests("/campanile_token")) == 1


@pytest.mark.complaints(*REFUSED)
def test_the_documented_slots_take_the_places_of_states(world):
    listed(world)
    slots = documented("html", "Texts", DOCUMENT)
    world.server.made["/pages/slots.html"] = PAGE.replace("campanile-badge", "campanile-inbox") % slots
    page = world.open("slots.html")
    shown = "[...document.querySelectorAll('[slot]')].filter((node) => node.checkVisibility()).map((node) => node.slot).join()"
    page.wait(f"{shown} === 'title,empty'")
    page.evaluate("document.querySelector('campanile-inbox').removeAttribute('token')")
    page.wait(f"{shown} === 'title,signed-out'")
