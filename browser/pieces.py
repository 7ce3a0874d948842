"""The web pieces in a real browser, against a server that refuses, cuts and lies on command.

Chromium is Debian's; the pages are in pages/. Nothing is waited for by the clock: what takes random or long times in the
pieces (backing off, having slept) is set to nothing or told to have passed.

Runs pytest on pieces_*.py. Prints a line a test and "N passed, N failed"; exit code 1 if anything failed.
"""
import argparse
import os
import pathlib
import signal
import sys

import pytest

from fake_server import ASSETS

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chromium", default="chromium", help="the browser's program")
    parser.add_argument("--assets", default=ASSETS, help="the folder of the web pieces")
    parser.add_argument("--only", default="", help="a part of the names of the tests to run")
    options = parser.parse_args()
    # As Ctrl-C does: pytest ends the test and takes down what it was given.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    # Of other packages' plugins none is needed.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # In the order in which one reads them.
    files = [str(HERE / f"pieces_{name}.py") for name in ("shown", "followed", "bridge")]
    return pytest.main(["--chromium", options.chromium, "--assets", str(options.assets), "-k", options.only, *files])


if __name__ == "__main__":
    sys.exit(main())
