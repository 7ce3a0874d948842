"""What pytest gives the tests of the pieces: a server that refuses, cuts and lies on command, and a page, for each test.

Nothing is waited for by the clock: what takes random or long times in the pieces (backing off, having slept) is set to
nothing or told to have passed.
"""
import pytest

from fake_server import FakeServer
from page import World


@pytest.fixture
def world(request, browser, complaints):
    """A server each: what a page of the test before still asks goes to its own."""
    with FakeServer(request.config.getoption("assets")) as server:
        world = World(browser, server)
        yield world
        world.close(complaints)
