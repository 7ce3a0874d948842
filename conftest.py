"""What pytest gives the tests of browser/ and contract/: the program that is tested, a browser, and an orderly end."""
import os
import pathlib
import shutil
import signal

import pytest

from harness import servers

ROOT = pathlib.Path(__file__).resolve().parent


def pytest_addoption(parser):
    parser.addoption("--binary", default=str(ROOT / ".build/debug/campanile"), help="the campanile program (default .build/debug/campanile)")
    parser.addoption("--chromium", default="chromium", help="the browser's program")


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
    from harness.chromium import Browser  # the environment of openapi-generator has no websockets

    with Browser(request.config.getoption("chromium")) as browser:
        yield browser
