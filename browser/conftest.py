"""What pytest gives the tests of pieces.py: one browser, and a server and a page of its own for each test."""
import pytest

from fake_server import ASSETS, FakeServer
from harness.chromium import Browser
from pieces_page import World


def pytest_addoption(parser):
    parser.addoption("--chromium", default="chromium", help="the browser's program")
    parser.addoption("--assets", default=str(ASSETS), help="the folder of the web pieces")


def pytest_terminal_summary(terminalreporter):
    counts = {outcome: len(terminalreporter.stats.get(outcome, ())) for outcome in ("passed", "failed", "error")}
    terminalreporter.write_line(f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed")


@pytest.fixture(scope="session")
def browser(request):
    with Browser(request.config.getoption("chromium")) as browser:
        yield browser


@pytest.fixture
def world(request, browser):
    """A server each: what a page of the test before still asks goes to its own."""
    marker = request.node.get_closest_marker("complaints")
    with FakeServer(request.config.getoption("assets")) as server:
        world = World(browser, server)
        yield world
        world.close(marker.args if marker else ())
