"""Tests: the cases of clients/vectors that concern pages, which Swift's and Kotlin's tests read too: numbers by version, and events of
streams. `CAMPANILE_VECTORS` names another folder."""
import copy
import json
import os
import pathlib
import re

import pytest

from e2e import ROOT
from e2e.browser.pieces.followed import token_of
from e2e.browser.pieces.page import PAGE, fresh_world, text_is  # noqa: F401 – the fixture `world`

FOLDER = pathlib.Path(os.environ.get("CAMPANILE_VECTORS") or ROOT / "clients/vectors")
LISTEN = """(async () => { const { listen } = await import("/assets/campanile-badge.js"); window.told = [];
  listen("/badge/stream", {}, %s, (name, data) => { if (name !== "open") told.push([name, data]); }); })()"""


LEAD = """(async () => { const { lead } = await import("/assets/campanile-links.js"); const node = document.createElement("a");
  await lead(node, %s, location.origin, %s); return node.getAttribute("href"); })()"""
LINKS = json.loads((FOLDER / "deep_links.json").read_text(encoding="utf-8"))


def cases(name, key):
    found = [one for one in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))[key] if one["pages"]]
    assert found, f"{name}.json has nothing for pages"
    return found


def play_numbers(world, sequence):
    """A page hears a number for each step, and shows those that its case says, in order."""
    world.server.tells_first = False
    page = world.open("badge.html", "window.shown = []; document.addEventListener('campanile:badge', ({ detail }) => shown.push(detail.count));")
    world.server.wait_for_streams(1)
    for step in sequence["steps"]:
        world.server.tell_late(step["push"]["badge"], step["push"]["version"])
    # A last number shows that nothing is only late.
    world.server.tell_late(77, max(step["push"]["version"] for step in sequence["steps"]) + 1)
    page.wait(text_is("#two", "77"))
    expected = [*(step["count"] for step in sequence["steps"] if step["takes"]), 77]
    # Two elements: each number twice.
    shown = page.evaluate("shown")
    assert shown == [count for count in expected for _ in range(2)], (sequence["says"], shown)


def play_events(world, events):
    """A page that listens gets every event by its name, with what is in it, in order."""
    world.server.tells_first = False
    world.server.made["/pages/listening.html"] = PAGE % ""
    page = world.open("listening.html")
    page.evaluate(LISTEN % json.dumps(sorted({event["name"] for event in events})))
    world.server.wait_for_streams(1)
    for event in events:
        world.server.tell_event(event["id"], event["name"], json.loads(event["data"]))
    page.wait(f"told.length >= {len(events)}")
    for event, (name, data) in zip(events, page.evaluate("told"), strict=True):
        assert name == event["name"], event["says"]
        check_change(event, data)


def check_change(event, data):
    """Compares an event with its case, by the members that its kind has in the data."""
    members = dict(event["change"])
    kind = members.pop("kind")
    assert event["name"].rpartition(".")[2] == kind, event["says"]
    if "is_read" in members:
        assert members.pop("is_read") == (data["read_at"] is not None), event["says"]
    assert members == {name: data[name] for name in members}, event["says"]


@pytest.mark.parametrize("number", range(len(cases("numbers", "sequences"))))
def test_numbers_count_by_their_versions_as_in_the_apps(world, number):
    play_numbers(world, cases("numbers", "sequences")[number])


def test_events_say_what_they_say_in_the_apps(world):
    play_events(world, cases("stream_events", "inbox"))


@pytest.mark.parametrize("tree", LINKS["trees"])
def test_a_deep_link_leads_to_the_page_that_the_apps_show(world, tree):
    world.server.made["/deep_links"] = json.dumps(LINKS["trees"][tree])
    page = world.open("badge.html")
    # A query of the wrong type is for the server to refuse, when the entry is made.
    links = [one for one in LINKS["links"] if one["tree"] == tree and "query" not in one.get("problem", {})]
    assert len(links) > 3, tree
    for one in links:
        expected = world.server.address + one["chain"][-1] if one["chain"] else None
        found = page.evaluate(LEAD % (json.dumps(one["link"]), '""'))
        # A browser leaves brackets of a query as they are.
        assert found == (expected and expected.replace("%5B", "[").replace("%5D", "]")), one["says"]
    assert len(world.server.requests("/deep_links")) == 1


def test_the_tree_is_that_of_the_users_app(world):
    world.server.made["/deep_links"] = json.dumps(LINKS["trees"]["shop"])
    page = world.open("badge.html")
    token = token_of("alice", app="shop & co")
    assert page.evaluate(LEAD % ('"home"', json.dumps(token))) == f"{world.server.address}/dashboard"
    assert world.server.requests("/deep_links")[0]["query"] == {"app": ["shop & co"]}


def test_a_changed_number_is_refused(world):
    sequence = copy.deepcopy(cases("numbers", "sequences")[0])
    next(step for step in sequence["steps"] if step["takes"])["count"] += 1
    with pytest.raises(AssertionError, match=re.escape(sequence["says"])):
        play_numbers(world, sequence)


def test_a_changed_event_is_refused(world):
    events = copy.deepcopy(cases("stream_events", "inbox"))
    events[-1]["change"]["reason"] += "x"
    with pytest.raises(AssertionError, match=re.escape(events[-1]["says"])):
        play_events(world, events)
