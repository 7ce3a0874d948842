"""Clients that nobody here wrote, against the streams: Rails' own @rails/actioncable, Turbo 7.1 and EventSource in Chromium, curl -N,
and Python's websockets.

Names are signed by Rails' own MessageVerifier. Debian's packages: ruby-actioncable, ruby-activesupport, chromium, curl.
Turbo comes out of a wheel (examples/web/plain/serve.py); stock_clients/page.js says what of newer versions is made again.
"""
import json
import subprocess
import time

import pytest
import websockets.exceptions

from e2e.contract.stock_world import HERE, WAIT_SECONDS, Cable, Curl, Pages, World, carries, signed
from e2e.harness import serving
from e2e.harness.documents import documented

SIGNING_KEY, SECRET_KEY_BASE = "a signing key that is shared with Rails", "0123456789abcdef" * 8
RECONNECT_SECONDS = 90   # Rails' client notices a dead connection after 6 to 18 s, and tries again later and later
# A browser's words for what a content security policy refuses: a connection, and the icon and Turbo's style of a test's page.
REFUSED_BY_POLICY = ("Content Security Policy", "violates the document's")
TURBO = {"channel": "Turbo::StreamsChannel"}
BADGE_NODE = "document.getElementById('notification-badge-count')"
BADGE = f"{BADGE_NODE}.textContent"

pytestmark = pytest.mark.needs("ruby", "curl", "chromium")


@pytest.fixture(scope="module")
def pages():
    with Pages() as pages:
        yield pages


@pytest.fixture
def world(request, binary, browser, pages):
    """A server each, with the settings of the test's mark."""
    marker = request.node.get_closest_marker("settings")
    with serving(binary, {"CAMPANILE_ALLOWED_ORIGINS": pages.address, **(marker.args[0] if marker else {})}) as server:
        world = World(server, browser, pages)
        yield world
        refused, pages.policy = (REFUSED_BY_POLICY if pages.policy else ()), None
        world.close(refused)


# --- Rails' @rails/actioncable in Chromium

def text_is(*texts):
    return " || ".join(f"{BADGE} === {json.dumps(text)}" for text in texts)


with_key = pytest.mark.settings({"CAMPANILE_CABLE_SIGNED_STREAM_KEY": SIGNING_KEY, "CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true"})
with_secret = pytest.mark.settings({"CAMPANILE_CABLE_SECRET_KEY_BASE": SECRET_KEY_BASE, "CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true"})


def channel(name, **more):
    return json.dumps({**TURBO, "signed_stream_name": name, **more})


def subscribe(world, page, name, variable="one", then="", **more):
    """Subscribes with Rails' client, which asks twice when it does so between the socket's opening and the welcome, or isn't
    confirmed within half a second. So it may be confirmed twice, with the present badge each time, and no test counts that."""
    page.evaluate(f"window.{variable} = subscribe({json.dumps(world.cable)}, {channel(name, **more)}); {then}; void 0")


@with_key
def test_rails_client_shows_the_badge_of_a_signed_name(world):
    page = world.page()
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0])
    page.wait("one.confirmed", what="the confirmation")
    page.wait("one.messages.length", what="the present badge after the confirmation")
    assert page.evaluate("typeof one.messages[0]") == "string"
    world.post("alice")
    page.wait(text_is("1"))
    world.post("bob")
    world.post("alice")
    page.wait(text_is("2"))
    world.read_all("alice")
    page.wait(text_is("", "0"))


@with_key
def test_rails_client_is_right_again_after_a_restart(world):
    page = world.page()
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0])
    world.post("alice")
    page.wait(text_is("1"))
    confirmed = page.evaluate("one.confirmed")
    world.crash_and_notify("alice", "Meanwhile")
    page.wait(text_is("2"), RECONNECT_SECONDS)
    assert page.evaluate("one.confirmed") > confirmed, "Rails' client came back by itself and was confirmed again"
    world.post("alice")
    page.wait(text_is("3"))


@with_key
def test_rails_client_is_right_again_after_an_orderly_restart(world):
    page = world.page()
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0])
    world.post("alice")
    page.wait(text_is("1"))
    world.server.stop()
    world.server.start()
    world.post("alice")
    page.wait(text_is("2"), RECONNECT_SECONDS)


@with_key
def test_rails_client_with_a_forged_name_is_rejected(world):
    page = world.page()
    subscribe(world, page, signed("key", "another key", "notifications:alice")[0])
    page.wait("one.rejected", what="the rejection")
    # The connection lives on, and a good name on it is confirmed.
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0], "two")
    page.wait("two.confirmed")
    world.post("alice")
    page.wait(text_is("1"))
    assert page.evaluate("one.messages.length") == 0


@with_key
def test_rails_client_with_a_name_of_another_kind_is_confirmed_and_hears_nothing(world):
    page = world.page()
    name, own = signed("key", SIGNING_KEY, "Z2lkOi8vYXBwL1Jvb20vMQ:messages", "notifications:alice")
    subscribe(world, page, name)
    page.wait("one.confirmed")
    subscribe(world, page, own, "two")
    world.post("alice")
    page.wait(text_is("1"))
    assert page.evaluate("one.messages.length") == 0


def hears_nothing_more(world, page, name):
    """Unsubscribes `one`, and sees on the socket that the server tells only the others of its stream."""
    subscribe(world, page, name, "two", number=2)
    page.wait("two.confirmed")
    page.evaluate("void one.subscription.unsubscribe()")
    subscribe(world, page, name, "three", number=3)
    page.wait("three.confirmed", what="the confirmation, before which the server has heard all that was said earlier")
    # Rails' client drops what comes for nobody, so it can't tell.
    page.evaluate("""window.told = []; void consumer.connection.webSocket.addEventListener("message", ({ data }) => {
      const { identifier, message } = JSON.parse(data);
      told.push(`${message} ${identifier}`);
    })""")
    # What one notification tells is said to all before what the next one tells.
    for count in (1, 2):
        world.post("alice")
        for other in ("two", "three"):
            page.wait(f"told.some((text) => text.includes('>{count}<') && text.includes({other}.subscription.identifier))")
    assert not page.evaluate("told.some((text) => text.includes(one.subscription.identifier))"), page.evaluate("told")


@with_key
def test_rails_client_unsubscribes(world):
    page = world.page()
    name = signed("key", SIGNING_KEY, "notifications:alice")[0]
    subscribe(world, page, name)
    page.wait("one.confirmed && one.messages.length")
    hears_nothing_more(world, page, name)


@with_key
def test_rails_client_that_asks_twice_unsubscribes_once(world):
    page = world.page()
    alice, bob = signed("key", SIGNING_KEY, "notifications:alice", "notifications:bob")
    subscribe(world, page, bob, "first", then=f"""consumer.connection.webSocket.addEventListener("open", () => {{
      window.one = subscribe(null, {channel(alice)});
    }})""")
    page.wait("one.confirmed >= 2 && one.messages.length")
    hears_nothing_more(world, page, alice)


@with_secret
def test_names_signed_with_a_derived_key_are_taken(world):
    page = world.page()
    subscribe(world, page, signed("secret_key_base", SECRET_KEY_BASE, "notifications:alice")[0])
    page.wait("one.confirmed", what="the confirmation")
    world.post("alice")
    page.wait(text_is("1"))


@with_secret
def test_names_signed_with_a_key_that_an_older_rails_derived_are_taken(world):
    page = world.page()
    subscribe(world, page, signed("older", SECRET_KEY_BASE, "notifications:alice")[0])
    page.wait("one.confirmed", what="the confirmation")
    world.post("alice")
    page.wait(text_is("1"))


@with_key
def test_the_command_signs_as_rails_does(world):
    for name in ("notifications:alice", "Z2lkOi8vYXBwL1VzZXIvMQ:notifications", "ünïcode/é", "R&D <a> \u2028\\\"\t/"):
        assert world.server.command("stream-name", name)[1] == signed("key", SIGNING_KEY, name)[0], name


def test_rails_client_hears_the_users_notifications(world):
    page = world.page()
    url = f"{world.cable}?access_token={world.stream_token('alice')}"
    page.evaluate(f"void (window.one = subscribe({json.dumps(url)}, {{ channel: 'NotificationsChannel' }}))")
    page.wait("one.confirmed", what="the confirmation")
    identifier = world.post("alice", "Über <b>alles</b>")
    found = page.wait("one.messages.find(({ event }) => event === 'notification.created')")
    assert found["data"]["id"] == identifier and found["data"]["title"] == "Über <b>alles</b>", found
    page.wait("one.messages.some(({ event, data }) => event === 'badge' && data.count === 1)")


def test_rails_client_without_a_token_is_turned_away(world):
    page = world.page()
    page.evaluate(f"void (window.one = subscribe({json.dumps(world.cable)}, {{ channel: 'NotificationsChannel' }}))")
    page.wait("one.lost === 1", what="the disconnection")
    assert page.evaluate("one.confirmed === 0 && consumer.connection.monitor.isRunning() === false"), "it must not try again"


# In the place of a documented snippet's imports: Rails' own script, and Turbo's.
IMPORTED = {
    'import { createConsumer } from "@rails/actioncable";': "const { createConsumer } = ActionCable;",
    'import { Turbo } from "@hotwired/turbo-rails";': "",
    '"wss://push.example.com/cable"': "{cable}",
}


@with_key
def test_the_documented_consumer_shows_the_badge_after_every_visit(world):
    snippet = documented("js", "Rails with Turbo")
    for shown, meant in IMPORTED.items():
        assert shown in snippet, f"the snippet has no {shown}"
        snippet = snippet.replace(shown, meant.replace("{cable}", json.dumps(world.cable)))
    alice, bob = signed("key", SIGNING_KEY, "notifications:alice", "notifications:bob")
    page = world.page()
    page.evaluate(f"visit('{alice}')")
    page.evaluate(f"(() => {{ {snippet} }})()")
    page.wait(text_is("0"), what="the present badge")
    world.post("alice")
    page.wait(text_is("1"))
    page.evaluate(f"visit('{alice}')")
    page.wait(text_is("1"), what="the number on the page of a visit, of which the server says nothing")
    world.post("alice")
    page.wait(text_is("2"))
    # Somebody else signed in without a page being loaded: the number before is nobody's business.
    page.evaluate("void (rendered.length = 0)")
    assert page.evaluate(f"visit('{bob}')") == ""
    page.wait(text_is("0"))
    world.post("alice")
    world.post("bob")
    page.wait(text_is("1"))
    assert not page.evaluate("rendered.some((message) => /[23]</.test(message))"), page.evaluate("rendered")
    # And nobody is signed in.
    page.evaluate("void (rendered.length = 0)")
    assert page.evaluate("visit('')") == ""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => 0)")
    assert page.evaluate(f"{BADGE} === '' && rendered.length === 0")


# --- Turbo in Chromium, with turbo-rails' element for the cable

VISIT = """new Promise((done) => {{ addEventListener("turbo:load", done, {{ once: true }}); Turbo.visit("{}"); }}).then(() => 0)"""


def layout(world, user, signed_name, printed):
    """The documented layout as turbo-rails renders it, around the test's own head."""
    text = (HERE / "stock_clients/page.html").read_text(encoding="utf-8")
    address = f'<meta name="action-cable-url" content="{world.cable}">'
    source = f'<turbo-cable-stream-source channel="Turbo::StreamsChannel" signed-stream-name="{signed_name}"></turbo-cable-stream-source>'
    body = f'<div id="badge-{user}" data-turbo-permanent>{source}<span id="notification-badge-count">{printed}</span></div>'
    return text.replace("</head>", f"{address}</head>").replace('<span id="notification-badge-count"></span>', body)


@with_key
def test_the_documented_layout_keeps_its_number_over_visits_and_belongs_to_its_user(world, pages):
    alice, bob = signed("key", SIGNING_KEY, "notifications:alice", "notifications:bob")
    world.post("alice")
    pages.made.update({"/alice.html": layout(world, "alice", alice, "1"), "/bob.html": layout(world, "bob", bob, "0")})
    page = world.page("/alice.html")
    page.wait("rendered.length >= 1", what="the present badge of the first page")
    world.post("alice")
    page.wait(text_is("2"))
    page.evaluate(f"void (window.kept = {BADGE_NODE})")
    for number in (1, 2):
        page.evaluate("void (rendered.length = 0)")
        page.evaluate(VISIT.format(f"/alice.html?visit={number}"))
        assert page.evaluate(f"kept === {BADGE_NODE} && {text_is('2')}"), "Turbo kept the element, and no older number is shown"
        page.wait("rendered.length >= 1", what="the present badge of a visit")
        assert page.evaluate(text_is("2"))
    page.evaluate("void (rendered.length = 0)")
    page.evaluate(VISIT.format("/bob.html"))
    assert page.evaluate(f"kept !== {BADGE_NODE} && {text_is('0')}")
    world.post("alice")
    world.post("bob")
    page.wait(text_is("1"))
    assert not page.evaluate("rendered.some((message) => /[23]</.test(message))"), page.evaluate("rendered")


# --- pages with a content security policy

def hears(page, world):
    """(whether the cable, whether the stream is let through by the page's policy)."""
    page.evaluate("""window.refused = [];
      document.addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI }) => refused.push([effectiveDirective, blockedURI]))""")
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0])
    url = f"{world.address}/badge/stream?access_token={world.stream_token('alice')}"
    page.evaluate(f"void (window.two = listen({json.dumps(url)}, 'badge'))")
    connections = "refused.filter(([directive]) => directive === 'connect-src').map(([, address]) => new URL(address).protocol)"
    page.wait(f"(one.confirmed > 0) + (two.opened > 0) + new Set({connections}).size === 2", what="both to be open or refused")
    return page.evaluate("[one.confirmed > 0, two.opened > 0]")


@with_key
@pytest.mark.parametrize(("without", "expected"), [
    ("", [True, True]), ("wss://push.example.com", [False, True]), ("https://push.example.com wss://push.example.com", [False, False]),
], ids=["documented", "the origin alone", "self alone"])
def test_the_documented_policy_lets_cable_and_stream_through_and_less_does_not(world, pages, without, expected):
    header = documented("text", "Content security policy").strip().removeprefix("Content-Security-Policy: ")
    assert without in header
    policy = header.replace(without, "") if without else header
    pages.policy = policy.replace("https://push.example.com", world.address).replace("wss://push.example.com", world.address.replace("http", "ws"))
    assert hears(world.page(), world) == expected


# --- EventSource in Chromium

def test_event_source_hears_the_badge(world):
    page = world.page()
    url = f"{world.address}/badge/stream?access_token={world.stream_token('alice')}"
    page.evaluate(f"void (window.one = listen({json.dumps(url)}, 'badge'))")
    page.wait("one.events.length === 1 && one.events[0].data.count === 0", what="the present badge")
    world.post("alice")
    last = page.wait("one.events.findLast(({ data }) => data.count === 1)")
    assert last["lastEventId"] == str(last["data"]["version"]), last
    world.read_all("alice")
    page.wait("one.events.at(-1).data.count === 0")


def test_event_source_resumes_by_itself_after_a_restart(world):
    page = world.page()
    url = f"{world.address}/notifications/stream?access_token={world.token('alice')}"
    page.evaluate(f"void (window.one = listen({json.dumps(url)}, 'notification.created', 'reset', 'badge'))")
    page.wait("one.opened === 1")
    world.post("alice", "Before")
    page.wait("one.events.some(({ type }) => type === 'notification.created')")
    world.crash_and_notify("alice", "Meanwhile", "Still meanwhile")
    created = "one.events.filter(({ type }) => type === 'notification.created')"
    page.wait(f"{created}.length >= 3", RECONNECT_SECONDS)
    world.post("alice", "After")
    page.wait(f"{created}.length >= 4")
    titles = page.evaluate(f"{created}.map(({{ data }}) => data.title)")
    assert titles == ["Before", "Meanwhile", "Still meanwhile", "After"], titles
    assert not page.evaluate("one.events.some(({ type }) => type === 'reset')")


def test_turbo_stream_source_shows_the_badge(world):
    page = world.page()
    url = f"{world.address}/badge/stream?format=turbo_stream&access_token={world.stream_token('alice')}"
    page.evaluate(f"""void document.body.insertAdjacentHTML("beforeend", `<turbo-stream-source src="{url}"></turbo-stream-source>`)""")
    page.wait("heard.length === 1", what="the present badge")
    world.post("alice")
    page.wait(text_is("1"))
    world.crash_and_notify("alice", "Meanwhile")
    page.wait(text_is("2"), RECONNECT_SECONDS)


# --- curl

def test_curl_hears_the_badge(world):
    with Curl("-H", f"Authorization: Bearer {world.token('alice')}", f"{world.address}/badge/stream") as curl:
        name, identifier, data = curl.event()
        assert name == "badge" and json.loads(data)["count"] == 0, (name, data)
        world.post("alice")
        name, identifier, data = curl.event()
        told = json.loads(data)
        assert (told["count"], told["unread_count"], str(told["version"])) == (1, 1, identifier), (identifier, data)


def test_curl_resumes_where_it_left_off(world):
    wanted = ["-H", f"Authorization: Bearer {world.token('alice')}", f"{world.address}/notifications/stream"]
    with Curl(*wanted) as curl:
        curl.event()
        first = world.post("alice", "First")
        last, data = curl.until("notification.created")
        assert data["id"] == first
    missed = [world.post("alice", f"Missed {number}") for number in range(3)]
    with Curl("-H", f"Last-Event-ID: {last}", *wanted) as curl:
        assert [curl.until("notification.created")[1]["id"] for _ in missed] == missed
        live = world.post("alice", "Live")
        assert curl.until("notification.created")[1]["id"] == live


def test_curl_is_refused_without_a_token(world):
    done = subprocess.run(["curl", "-N", "--silent", "-o", "/dev/null", "-w", "%{http_code} %{content_type}", f"{world.address}/badge/stream"],
                          capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.stdout == "401 application/problem+json", done.stdout


# --- Python's websockets

def test_websockets_speaks_action_cable(world):
    # Written in a way that no encoder would, to see that it comes back to the byte.
    identifier = '{ "channel" : "NotificationsChannel",  "note":"\\u00fc" }'
    with Cable(world, "alice") as cable:
        assert cable.socket.subprotocol == "actioncable-v1-json"
        assert cable.receive() == {"type": "welcome"}
        cable.send(command="subscribe", identifier=identifier)
        confirmed = cable.until(lambda message: message.get("type") == "confirm_subscription")
        assert confirmed["identifier"] == identifier, confirmed
        assert cable.until(carries("badge"))["message"]["data"]["count"] == 0
        posted = world.post("alice")
        created = cable.until(carries("notification.created"))
        assert created["identifier"] == identifier and created["message"]["data"]["id"] == posted, created
        ping = cable.until(lambda message: message.get("type") == "ping")
        assert abs(ping["message"] - time.time()) < 60, ping


def test_websockets_pings_are_answered_and_closing_is_orderly(world):
    with Cable(world, "alice") as cable:
        cable.until(lambda message: message.get("type") == "welcome")
        cable.ping(b"how are you")
        cable.close(1000, "enough")
        assert cable.socket.close_code == 1000, cable.socket.close_code


def test_websockets_is_told_of_a_restart(world):
    with Cable(world, "alice") as cable:
        cable.until(lambda message: message.get("type") == "welcome")
        world.server.stop()
        assert cable.until(lambda message: message.get("type") == "disconnect") == {
            "type": "disconnect", "reason": "server_restart", "reconnect": True}
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            cable.receive()
    world.server.start()
