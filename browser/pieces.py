"""The web pieces in a real browser, against a server that refuses, cuts and lies on command.

Chromium is Debian's; the pages are in pages/. Nothing is waited for by the clock: what takes random or long times in the
pieces (backing off, having slept) is set to nothing or told to have passed.

Prints a line a test and "N passed, N failed"; exit code 1 if anything failed.
"""
import argparse
import sys
import traceback

import pieces_bridge  # noqa: F401 (the tests register themselves)
import pieces_followed  # noqa: F401
import pieces_shown  # noqa: F401
from fake_server import ASSETS, FakeServer
from harness import leave_when_told
from harness.chromium import Browser
from pieces_page import TESTS, World


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chromium", default="chromium", help="the browser's program")
    parser.add_argument("--assets", default=ASSETS, help="the folder of the web pieces")
    parser.add_argument("--only", help="a part of the names of the tests to run")
    options = parser.parse_args()
    leave_when_told()
    failed = passed = 0
    with Browser(options.chromium) as browser:
        for one in TESTS:
            if options.only and options.only not in one.__name__:
                continue
            # A server each: what a page of the test before still asks goes to its own.
            with FakeServer(options.assets) as server:
                world = World(browser, server)
                try:
                    one(world)
                    world.close(getattr(one, "expected", ()))
                    passed += 1
                    print(f"ok    {one.__name__}", flush=True)
                except Exception:
                    failed += 1
                    print(f"WRONG {one.__name__}\n{traceback.format_exc()}", flush=True)
                    for page in world.pages:
                        page.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
