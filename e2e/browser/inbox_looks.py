"""Tests: what <campanile-inbox> shows to whom: by keyboard, to a screen reader, in narrow, dark and right-to-left pages; hostile texts."""
import json
import os
import time

import pytest

from e2e.browser.console import STORY
from e2e.browser.inbox import part, press, shows
from e2e.browser.world import check_width
from e2e.harness.axe import axe_source

# What the list answers gets these links, which the server itself refuses to take.
HOSTILE_LINKS = ["javascript:window.ran=1", "JaVaScRiPt:window.ran=1", "\tjavascript:window.ran=1", "data:text/html,<script>window.ran=1</script>",
                 "//evil.example/a", "/\\evil.example/a", "https://evil.example/a", "/../../a", "%", "/%E9", "/\t/evil.example/a"]
REPLACED_LINKS = """{ const real = window.fetch, links = %s; window.fetch = async (url, options) => {
  const answer = await real(url, options);
  if (!String(url).includes("/notifications?")) return answer;
  const page = await answer.json();
  page.notifications.forEach((one, at) => { one.deep_link = links[at %% links.length]; });
  return new Response(JSON.stringify(page)); }; }"""
HOSTILE_TEXTS = [
    "<img src=x onerror='window.ran=1'>", "<script>window.ran=1</script>", "</a></div><campanile-inbox>", "&lt;b&gt; &amp;amp; {count}",
    "\u202edlrow olleh", "\u2067unclosed isolate \u202d", "👩‍👩‍👧‍👦🏴‍☠️ e\u0301\u0301\u0301\u0301\u0301\u0301\u0301", "עברית and English", "W" * 256]
# A list that stays within its column, whatever is in it: each row's buttons stand where the first row's stand, and end where the list ends.
UNBROKEN = """(() => { const list = root().querySelector("[part=list]").getBoundingClientRect();
  const at = (row, name) => row.querySelector(name).getBoundingClientRect();
  return rows().every((row) => ["mark", "delete"].every((name) => at(row, `[part~=${name}]`).x === at(rows()[0], `[part~=${name}]`).x)
    && at(row, "[part=content]").width <= list.width && row.getBoundingClientRect().width <= list.width + 0.5); })()"""


def axe_finds(page):
    """The violations of axe's rules, each with the elements."""
    page.evaluate(f"window.axe ? 0 : (0, eval)({json.dumps(axe_source())}), 0")
    return page.evaluate("axe.run(document).then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map((one) => one.html)}`))")


def tree(page):
    """(role, name) of everything that an assistive program sees in the inbox, in its order."""
    page.call("Accessibility.enable")
    nodes = {one["nodeId"]: one for one in page.call("Accessibility.getFullAXTree")["nodes"]}

    def walk(node):
        if not node["ignored"]:
            yield node["role"]["value"], node.get("name", {}).get("value", "")
        for child in node.get("childIds", []):
            yield from walk(nodes[child])
    seen = walk(next(one for one in nodes.values() if "parentId" not in one))
    return [one for one in seen if one[0] in ("list", "listitem", "link", "button", "image", "status", "time", "StaticText")]


def focused(page):
    """The part that has the focus in the inbox, and the title of its row."""
    return page.evaluate("""(() => { const node = root().activeElement;
      return node && [node.part[node.part.length - 1], node.closest("[role=listitem]")?.querySelector("a").textContent ?? null]; })()""")


def tab_to(page, name):
    for _ in range(20):
        page.press("Tab")
        if (focused(page) or [None])[0] == name:
            shown = page.evaluate("getComputedStyle(root().activeElement).outlineStyle")
            assert shown != "none", f"{name} has the focus and doesn't show it"
            return
    raise AssertionError(f"Tab doesn't reach {name}")


def test_everything_can_be_done_by_keyboard_and_the_focus_is_never_lost(world):
    posted = {number: world.post(title=f"Number {number}", push=False) for number in range(1, 6)}
    page = world.inbox()
    page.wait("rows().length === 5")
    tab_to(page, "mark")
    page.press("Enter")
    page.wait("unread().length === 4")
    assert focused(page) == ["mark", "Number 5"]
    tab_to(page, "delete")
    page.press("Enter")
    page.wait("rows().length === 4")
    assert focused(page) == ["delete", "Number 4"], "on the next one's button"
    world.as_user("DELETE", f"/notifications/{posted[4]['id']}", 204)
    page.wait("rows().length === 3")
    assert focused(page)[1] == "Number 3", "in the list"
    assert page.evaluate("root().activeElement.matches('[role=listitem]')"), "on no button that another page chose"
    for left in (2, 1, 0):
        tab_to(page, "delete")
        page.press("Enter")
        page.wait(f"rows().length === {left}")
    assert page.evaluate("said()") == "empty" and focused(page) == ["list", None]
    world.post(title="Another")
    page.wait(shows("Another"))
    page.press("Tab")
    page.press("Tab", shift=True)
    page.evaluate("document.querySelector('h1').tabIndex = -1; document.querySelector('h1').focus()")
    tab_to(page, "all")
    page.press(" ")
    page.wait("unread().length === 0")
    assert focused(page) == ["all", None]


def test_whoever_goes_by_keyboard_gets_to_the_end_and_asks_for_more(world):
    for number in range(60):
        world.post(title=f"Number {number:02}", push=False)
    page = world.inbox()
    page.wait("rows().length >= 20")
    tab_to(page, "mark")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.wait("titles().at(-1) === 'Number 10'")
    page.evaluate("rows().at(-1).querySelector('[part~=delete]').focus()")
    page.press("Tab")
    # Nor does it while the button has the focus and comes into sight anew.
    frame = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
    for place in ("0", "document.documentElement.scrollHeight"):
        page.evaluate(f"scrollTo(0, {place}); {frame}.then(() => {frame}).then(() => {frame})")
    assert focused(page) == ["more", None] and page.evaluate("titles().at(-1)") == "Number 10", "the list doesn't grow in front of the keyboard"
    page.press("Enter")
    page.wait("titles().at(-1) === 'Number 00'")
    assert focused(page)[1] == "Number 09", "on the first of the new ones"
    page.wait("root().querySelector('[part~=more]').hidden")


def test_a_screen_reader_gets_a_list_with_names(world):
    world.post(title="Second one", body="With a body", deep_link="/orders/1")
    first = world.post(title="Read one")
    world.as_user("PATCH", f"/notifications/{first['id']}", body={"read": True})
    page = world.inbox()
    page.wait("rows().length === 2 && rows()[1].querySelector('a').href")
    seen = tree(page)
    start = seen.index(("list", "Notifications"))
    assert ("button", "Mark all as read") in seen[:start]
    assert [one for one in seen[start:] if one[0] != "StaticText"][:9] == [
        ("list", "Notifications"),
        ("listitem", ""), ("time", ""), ("button", "Mark as unread"), ("button", "Delete"),
        ("listitem", ""), ("image", "Unread"), ("link", "Second one"), ("time", "")], seen
    assert ("StaticText", "With a body") in seen and ("status", "") in seen
    assert page.nameless() == []


@pytest.mark.parametrize(("theme", "attributes"), [
    ("light", {}), ("dark", {}), ("light", {"lang": "ko"}), ("dark", {"dir": "rtl", "lang": "ar"})],
    ids=["light", "dark", "Korean", "right to left"])
def test_axe_finds_nothing_and_320_pixels_are_enough(world, theme, attributes):
    world.post(title="A" * 200, body="B" * 300, deep_link="/orders/1")
    read = world.post(title="Read", body="And done with")
    world.as_user("PATCH", f"/notifications/{read['id']}", body={"read": True})
    page = world.inbox(width=320, height=640, **attributes)
    page.theme(theme)
    page.wait("rows().length === 2 && rows()[1].querySelector('a').href")
    check_width(page, 320)
    assert page.evaluate(UNBROKEN)
    small = page.evaluate("""[...root().querySelectorAll("button")].filter((node) => node.checkVisibility())
      .filter((node) => Math.min(node.getBoundingClientRect().height, node.getBoundingClientRect().width) < 40).map((node) => node.outerHTML)""")
    assert not small, f"too small for a finger: {small}"
    assert axe_finds(page) == []
    is_dark = page.evaluate("getComputedStyle(root().querySelector('[part=dot]')).backgroundColor") == "rgb(147, 180, 255)"
    assert is_dark == (theme == "dark")
    mark, title = page.evaluate("['mark', 'title'].map((name) => rows()[0].querySelector(`[part~=${name}]`).getBoundingClientRect().x)")
    assert (mark < title) == (attributes.get("dir") == "rtl"), "the buttons stand at the end of the line"
    page.evaluate("rows().forEach((row) => row.querySelector('[part~=delete]').click())")
    page.wait("said() === 'empty'")
    assert axe_finds(page) == []


def test_texts_are_the_readers_and_can_be_replaced(world):
    world.post(title="하나")
    page = world.inbox(lang="ko", **{"text-all": "전부 읽음"})
    page.wait(shows("하나"))
    names = "[...root().querySelectorAll('button')].filter((node) => node.checkVisibility()).map((node) => node.ariaLabel ?? node.textContent)"
    assert page.evaluate(names) == ["전부 읽음", "읽음으로 표시", "삭제"]
    assert page.evaluate(f"{part('time', 0)}.textContent") == "지금"
    press(page, "delete", 0)
    page.wait("said() === 'empty'")
    assert page.evaluate("root().querySelector('[part=state]').textContent").startswith("알림이 없습니다.")
    # A slot takes any element of the page's.
    page.evaluate("inbox.insertAdjacentHTML('beforeend', '<a slot=empty href=/shop>Back to the shop</a>')")
    assert page.evaluate("root().querySelector('slot[name=empty]').assignedElements()[0].checkVisibility()")
    # A language that isn't shipped, or is none, is English.
    for lang in ("fr", "no_such language"):
        other = world.inbox(lang=lang)
        other.wait("said() === 'empty'")
        assert other.evaluate("root().querySelector('[part=state]').textContent").startswith("Nothing here yet.")


def test_ages_are_in_words(world):
    post_aged(world, "ages", [30, 5 * 60, 3 * 3600, 26 * 3600, 40 * 86_400])
    page = world.inbox(lang="en-GB", token=world.campanile.user_token("ages"))
    page.wait("rows().length === 5")
    told = page.evaluate("rows().map((row) => row.querySelector('time').textContent)")
    assert told[:4] == ["now", "5 minutes ago", "3 hours ago", "yesterday"], told
    assert str(time.gmtime(time.time() - 40 * 86_400).tm_year) in told[4], told


def post_aged(world, user, ages, story=None):
    """Imports entries of a user's whose ages are these, in seconds."""
    file = os.path.join(world.campanile.folder, f"{user}.ndjson")
    with open(file, "w", encoding="utf-8") as lines:
        for number, age in enumerate(ages):
            created = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - age))
            lines.write(json.dumps({"title": f"Entry {number}", **(story[number] if story else {}),
                                    "external_id": f"{user}-{number}", "user_id": user, "created_at": created}) + "\n")
    world.campanile.command("import", "notifications", file)


def test_hostile_texts_run_nothing_and_break_no_row(world):
    for text in HOSTILE_TEXTS:
        encoded = text.encode()[:256].decode(errors="ignore")
        world.post(title=encoded, body=text, push=False)
    world.post(title="Long", body="x" * 2048, push=False)
    world.post(title="Long too", body="\u202e" + "ي" * 1000, push=False)
    page = world.inbox(REPLACED_LINKS % json.dumps(HOSTILE_LINKS), width=320, height=640)
    page.wait(f"rows().length === {len(HOSTILE_TEXTS) + 2} && rows().filter((row) => row.querySelector('a').href).length > 3")
    assert page.evaluate("titles()")[2:] == [text.encode()[:256].decode(errors="ignore") for text in HOSTILE_TEXTS][::-1], "text is text"
    hrefs = page.evaluate("rows().map((row) => row.querySelector('a').href).filter(Boolean)")
    assert all(href.startswith(f"{world.origin}/") for href in hrefs), hrefs
    assert page.evaluate("root().querySelectorAll('img, script, campanile-inbox').length") == 0
    check_width(page, 320)
    assert page.evaluate(UNBROKEN)
    page.evaluate("document.addEventListener('click', (event) => event.preventDefault()); rows().forEach((row) => row.querySelector('a').click())")
    page.wait("unread().length < rows().length")
    assert page.evaluate("window.ran === undefined")


HEBREW = {"text-all": "סימון הכול כנקרא", "text-read": "סימון כנקרא", "text-delete": "מחיקה"}
IN_HEBREW = ["החשבון לאוקטובר מוכן", "שולחן לארבעה, מחר ב-19:30", "Marta replied to your note", "ההזמנה בדרך", "כניסה חדשה מ-Lisbon",
             "הרכבת יוצאת ב-17:42"]


def test_pictures_of_the_inbox(world, screenshots):
    ages = [9 * 86_400, 2 * 86_400, 26 * 3600, 5 * 3600, 12 * 60, 20]
    story = [*({key: one[key] for key in ("title", "body", "deep_link") if key in one} for one in STORY),
             {"title": "Your train leaves at 17:42", "body": "Platform 7, on time.", "deep_link": "/trips/2290"}]
    for one, age in zip(story, ages, strict=True):
        if age > 86_400:
            one["read_at"] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - age + 10))
    post_aged(world, "mia", ages, story)
    post_aged(world, "noa", ages, [{**one, "title": title, "body": ""} for one, title in zip(story, IN_HEBREW, strict=True)])
    for name, user, width, theme, attributes in (
            ("light", "mia", 640, "light", {}), ("dark", "mia", 640, "dark", {}), ("narrow", "mia", 320, "light", {}),
            ("rtl", "noa", 640, "light", {"dir": "rtl", "lang": "he", **HEBREW})):
        height = 760 if width == 320 else 560
        page = world.inbox(width=width, height=height, token=world.campanile.user_token(user), **attributes)
        page.size(width, height, scale=2, mobile=width < 500)
        page.theme(theme)
        page.wait("rows().length === 6 && rows().every((row) => row.querySelector('a').href)")
        page.evaluate("document.querySelector('footer').remove()")
        page.screenshot(os.path.join(screenshots, f"inbox-{name}.png"))
