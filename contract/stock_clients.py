"""Clients that nobody here wrote, against the streams: Rails' own @rails/actioncable and EventSource in Chromium, curl -N,
and Python's websockets.

Names are signed by Rails' own MessageVerifier. Debian's packages: ruby-actioncable, ruby-activesupport, chromium, curl.
Turbo's JavaScript isn't in Debian: what it documents of <turbo-stream-source> and of the action `update` is made again in
stock_clients/page.js.

Prints a line a test and "N passed, N failed"; exit code 1 if anything failed.
"""
import argparse
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
try:
    import websockets.exceptions

    from harness import HarnessError, temporary_folder
    from harness.chromium import Browser, BrowserError
    from harness.documents import documented
    from stock_world import WAIT_SECONDS, Cable, Curl, Pages, World, carries, signed
except ImportError as error:
    sys.exit(f"stock_clients.py: {error}: run it with $({HERE}/venv.sh)")

SIGNING_KEY, SECRET_KEY_BASE = "a signing key that is shared with Rails", "0123456789abcdef" * 8
RECONNECT_SECONDS = 90   # Rails' client notices a dead connection after 6 to 18 s, and tries again later and later
TURBO = {"channel": "Turbo::StreamsChannel"}
BADGE = "document.getElementById('notification-badge-count').textContent"

TESTS = []


def test(function):
    TESTS.append(function)
    return function


# --- Rails' @rails/actioncable in Chromium

def text_is(*texts):
    return " || ".join(f"{BADGE} === {json.dumps(text)}" for text in texts)


WITH_KEY = {"CAMPANILE_CABLE_SIGNED_STREAM_KEY": SIGNING_KEY, "CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true"}
WITH_SECRET = {"CAMPANILE_CABLE_SECRET_KEY_BASE": SECRET_KEY_BASE, "CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true"}


def subscribe(world, page, name, variable="one"):
    channel = json.dumps({**TURBO, "signed_stream_name": name})
    page.evaluate(f"void (window.{variable} = subscribe({json.dumps(world.cable)}, {channel}))")


@test
def rails_client_shows_the_badge_of_a_signed_name(world, settings=WITH_KEY):
    page = world.page()
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0])
    page.wait("one.confirmed === 1", what="the confirmation")
    page.wait("one.messages.length === 1", what="the present badge after the confirmation")
    assert page.evaluate("typeof one.messages[0]") == "string"
    world.post("alice")
    page.wait(text_is("1"))
    world.post("bob")
    world.post("alice")
    page.wait(text_is("2"))
    world.read_all("alice")
    page.wait(text_is("", "0"))


@test
def rails_client_is_right_again_after_a_restart(world, settings=WITH_KEY):
    page = world.page()
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0])
    world.post("alice")
    page.wait(text_is("1"))
    world.crash_and_notify("alice", "Meanwhile")
    page.wait(text_is("2"), RECONNECT_SECONDS)
    assert page.evaluate("one.confirmed") == 2, "Rails' client came back by itself and was confirmed again"
    world.post("alice")
    page.wait(text_is("3"))


@test
def rails_client_is_right_again_after_an_orderly_restart(world, settings=WITH_KEY):
    page = world.page()
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0])
    world.post("alice")
    page.wait(text_is("1"))
    world.server.stop()
    world.server.start()
    world.post("alice")
    page.wait(text_is("2"), RECONNECT_SECONDS)


@test
def rails_client_with_a_forged_name_is_rejected(world, settings=WITH_KEY):
    page = world.page()
    subscribe(world, page, signed("key", "another key", "notifications:alice")[0])
    page.wait("one.rejected", what="the rejection")
    # The connection lives on, and a good name on it is confirmed.
    subscribe(world, page, signed("key", SIGNING_KEY, "notifications:alice")[0], "two")
    page.wait("two.confirmed === 1")
    world.post("alice")
    page.wait(text_is("1"))
    assert page.evaluate("one.messages.length") == 0


@test
def rails_client_with_a_name_of_another_kind_is_confirmed_and_hears_nothing(world, settings=WITH_KEY):
    page = world.page()
    name, own = signed("key", SIGNING_KEY, "Z2lkOi8vYXBwL1Jvb20vMQ:messages", "notifications:alice")
    subscribe(world, page, name)
    page.wait("one.confirmed === 1")
    subscribe(world, page, own, "two")
    world.post("alice")
    page.wait(text_is("1"))
    assert page.evaluate("one.messages.length") == 0


@test
def rails_client_unsubscribes(world, settings=WITH_KEY):
    page = world.page()
    first, second = signed("key", SIGNING_KEY, "notifications:alice", "notifications:bob")
    subscribe(world, page, first)
    subscribe(world, page, second, "two")
    page.wait("one.messages.length === 1 && two.messages.length === 1")
    page.evaluate("void one.subscription.unsubscribe()")
    world.post("bob")
    page.wait("two.messages.length === 2")
    world.post("alice")
    world.post("bob")
    page.wait("two.messages.length === 3")
    assert page.evaluate("one.messages.length") == 1


@test
def names_signed_with_a_derived_key_are_taken(world, settings=WITH_SECRET):
    page = world.page()
    subscribe(world, page, signed("secret_key_base", SECRET_KEY_BASE, "notifications:alice")[0])
    page.wait("one.confirmed === 1", what="the confirmation")
    world.post("alice")
    page.wait(text_is("1"))


@test
def names_signed_with_a_key_that_an_older_rails_derived_are_taken(world, settings=WITH_SECRET):
    page = world.page()
    subscribe(world, page, signed("older", SECRET_KEY_BASE, "notifications:alice")[0])
    page.wait("one.confirmed === 1", what="the confirmation")
    world.post("alice")
    page.wait(text_is("1"))


@test
def the_command_signs_as_rails_does(world, settings=WITH_KEY):
    for name in ("notifications:alice", "Z2lkOi8vYXBwL1VzZXIvMQ:notifications", "ünïcode/é"):
        assert world.server.command("stream-name", name)[1] == signed("key", SIGNING_KEY, name)[0], name


@test
def rails_client_hears_the_users_notifications(world, settings={}):
    page = world.page()
    url = f"{world.cable}?access_token={world.stream_token('alice')}"
    page.evaluate(f"void (window.one = subscribe({json.dumps(url)}, {{ channel: 'NotificationsChannel' }}))")
    page.wait("one.confirmed === 1", what="the confirmation")
    identifier = world.post("alice", "Über <b>alles</b>")
    found = page.wait("one.messages.find(({ event }) => event === 'notification.created')")
    assert found["data"]["id"] == identifier and found["data"]["title"] == "Über <b>alles</b>", found
    page.wait("one.messages.some(({ event, data }) => event === 'badge' && data.count === 1)")


@test
def rails_client_without_a_token_is_turned_away(world, settings={}):
    page = world.page()
    page.evaluate(f"void (window.one = subscribe({json.dumps(world.cable)}, {{ channel: 'NotificationsChannel' }}))")
    page.wait("one.lost === 1", what="the disconnection")
    assert page.evaluate("one.confirmed === 0 && consumer.connection.monitor.isRunning() === false"), "it must not try again"


# What stands for the imports of a documented snippet: Rails' own script, and what Turbo does with a message.
IMPORTED = {
    'import { createConsumer } from "@rails/actioncable";': "const { createConsumer } = ActionCable;",
    'import { Turbo } from "@hotwired/turbo-rails";':
        "const Turbo = { renderStreamMessage(message) { rendered.push(message); renderStream(message); } };",
    '"wss://push.example.com/cable"': "{cable}",
}


@test
def the_documented_consumer_shows_the_badge_after_every_visit(world, settings=WITH_KEY):
    snippet = documented("js", "Rails with Turbo")
    for shown, meant in IMPORTED.items():
        assert shown in snippet, f"the snippet has no {shown}"
        snippet = snippet.replace(shown, meant.replace("{cable}", json.dumps(world.cable)))
    alice, bob = signed("key", SIGNING_KEY, "notifications:alice", "notifications:bob")
    page = world.page()
    page.evaluate(f"visit('{alice}')")
    page.evaluate(f"window.rendered = []; (() => {{ {snippet} }})()")
    page.wait(text_is("0"), what="the present badge")
    world.post("alice")
    page.wait(text_is("1"))
    assert page.evaluate(f"visit('{alice}')") == "1", "the page of a visit shows the number at once"
    world.post("alice")
    page.wait(text_is("2"))
    # Somebody else signed in without a page being loaded: the number before is nobody's business.
    assert page.evaluate(f"rendered.length = 0, visit('{bob}')") == ""
    page.wait(text_is("0"))
    world.post("alice")
    world.post("bob")
    page.wait(text_is("1"))
    assert not page.evaluate("rendered.some((message) => /[23]</.test(message))"), page.evaluate("rendered")
    # And nobody is signed in.
    assert page.evaluate("visit('')") == ""


# --- EventSource in Chromium

@test
def event_source_hears_the_badge(world, settings={}):
    page = world.page()
    url = f"{world.address}/badge/stream?access_token={world.stream_token('alice')}"
    page.evaluate(f"void (window.one = listen({json.dumps(url)}, 'badge'))")
    page.wait("one.events.length === 1 && one.events[0].data.count === 0", what="the present badge")
    world.post("alice")
    last = page.wait("one.events.findLast(({ data }) => data.count === 1)")
    assert last["lastEventId"] == str(last["data"]["version"]), last
    world.read_all("alice")
    page.wait("one.events.at(-1).data.count === 0")


@test
def event_source_resumes_by_itself_after_a_restart(world, settings={}):
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


@test
def turbo_stream_source_shows_the_badge(world, settings={}):
    page = world.page()
    url = f"{world.address}/badge/stream?format=turbo_stream&access_token={world.stream_token('alice')}"
    page.evaluate(f"""void document.body.insertAdjacentHTML("beforeend", `<turbo-stream-source src="{url}"></turbo-stream-source>`)""")
    page.wait("heard.length === 1", what="the present badge")
    world.post("alice")
    page.wait(text_is("1"))
    world.crash_and_notify("alice", "Meanwhile")
    page.wait(text_is("2"), RECONNECT_SECONDS)


# --- curl

@test
def curl_hears_the_badge(world, settings={}):
    with Curl("-H", f"Authorization: Bearer {world.token('alice')}", f"{world.address}/badge/stream") as curl:
        name, identifier, data = curl.event()
        assert name == "badge" and json.loads(data)["count"] == 0, (name, data)
        world.post("alice")
        name, identifier, data = curl.event()
        told = json.loads(data)
        assert (told["count"], told["unread_count"], str(told["version"])) == (1, 1, identifier), (identifier, data)


@test
def curl_resumes_where_it_left_off(world, settings={}):
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


@test
def curl_is_refused_without_a_token(world, settings={}):
    done = subprocess.run(["curl", "-N", "--silent", "-o", "/dev/null", "-w", "%{http_code} %{content_type}", f"{world.address}/badge/stream"],
                          capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.stdout == "401 application/problem+json", done.stdout


# --- Python's websockets

@test
def websockets_speaks_action_cable(world, settings={}):
    # Written in a way that no encoder would, to see that it comes back to the byte.
    identifier = '{ "channel" : "NotificationsChannel",  "note":"\\u00fc" }'
    with Cable(world, "alice") as cable:
        assert cable.socket.subprotocol == "actioncable-v1-json"
        assert json.loads(cable.socket.recv(timeout=WAIT_SECONDS)) == {"type": "welcome"}
        cable.send(command="subscribe", identifier=identifier)
        confirmed = cable.until(lambda message: message.get("type") == "confirm_subscription")
        assert confirmed["identifier"] == identifier, confirmed
        assert cable.until(carries("badge"))["message"]["data"]["count"] == 0
        posted = world.post("alice")
        created = cable.until(carries("notification.created"))
        assert created["identifier"] == identifier and created["message"]["data"]["id"] == posted, created
        ping = cable.until(lambda message: message.get("type") == "ping")
        assert abs(ping["message"] - time.time()) < 60, ping


@test
def websockets_pings_are_answered_and_closing_is_orderly(world, settings={}):
    with Cable(world, "alice") as cable:
        cable.until(lambda message: message.get("type") == "welcome")
        assert cable.socket.ping(b"how are you").wait(WAIT_SECONDS), "no pong"
        cable.socket.close(1000, "enough")
        assert cable.socket.close_code == 1000, cable.socket.close_code


@test
def websockets_is_told_of_a_restart(world, settings={}):
    with Cable(world, "alice") as cable:
        cable.until(lambda message: message.get("type") == "welcome")
        world.server.stop()
        assert cable.until(lambda message: message.get("type") == "disconnect") == {
            "type": "disconnect", "reason": "server_restart", "reconnect": True}
        try:
            cable.socket.recv(timeout=WAIT_SECONDS)
            raise AssertionError("nothing may come after the disconnection")
        except websockets.exceptions.ConnectionClosed:
            pass
    world.server.start()


# --- the frame

def run_all(options):
    chosen = [one for one in TESTS if re.search(options.only, one.__name__)]
    pages, failed = Pages(), 0
    with Browser() as browser:
        for one in chosen:
            started = time.monotonic()
            try:
                run_one(options, browser, pages, one)
            except (AssertionError, BrowserError, HarnessError, OSError, queue.Empty, websockets.exceptions.WebSocketException):
                failed += 1
                print(f"FAILED  {one.__name__}\n{traceback.format_exc()}", flush=True)
            else:
                print(f"passed  {one.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"stock clients: {len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


def run_one(options, browser, pages, one):
    with temporary_folder("campanile-clients-") as folder:
        world = World(options, folder, browser, pages, one.__defaults__[-1])
        try:
            one(world)
        except BaseException:
            print(world.server.log_tail(), file=sys.stderr)
            raise
        finally:
            world.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / ".build" / "debug" / "campanile"), help="the campanile program (default .build/debug/campanile)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only the tests whose name it matches")
    options = parser.parse_args()
    if not os.access(options.binary, os.X_OK):
        parser.error(f"{options.binary} is not a program; build it first")
    missing = [package for program, package in (("ruby", "ruby"), ("curl", "curl"), ("chromium", "chromium")) if not shutil.which(program)]
    if missing:
        parser.error(f"missing programs: apt-get install {' '.join(missing)}")
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    return run_all(options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (HarnessError, BrowserError) as trouble:
        print(f"stock clients: WRONG: {trouble}")
        sys.exit(1)
