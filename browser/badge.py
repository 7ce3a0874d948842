"""Open pages show the number while it changes, and the console shows all of it: a real server, a real browser.

Chromium is Debian's package; the server is the program given with --binary. The test's own pages come from another origin
(allowed_origins), the console from the server's. With --screenshots DIR the console's pictures are written there.

Prints a line a step and "N passed, N failed"; exit code 1 if anything failed.
"""
import argparse
import contextlib
import os
import sys
import traceback

# The steps register themselves, in this order.
import open_pages  # noqa: F401

import console  # noqa: F401  # isort: skip
from harness import Campanile, leave_when_told, temporary_folder
from harness.chromium import Browser
from world import STEPS, World, page_server


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True, help="the campanile program to test")
    parser.add_argument("--chromium", default="chromium", help="the browser's program")
    parser.add_argument("--screenshots", help="a folder for pictures of the console")
    parser.add_argument("--only", help="a part of the names of the steps to run")
    options = parser.parse_args()
    if options.screenshots:
        options.screenshots = os.path.abspath(options.screenshots)
        os.makedirs(options.screenshots, exist_ok=True)
    leave_when_told()
    failed = passed = 0
    with temporary_folder("campanile-browser-") as folder, page_server() as origin, Browser(options.chromium) as browser:
        campanile = Campanile(options.binary, os.path.join(folder, "campanile.sqlite"), folder, {
            "CAMPANILE_CONSOLE": "true", "CAMPANILE_ALLOWED_ORIGINS": origin})
        campanile.start()
        world = World(campanile, browser, origin, options.screenshots)
        for one in STEPS:
            if options.only and options.only not in one.__name__:
                continue
            try:
                world.empty()
                one(world)
                world.close(getattr(one, "expected", ()))
                passed += 1
                print(f"ok    {one.__name__}", flush=True)
            except Exception:
                failed += 1
                print(f"WRONG {one.__name__}\n{traceback.format_exc()}", flush=True)
                with contextlib.suppress(Exception):
                    world.close(("",))
                if campanile.process.poll() is not None:
                    campanile.start()
        campanile.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
