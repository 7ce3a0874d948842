"""What the tests of the pieces share: a server that refuses, cuts and lies on command, and a page, for each test.

Nothing is waited for by the clock: what takes random or long times in the pieces (backing off, having slept) is set to
nothing or told to have passed.
"""
import pytest

from e2e.browser.fake_server import FakeServer
from e2e.browser.world import Pages

# What a browser writes on its console about a refused or broken stream; it can't be kept from it.
REFUSED = ("Failed to load resource", "ERR_")
AT_ONCE = "Math.random = () => 0;"
APP_BADGE = """window.appBadges = [];
navigator.setAppBadge = async (count) => { appBadges.push(count); };
navigator.clearAppBadge = async () => { appBadges.push(0); throw new Error("not allowed"); };"""
# A page with the module and nothing else but what is put into it.
PAGE = """<!doctype html><title>Shop</title><link rel="icon" href="/pages/icon.svg">
<script type="module" src="/assets/campanile-badge.js"></script>%s"""


def text_is(selector, text):
    return f"document.querySelector('{selector}').textContent === '{text}'"


class World(Pages):
    """A fresh page on a server that knows nothing."""

    def __init__(self, browser, server):
        super().__init__()
        self.browser, self.server = browser, server

    def open(self, name, *scripts, page=None):
        page = page or self.browser.page()
        self.pages.append(page)
        for script in (AT_ONCE, *scripts):
            page.before_load(script)
        page.go(f"{self.server.address}/pages/{name}")
        return page

    def shows(self, count, version):
        """A page of the badge that shows the number already."""
        page = self.open("badge.html")
        self.server.tell(count, version)
        page.wait(text_is("#one", str(count)))
        return page

    def close(self, expected):
        super().close(expected)
        self.server.wait_for_streams(0)


@pytest.fixture(name="world")
def fresh_world(request, browser, complaints):
    """For the modules that import it. A server each: what a page of the test before still asks goes to its own."""
    with FakeServer(request.config.getoption("assets")) as server:
        world = World(browser, server)
        yield world
        world.close(complaints)
