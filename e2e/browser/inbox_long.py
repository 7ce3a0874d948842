"""Tests: a long inbox while entries arrive. `--entries 10000` is the long form; `make test` has 1,000."""
import json
import threading
import time

import pytest

USER = "lena"
RATE = 20  # entries a second that arrive meanwhile
ROWS, ELEMENTS = 400, 3600  # at most in the page, however long the inbox is; beside a block for 25 entries
# Looks at every frame: entries that are there twice or in the wrong order, the most rows and elements, and what was seen.
WATCH = """window.seen = new Set(); window.faults = []; window.most = { rows: 0, elements: 0 };
(function look() {
  const now = titles();
  if (new Set(now).size < now.length) faults.push(`twice: ${now}`);
  if (now.some((title, at) => at && title >= now[at - 1])) faults.push(`out of order: ${now}`);
  now.forEach((title) => seen.add(title));
  most.rows = Math.max(most.rows, now.length);
  most.elements = Math.max(most.elements, root().querySelectorAll("*").length);
  requestAnimationFrame(look);
})();"""
# Scrolls by less than a window's height, down (1) or up (-1), until it goes no further; waits at the end for what is being loaded.
SCROLL = """(async (by) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const isAtEnd = () => scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
  const isOver = () => by < 0 ? scrollY <= 0 : root().querySelector("[part~=more]").hidden && isAtEnd();
  for (let still = 0; still < 5;) {
    scrollBy({ top: by * innerHeight, behavior: "instant" });
    await frame();
    still = isOver() ? still + 1 : 0;
  }
})(%d)"""


def title(number):
    return f"Entry {number:06}"


@pytest.fixture
def filled(kept_world, request, tmp_path):
    """The number of entries that Lena's inbox is filled with, once."""
    count = request.config.getoption("entries")
    file = tmp_path / "entries.ndjson"
    with file.open("w") as lines:
        for number in range(count):
            seconds = time.gmtime(1_700_000_000 + number)
            entry = {"external_id": f"lena-{number}", "user_id": USER, "title": title(number), "created_at": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", seconds),
                     "body": "A body of two lines, in every third entry, so that rows differ in their height. " * 3 if number % 3 else None}
            lines.write(json.dumps({key: value for key, value in entry.items() if value is not None}) + "\n")
    kept_world.campanile.command("import", "notifications", str(file))
    return count


class Arrivals:
    """Posts entries at an even rate, until it is left; `number` counts on from the last one."""

    def __init__(self, world, number):
        self.world, self.number, self.is_over = world, number, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        connection = self.world.campanile.connection()
        while not self.is_over.wait(1 / RATE):
            body = {"user_id": USER, "title": title(self.number), "push": False}
            assert connection.request("POST", "/notifications", credential=self.world.key, body=body).status == 201
            self.number += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def test_a_long_inbox_scrolled_while_entries_arrive_lacks_none_and_shows_none_twice(world, filled):
    page = world.inbox(token=world.campanile.user_token(USER))
    page.wait("titles().length > 0")
    page.evaluate(WATCH)
    with Arrivals(world, filled) as arrivals:
        page.evaluate(SCROLL % 1, 1200)
        assert page.evaluate("seen.size") >= filled, "every entry was in the page"
        assert page.evaluate("titles().at(-1)") == title(0), "the oldest is at the end"
        page.evaluate(f"void (window.seen = new Set()), ({SCROLL % -1})", 1200)
    page.evaluate(SCROLL % -1, 1200)
    page.wait(f"titles()[0] === '{title(arrivals.number - 1)}'", what="the last that arrived, on top")
    assert page.evaluate("seen.size") == arrivals.number, "every entry once more, on the way back"
    assert arrivals.number > filled + RATE, "some arrived meanwhile"
    assert page.evaluate("faults") == []
    most = page.evaluate("most")
    print(f"{arrivals.number} entries, {arrivals.number - filled} of them new; at most {most}")
    assert most["rows"] <= ROWS and most["elements"] <= ELEMENTS + arrivals.number / 20, most
