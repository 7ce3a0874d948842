"""Tests: the console's form, and the preview of what it would send."""
import json
import re
import secrets

import pytest

from e2e.browser.inbox import CALLS
from e2e.browser.world import AWAY, REFUSED, USER, check_requests, check_width

IMAGE = "https://images.example/order/42.png"
NOTE = "document.getElementById('preview-note').textContent"


def devices(world, *platforms):
    """Registers devices of which the sandbox knows nothing yet; gives the ends of their tokens."""
    tokens = [secrets.token_hex(32) for _ in platforms]
    for token, platform in zip(tokens, platforms):
        world.device(token, platform)
    return [f"…{token[-6:]}" for token in tokens]


def phone(platform):
    """The preview's first phone of a platform."""
    return f"[...document.querySelectorAll('#preview-list .phone')].find((node) => node.querySelector('.phone-kind').textContent === '{platform}')"


def told(page, platform, selector):
    """A text on the preview's phone; None if it isn't there."""
    return page.evaluate(f"{phone(platform)}.querySelector({json.dumps(selector)})?.textContent")


def is_sent(page, platform):
    """What the preview says is sent."""
    return json.loads(told(page, platform, "pre"))


def choose(page, identifier, value):
    page.evaluate(f"""(() => {{ const node = document.getElementById({json.dumps(identifier)}); node.value = {json.dumps(value)};
      node.dispatchEvent(new Event("input", {{ bubbles: true }})); }})()""")


def write(page):
    """Writes a notification with something in every part of the form; gives the request that it is."""
    page.fill("#title", "Your order is <b>ready</b>")
    page.fill("#subtitle", "At the counter")
    page.fill("#body", "Bring your number.")
    page.fill("#image_url", IMAGE)
    page.click("#delivery-fields summary")
    choose(page, "interruption_level", "time-sensitive")
    choose(page, "priority", "normal")
    page.fill("#ttl", "3600")
    page.fill("#buttons", "REPLY")
    page.fill("#other", '{"android": {"color": "#1d4ed8"}, "relevance_score": 0.25, "fcm": {"direct_boot_ok": true}}')
    page.wait(phone("Android") + ".querySelector('pre').textContent.includes('direct_boot_ok')", what="the preview of all of it")


def pushes(world):
    answer = world.campanile.connection().request("GET", f"/sandbox/pushes?user_id={USER}", credential=world.key)
    return answer.json()["pushes"]


def comparable(push):
    """Headers and payload of a push, without its ids, times, version and target."""
    text = json.dumps({"headers": push["headers"], "payload": push["payload"]}, sort_keys=True)
    for pattern in (r"[0-9a-f]{8}-[0-9a-f-]{27}", r'(?<="badgeVersion": )"?\d+"?', r'(?<="apns-expiration": )"\d+"', r'(?<="token": )"[^"]*"',
                    r'(?<="ttl": )"\d+s"'):
        text = re.sub(pattern, "…", text)
    return text


def test_the_preview_shows_what_both_platforms_would(world):
    ends = devices(world, "ios", "android")
    world.post(push=False)
    page = world.console()
    assert not page.evaluate("document.getElementById('preview').checkVisibility()")
    write(page)
    assert page.evaluate(NOTE) == "As it would arrive on 2 devices of alice."
    assert page.evaluate("[...document.querySelectorAll('#preview-list .phone-token')].map((node) => node.textContent)") == ends
    for platform in ("iOS", "Android"):
        assert told(page, platform, ".phone-banner b") == "Your order is <b>ready</b>"
        assert told(page, platform, ".phone-image") == IMAGE
        assert told(page, platform, ".phone-badge") == "2"
    assert told(page, "iOS", ".phone-subtitle") == "At the counter"
    assert told(page, "iOS", ".phone-buttons") == "buttons: REPLY"
    assert told(page, "iOS", ".phone-facts") == "time-sensitive"
    assert [told(page, "Android", one) for one in (".phone-subtitle", ".phone-buttons", ".phone-facts")] == [None, None, None]
    sent = is_sent(page, "iOS")
    assert sent["headers"]["apns-priority"] == "5" and sent["payload"]["aps"]["relevance-score"] == 0.25, sent
    android = is_sent(page, "Android")["payload"]["message"]["android"]
    assert android["direct_boot_ok"] is True and android["notification"]["color"] == "#1d4ed8", android
    # What is unfolded stays so.
    page.click("#preview-list details summary")
    choose(page, "android_display", "app")
    page.wait(phone("Android") + ".querySelector('.phone-facts')?.textContent === 'drawn by the app'")
    assert told(page, "Android", ".phone-subtitle") == "At the counter" and told(page, "Android", ".phone-buttons") == "buttons: REPLY"
    assert page.evaluate(phone("iOS") + ".querySelector('details').open && " + phone("iOS") + ".querySelector('pre').checkVisibility()")
    page.fill("#title", "")
    page.wait("!document.getElementById('preview').checkVisibility()")
    check_requests(page, world.server, world.token, world.key)


@pytest.mark.complaints(*REFUSED)
def test_a_mistake_is_told_by_the_preview_and_then_at_its_field(world):
    devices(world, "ios")
    page = world.console()
    page.fill("#title", "Hello")
    page.fill("#image_url", "http://images.example/a.png")
    page.wait(f"{NOTE}.startsWith('The server would refuse this:') && {NOTE}.includes('image_url')")
    assert page.evaluate("document.activeElement.id") == "image_url", "the focus stays where one types"
    page.click("#delivery-fields summary")
    page.fill("#ttl", "soon")
    page.fill("#other", '{"apns": {"aps": {"badge": 1}}, "urgency": 1, "loc": {"title_keys": "K"}}')
    page.wait(f"{NOTE}.includes('urgency')")
    page.click("#delivery-fields summary")
    page.click("#compose [type=submit]")
    page.wait("document.getElementById('image_url-error').textContent && document.activeElement.id === 'image_url'")
    page.wait("document.getElementById('ttl-error').textContent.includes('ttl') && document.getElementById('ttl').checkVisibility()")
    words = page.evaluate("document.getElementById('other-error').textContent")
    assert all(one in words for one in ("apns.aps.badge", "urgency", "loc.title_keys")), words
    # What is known without the server; it isn't asked.
    page.fill("#other", "{")
    page.wait(f"{NOTE}.includes('aren’t JSON')")
    page.fill("#other", '{"ttl": 5, "user_id": "bea", "android": {"display": "app"}}')
    choose(page, "android_display", "system")
    page.click("#compose [type=submit]")
    page.wait("document.getElementById('other-error').textContent.includes('android.display')")
    words = page.evaluate("document.getElementById('other-error').textContent")
    assert "ttl is given" in words and "To." in words, words
    page.fill("#image_url", "")
    page.fill("#ttl", "")
    page.fill("#other", "")
    page.wait("document.querySelectorAll('#preview-list .phone').length === 1 && !document.querySelector('#preview .stale')")
    assert world.as_user("GET", "/notifications").json()["notifications"] == []


def test_previews_store_nothing_and_send_nothing(world):
    devices(world, "ios", "android")
    world.post(title="Earlier")
    page = world.console(scripts=[CALLS])
    page.wait("titles().join() === 'Earlier'")
    badge, before = world.as_user("GET", "/badge").json(), len(pushes(world))
    write(page)
    page.fill("#title", "Another title")
    page.wait(phone("iOS") + ".querySelector('.phone-banner b').textContent === 'Another title'")
    assert page.evaluate("calls.filter((call) => call.startsWith('POST /notifications')).length") >= 2
    assert world.as_user("GET", "/badge").json() == badge
    assert len(world.as_user("GET", "/notifications").json()["notifications"]) == 1 and len(pushes(world)) == before
    assert page.evaluate("titles().join()") == "Earlier"


@pytest.mark.parametrize("display", ["system", "app"])
def test_what_is_shown_is_what_is_sent(world, display):
    devices(world, "ios", "android")
    page = world.console()
    write(page)
    choose(page, "android_display", display)
    page.wait(f"!!{phone('Android')}.querySelector('.phone-subtitle') === {json.dumps(display == 'app')}")
    shown = {comparable(is_sent(page, platform)) for platform in ("iOS", "Android")}
    page.click("#compose [type=submit]")
    page.wait("document.getElementById('sent').textContent.startsWith('Sent to alice')")
    page.wait("!document.getElementById('preview').checkVisibility()", what="the preview to go with the texts")
    assert page.evaluate("['title', 'subtitle', 'body', 'image_url'].map((id) => document.getElementById(id).value).join('')") == ""
    # The phones show it as the preview did.
    page.wait("document.querySelectorAll('#phone-list .phone-image').length === 2")
    assert page.evaluate("[...document.querySelectorAll('#phone-list .phone-subtitle')].length") == (2 if display == "app" else 1)
    sent = world.as_user("GET", "/notifications").json()["notifications"]
    assert [(one["title"], one["subtitle"], one["image_url"]) for one in sent] == [("Your order is <b>ready</b>", "At the counter", IMAGE)]
    assert {comparable(one) for one in pushes(world) if one["notification_id"] == sent[0]["id"]} == shown


def test_a_notification_that_takes_anothers_place_is_drawn_anew(world):
    devices(world, "android")
    page = world.console()
    world.post(title="Two parcels left", collapse_key="parcels")
    page.wait("document.querySelector('#phone-list .phone-banner b')?.textContent === 'Two parcels left'")
    world.post(title="One parcel left", collapse_key="parcels")
    page.wait("[...document.querySelectorAll('#phone-list .phone-banner b')].map((node) => node.textContent).join() === 'One parcel left'")


@pytest.mark.complaints("ERR_INTERNET_DISCONNECTED", *AWAY, *REFUSED)
def test_the_preview_says_who_gets_nothing_and_why(world):
    page = world.console()
    page.fill("#title", "Hello")
    page.wait(f"{NOTE} === 'No device is registered for alice: it would stand in the inbox alone.'")
    page.click("[data-add=ios]")
    page.wait(f"{NOTE} === 'As it would arrive on the device of alice.'")
    page.click("#push + i")
    page.wait(f"{NOTE}.startsWith('Nothing would be pushed to alice.iOS …') && {NOTE}.endsWith('gets nothing: it is created without an alert.')")
    assert page.evaluate("document.querySelectorAll('#preview-list .phone').length") == 0
    page.click("#push + i")
    page.fill("#to", "alice, bea")
    page.wait(f"{NOTE} === 'As it would arrive on the device of alice, the first of 2 users.'")
    page.offline(True)
    page.fill("#to", "alice")
    page.wait(f"{NOTE} === 'No preview now: the server can’t be reached.'")
    assert page.evaluate("document.getElementById('alerts').textContent") == ""
    page.offline(False)
    page.fill("#body", "Again")
    page.wait(f"{NOTE} === 'As it would arrive on the device of alice.'")
    # A key that is gone: it is said there, and nowhere else.
    page.evaluate("""(() => { const real = window.fetch;
      window.fetch = (path, ...rest) => !path.includes("dry_run") ? real(path, ...rest)
        : Promise.resolve(new Response(JSON.stringify({ detail: "The key was revoked." }), { status: 401 })); })()""")
    page.fill("#body", "And again")
    page.wait(f"{NOTE} === 'No preview: the key isn’t allowed to ask for it. The key was revoked.'")
    assert page.evaluate("document.getElementById('alerts').textContent") == ""
    assert page.evaluate("document.getElementById('console').checkVisibility()")


def test_the_preview_waits_for_a_pause_and_the_last_state_wins(world):
    devices(world, "ios")
    page = world.console()
    page.evaluate("""(() => { const real = window.fetch; window.asked = [];
      window.fetch = (path, options) => !path.includes("dry_run") ? real(path, options)
        : new Promise((resolve, reject) => window.asked.push({ title: JSON.parse(options.body).title, signal: options.signal,
            go: () => real(path, { ...options, signal: undefined }).then(resolve, reject) })); })()""")
    page.click("#title")
    for letter in "Hello":
        page.type(letter)
    page.wait("asked.length && asked.at(-1).title === 'Hello'")
    asked = page.evaluate("asked.length")
    assert asked < 5, "not for every letter"
    page.type("!")
    page.wait(f"asked.length === {asked + 1} && asked.at(-1).title === 'Hello!'")
    assert page.evaluate(f"asked[{asked - 1}].signal.aborted && !asked[{asked}].signal.aborted")
    page.evaluate(f"asked[{asked}].go()")
    page.wait(phone("iOS") + ".querySelector('.phone-banner b').textContent === 'Hello!'")
    page.evaluate(f"asked[{asked - 1}].go()")
    # What changes the number is shown too: the phone would have another one then.
    world.post(push=False)
    page.wait(f"asked.length === {asked + 2}")
    page.evaluate("asked.at(-1).go()")
    page.wait(phone("iOS") + ".querySelector('.phone-badge').textContent === '2'")
    assert told(page, "iOS", ".phone-banner b") == "Hello!"


@pytest.mark.parametrize(("width", "theme"), [(320, "light"), (390, "dark"), (1000, "light"), (1440, "dark")])
def test_form_and_preview_fit(world, width, theme):
    devices(world, "ios", "android")
    page = world.console(width, 900)
    page.size(width, 900, mobile=width < 500)
    page.theme(theme)
    write(page)
    page.click("#preview-list details summary")
    check_width(page, width, touched="#compose button, #compose select, .switch" + (", #compose summary, .preview summary" if width < 500 else ""))
    assert page.nameless() == [], page.nameless()
    beside = page.evaluate("""(() => { const box = (id) => document.getElementById(id).getBoundingClientRect();
      return box("preview").left >= box("sending").right ? "beside" : box("preview").top >= box("sending").bottom ? "below" : "over"; })()""")
    assert beside == ("beside" if width == 1440 else "below")
    # By keyboard, in the order that is seen.
    page.click("#title")
    page.tab_to("#other", most=20)
    page.tab_to("#preview-list summary")
    page.press(" ")
    page.wait("!document.querySelector('#preview-list details').open")
