"""Tests: campanile-cable.js, the element that turbo_stream_from writes, with Turbo and a real server that is also killed: an app's own streams
and the badge's, over visits, morphs and cuts. `--renders 1000` is the long form, `--turbo FILE` tries another Turbo."""
import json
import pathlib
import threading

import pytest

from e2e.browser.cable_app import BADGE, BROKEN, HALL, ROOM, SIGNING_KEY, App, running
from e2e.harness import free_port, serving
from e2e.harness.chromium import BrowserError
from e2e.harness.hotwire import turbo_file

KEPT = 20   # of a stream's broadcasts
BACK_SECONDS = 60   # until an element is back that tried for long
# What makes the element wrong, and must be seen.
FORGETS = ("this.place = next;", "")
TRUSTS = ("if (!asked.get(identifier)) wanted", "wanted")


@pytest.fixture(scope="module")
def kept_app(request, binary, browser):
    port = free_port()
    settings = {
        "CAMPANILE_ALLOWED_ORIGINS": f"http://127.0.0.1:{port}", "CAMPANILE_CABLE_SIGNED_STREAM_KEY": SIGNING_KEY,
        "CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true", "CAMPANILE_CABLE_STREAM_NAME": "notifications:{user_id}",
        "CAMPANILE_BROADCASTS_PER_STREAM": str(KEPT)}
    element = pathlib.Path(request.config.getoption("assets"), "campanile-cable.js")
    turbo = request.config.getoption("turbo")
    with serving(binary, settings) as campanile:
        with running(App(campanile, browser, port, element, pathlib.Path(turbo) if turbo else turbo_file())) as app:
            yield app


@pytest.fixture
def app(kept_app, complaints):
    kept_app.restore()
    yield kept_app
    kept_app.close(complaints)


# Speaks Rails' own protocol only, as an older server does.
PLAIN = "window.WebSocket = class extends WebSocket { constructor(url) { super(url, 'actioncable-v1-json'); } };"
# As Rails does that takes a subscribe before the unsubscribe which was sent before it: it passes over the one, and then does the other.
OVERTAKEN = """window.overtaken = 0;
  window.WebSocket = class extends WebSocket {
    constructor(url) { super(url, 'actioncable-v1-json'); }
    send(text) {
      if (text.includes('"subscribe"') && this.last?.includes('"unsubscribe"')) overtaken += 1;
      else super.send(text);
      this.last = text;
    }
  };"""
# Keeps back what `late` says until the page subscribes again: then it is still on its way.
LATE = """window.late = () => false;
  window.WebSocket = class extends WebSocket {
    kept = [];
    set onmessage(hear) { super.onmessage = hear && ((event) => late(event.data) ? this.kept.push(() => hear(event)) : hear(event)); }
    send(text) {
      super.send(text);
      if (!text.includes('"subscribe"')) return;
      late = () => false;
      this.kept.splice(0).forEach((one) => setTimeout(one));
    }
  };"""


def misses(app, page, **more):
    """A control: that the page lacks something is seen."""
    with pytest.raises(BrowserError, match="misses something"):
        app.check(page, 2, **more)


def refresh(app, page):
    """A page refresh by morphing: Turbo 8's own, or for 7.1 an imitation."""
    if page.evaluate("Boolean(Turbo.session.refresh)"):
        page.evaluate("""new Promise((done) => {
          addEventListener("turbo:morph", () => setTimeout(done), { once: true });
          Turbo.session.refresh(document.baseURI);
        })""")
    else:
        page.evaluate("""(async () => {
          if (!window.morphBody) await import("/morph.js");
          const text = await (await fetch(location)).text();
          window.heard = [];
          morphBody(new DOMParser().parseFromString(text, "text/html").body.innerHTML);
        })()""")


def cut(app):
    """Every connection of the pages breaks, and what is posted meanwhile passes them by."""
    app.campanile.kill()
    posting = threading.Thread(target=app.post, args=(ROOM, HALL))
    posting.start()
    app.campanile.start()
    posting.join()


def cut_and_look(app, page, is_spoilt, meanwhile=lambda: None):
    """Cuts a page off until something was posted: it comes back whole, or with a spoilt element misses that, which is seen.

    `meanwhile` is called while there is no Campanile, and the page still reaches its app.
    """
    app.campanile.kill()
    page.wait("sources().every((one) => !one.hasAttribute('connected'))", what="its sources to notice it")
    meanwhile()
    # A page that is back before the post has nothing to miss.
    page.offline(True)
    app.campanile.start()
    app.post(ROOM, HALL)
    assert not page.evaluate("isLive()")
    page.offline(False)
    page.wait("isLive()", BACK_SECONDS)
    if is_spoilt:
        misses(app, page)
    else:
        app.check(page)


def test_pages_miss_nothing_while_they_are_made(request, app):
    app.posts_in_gaps = True
    page = app.open()
    for number in range(request.config.getoption("renders")):
        if number % 10 == 9:
            page.go(f"{app.address}/one")
        else:
            app.visit(page, ("/one", "/two")[number % 2 == 0])
        app.check(page)
    page.wait(app.notify())


def test_a_page_without_a_position_misses_something(app):
    app.has_position, app.posts_in_gaps = False, True
    misses(app, app.open())


@pytest.mark.complaints(*BROKEN)
def test_two_tabs_get_what_passed_while_the_server_was_killed(app):
    pages = [app.open("/one"), app.open("/two")]
    app.post(ROOM, HALL)
    for page in pages:
        app.check(page)
    cut(app)
    app.post(ROOM, HALL)
    is_told = app.notify()
    for page in pages:
        app.check(page, BACK_SECONDS)
        page.wait(f"isLive() && {is_told}")


@pytest.mark.complaints(*BROKEN)
def test_an_element_that_forgets_what_it_had_gets_it_twice(app):
    app.spoil(*FORGETS)
    page = app.open()
    app.post(ROOM, HALL)
    app.check(page)
    cut(app)
    page.wait("isLive()", BACK_SECONDS)
    with pytest.raises(AssertionError, match="came twice"):
        app.check(page)


@pytest.mark.complaints(*BROKEN)
def test_a_page_gets_what_passed_while_it_was_offline(app):
    page = app.open()
    page.offline(True)
    app.post(ROOM, HALL)
    # A browser that is offline may keep its socket: the element notices that pings are missing.
    page.wait("sources().every((one) => !one.hasAttribute('connected'))")
    app.post(ROOM, HALL)
    assert page.evaluate("shown('room')") == [1]
    page.offline(False)
    app.check(page)


def test_a_morph_keeps_what_is_shown_and_misses_nothing(app):
    app.posts_in_gaps = True
    page = app.open()
    for _ in range(5):
        app.check(page)
        refresh(app, page)
        page.wait("isLive()")
    app.check(page)
    # What came between the making of the page and the morph isn't in it, and was shown before.
    app.posts_in_gaps = False

    def passes():
        app.post(ROOM, HALL)
        app.check(page)
    app.after_view = passes
    refresh(app, page)
    app.after_view = lambda: None
    app.check(page)
    app.post(ROOM)
    app.check(page)
    is_told = app.notify()
    page.wait(is_told)
    refresh(app, page)
    page.wait(is_told, what="the badge, which the page that was made doesn't have")


def test_a_morph_that_an_element_doesnt_notice_misses_something(app):
    app.spoil("value !== this.marked", "value !== this.marked && !this.identifier")
    page = app.open()

    def passes():
        app.post(ROOM, HALL)
        app.check(page)
    app.after_view = passes
    refresh(app, page)
    app.after_view = lambda: None
    misses(app, page)


def goes_and_comes_back(app, page):
    app.post(ROOM, HALL)
    app.check(page)
    app.visit(page, "/two")
    app.post(ROOM, HALL)
    app.check(page)
    app.post(ROOM, HALL)
    page.evaluate("void (window.before = document.body)")
    page.back()
    page.wait("document.body !== before && isLive() && location.pathname === '/one'")


def test_a_page_out_of_turbos_cache_gets_what_passed_meanwhile(app):
    page = app.open()
    goes_and_comes_back(app, page)
    app.check(page)


def visits_amid_late_messages(app):
    """A page that is left while a message of its subscription is still on its way: that comes when the next page has subscribed."""
    page = app.open("/one", LATE)

    def passes():
        page.evaluate("window.late = (text) => text.includes('room-3')")
        app.post(ROOM)
        app.check(page, streams=[ROOM])
        app.post(ROOM)
    app.after_view = passes
    app.visit(page, "/two")
    return page


def test_a_message_of_an_earlier_subscription_moves_no_place(app):
    """It passes what lies between, which the page that is left was shown."""
    app.check(visits_amid_late_messages(app))


def test_an_element_that_takes_it_for_its_own_misses_something(app):
    app.spoil(*TRUSTS)
    misses(app, visits_amid_late_messages(app))


def test_a_page_that_cant_be_brought_up_to_date_is_told_and_then_is(app):
    page = app.open()
    page.evaluate("""addEventListener("campanile:missed", () => Turbo.visit(location.href, { action: "replace" }), { once: true })""")
    app.fixed_position = app.position()
    for _ in range(KEPT + 2):
        app.post(ROOM, HALL)
    app.check(page)
    # Another page, which is printed at a place that is gone: once it is told, and then hears what comes.
    app.visit(page, "/two")
    page.wait("missed > 0", what="to be told")
    told = page.evaluate("missed")
    app.post(ROOM, HALL)
    app.check(page)
    assert page.evaluate("missed") == told <= 2, "once for each stream, and not again for the same place"


@pytest.mark.complaints(*BROKEN)
@pytest.mark.parametrize("fault", [None, ("this.mark((this.place = this.begun));", "this.place = null;")])
def test_a_page_that_was_told_goes_on_from_there(app, fault):
    page = told(app, fault)
    cut_and_look(app, page, fault)


@pytest.mark.complaints(*BROKEN)
@pytest.mark.parametrize("fault", [None, (": place;", ": null;")])
def test_a_page_that_was_told_goes_on_from_there_after_a_morph_with_the_same_place(app, fault):
    page = told(app, fault)
    refresh(app, page)
    # The second morph comes while no server can tell the page another place.
    cut_and_look(app, page, fault, lambda: refresh(app, page))


def told(app, fault):
    """A page that is kept as a whole, with a place that is gone, and has been told so; with a fault in the element, or None."""
    if fault:
        app.spoil(*fault)
    app.fixed_position = app.position()
    for _ in range(KEPT + 2):
        app.post(ROOM, HALL)
    page = app.open("/one")
    page.wait("missed === 2 && isLive()", what="to be told of both")
    return page


def test_without_the_extended_protocol_it_hears_what_comes(app):
    page = app.open("/one", PLAIN)
    app.post(ROOM, HALL)
    app.check(page)
    app.visit(page, "/two")
    app.post(ROOM, HALL)
    app.check(page)
    app.posts_in_gaps = True
    app.visit(page, "/one")
    misses(app, page)


def test_a_subscribe_that_rails_passed_over_is_sent_again(app):
    page = app.open("/one", OVERTAKEN)
    app.visit(page, "/two")
    assert page.evaluate("overtaken") == len(app.streams)
    app.post(ROOM, HALL)
    app.check(page)


def test_elements_that_move_or_share_a_stream_hear_each_message_once(app):
    app.streams = [BADGE, ROOM, HALL, ROOM]
    page = app.open()
    page.evaluate("void document.body.append(sources()[1])")
    app.post(ROOM, HALL)
    page.wait("isLive() && isWhole('room', 2) && isWhole('hall', 2)")
    assert page.evaluate("heard.filter((one) => one === 'room-2').length") == 2, "each of the two"
    assert page.evaluate("heard.filter((one) => one === 'hall-2').length") == 1
    page.evaluate("sources().find((one) => one.stream === 'room:1').remove()")
    app.post(ROOM)
    page.wait("isWhole('room', 3)")
    assert page.evaluate("heard.filter((one) => one === 'room-3').length") == 1


def test_a_permanent_source_goes_on_with_its_list(app):
    def wrap(stream, source, listed):
        return ("", f'<div id="kept" data-turbo-permanent>{source}{listed}</div>') if stream == ROOM else (source, listed)
    app.wrap, app.posts_in_gaps = wrap, True
    page = app.open()
    for path in ("/two", "/one", "/two"):
        app.check(page)
        app.visit(page, path)
    app.check(page)


def test_a_name_that_isnt_signed_is_not_connected_and_keeps_nobody_else_from_it(app):
    page = app.open()
    page.evaluate("""(() => { const forged = sources()[1].cloneNode();
      forged.setAttribute("signed-stream-name", forged.getAttribute("signed-stream-name").replace(/.$/, (last) => last === "0" ? "1" : "0"));
      forged.id = "forged";
      document.body.append(forged); })()""")
    app.post(ROOM)
    app.check(page)
    assert page.evaluate("[forged.hasAttribute('connected'), sources()[1].hasAttribute('connected')]") == [False, True]
    # With a right name it is.
    page.evaluate("forged.setAttribute('signed-stream-name', sources()[2].getAttribute('signed-stream-name'))")
    page.wait("forged.hasAttribute('connected')")


def test_the_element_is_defined_first_and_keeps_what_turbo_rails_has(app):
    page = app.open()
    page.evaluate("""(() => { const one = sources()[1].cloneNode(); one.dataset.roomName = "x"; one.id = "other"; document.body.append(one); })()""")
    page.wait("other.hasAttribute('connected')")
    identifier = json.loads(page.evaluate("other.identifier"))
    name = page.evaluate("other.getAttribute('signed-stream-name')")
    assert identifier == {"channel": "Turbo::StreamsChannel", "signed_stream_name": name, "room_name": "x"}


@pytest.mark.complaints(*BROKEN)
@pytest.mark.parametrize("is_spoilt", [False, True])
def test_a_page_without_a_position_goes_on_from_its_first_confirmation(app, is_spoilt):
    if is_spoilt:
        app.spoil("place || this.mark((this.place = next));", "")
    app.post(ROOM, HALL)
    app.has_position = False
    page = app.open("/one")
    cut_and_look(app, page, is_spoilt)


def test_a_page_that_has_another_element_already_says_so(app):
    page = app.browser.page()
    app.pages.append(page)
    page.before_load("""customElements.define("turbo-cable-stream-source", class extends HTMLElement {});
      window.said = "";
      console.warn = (...words) => { said += words.join(" "); };""")
    page.go(f"{app.address}/one")
    page.wait("said.includes('turbo-cable-stream-source is taken')")


def test_the_element_is_as_small_as_promised(app):
    assert app.element.stat().st_size <= 6144
