"""What pytest gives the tests of contract/ and browser/: the program that is tested, a browser, an orderly end; and to those of pages a
real server that lives as long as they do, and a Rails shop. The tests of the pieces have a server of their own (e2e/browser/pieces/page.py)."""
import os
import shutil
import signal

import pytest

from e2e import ROOT
from e2e.browser.fake_server import ASSETS
from e2e.browser.rails_shop import shop_with
from e2e.browser.world import World, page_server, plain_server
from e2e.harness import HarnessError, servers, serving


def pytest_addoption(parser):
    parser.addoption("--binary", default=str(ROOT / ".build/debug/campanile"), help="the campanile program (default .build/debug/campanile)")
    parser.addoption("--chromium", default="chromium", help="the browser's program")
    parser.addoption("--assets", default=str(ASSETS), help="the folder of the web pieces")
    parser.addoption("--turbo", help="a file of Turbo's, also turbo-rails', for cable.py in the place of 7.1.0, which can't morph")
    parser.addoption("--renders", type=int, default=30, help="how often a page is made in cable.py (default 30)")
    parser.addoption("--screenshots", help="a folder for pictures of the console and the inbox")
    parser.addoption("--entries", type=int, default=1000, help="how many entries the long inbox has (default 1000)")
    parser.addoption("--generator", choices=["openapi-python-client", "openapi-generator"], default="openapi-python-client",
                     help="whose clients generated_calls.py tries")
    parser.addoption("--document", help="another document than the server's own for generated_calls.py, to see what breaks")


def pytest_configure():
    # As Ctrl-C does: pytest ends the test and takes down what it was given.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def pytest_runtest_setup(item):
    wanted = {program for marker in item.iter_markers("needs") for program in marker.args}
    missing = sorted(program for program in wanted if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin"))
    if missing:
        pytest.exit(f"missing programs: apt-get install {' '.join(missing)}", 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        report.sections += [("the end of the server's log", server.log_tail()) for server in servers]
    return report


@pytest.fixture(scope="session")
def binary(request):
    path = request.config.getoption("binary")
    if not os.access(path, os.X_OK):
        pytest.exit(f"{path} is not a program; build it first", 2)
    return path


@pytest.fixture(scope="session")
def browser(request):
    from e2e.harness.chromium import Browser  # the environment of openapi-generator has no websockets

    with Browser(request.config.getoption("chromium")) as browser:
        yield browser


# --- pages

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
