"""What pytest gives the tests of pages: a real server that lives as long as they do. The tests of the pieces have their own."""
import os

import pytest

from fake_server import ASSETS
from harness import HarnessError, serving
from rails_shop import shop_with
from world import World, page_server, plain_server


def pytest_addoption(parser):
    parser.addoption("--assets", default=str(ASSETS), help="the folder of the web pieces")
    parser.addoption("--screenshots", help="a folder for pictures of the console and the inbox")
    parser.addoption("--entries", type=int, default=1000, help="how many entries the long inbox has (default 1000)")


@pytest.fixture
def complaints(request):
    """What a page may write on its console in this test."""
    marker = request.node.get_closest_marker("complaints")
    return marker.args if marker else ()


@pytest.fixture(scope="session")
def kept_world(binary, browser):
    with page_server() as origin, plain_server() as plain:
        settings = {"CAMPANILE_CONSOLE": "true", "CAMPANILE_ALLOWED_ORIGINS": f"{origin},{plain.address}"}
        with serving(binary, settings) as campanile:
            plain.handler.campanile = f"http://127.0.0.1:{campanile.port}"
            yield World(campanile, browser, origin, plain.address)


@pytest.fixture
def world(kept_world, complaints):
    """Without a notification, a device or a page of the test before."""
    kept_world.empty()
    yield kept_world
    campanile = kept_world.campanile
    try:
        kept_world.close(complaints)
    finally:
        died = campanile.has_died and campanile.process.returncode
        if campanile.process.poll() is not None:
            campanile.start()
        if died is not False:
            raise HarnessError(f"the server exited {died} by itself")


@pytest.fixture(scope="session")
def kept_shop(binary, browser):
    with shop_with(binary, browser) as shop:
        yield shop


@pytest.fixture
def shop(kept_shop, complaints):
    yield kept_shop
    kept_shop.restore(complaints)


@pytest.fixture(scope="session")
def kept_impatient_shop(binary, browser):
    with shop_with(binary, browser, SHOP_PATIENCE="", SHOP_USER_IN="Current") as shop:
        yield shop


@pytest.fixture
def impatient_shop(kept_impatient_shop, complaints):
    """One that waits for Campanile as long as the example does; and its user is in Current.user."""
    yield kept_impatient_shop
    kept_impatient_shop.restore(complaints)


@pytest.fixture
def screenshots(request):
    folder = request.config.getoption("screenshots")
    if not folder:
        pytest.skip("only with --screenshots")
    os.makedirs(folder, exist_ok=True)
    return folder
