"""Follows README.md from the Debian package to the first badge, on a new Debian 12 that systemd has booted, and says how long each step took
(scripts/stranger.sh). From the package to the badge it may take three minutes.

The Debian is package.py's, which says what it needs, and is booted before the time begins: whoever has the package has a machine. What it
lacks of README.md's words, Debian's lists and curl, is within the time. The script answers apt's question with yes.
"""
import argparse
import os
import pathlib
import shutil
import sys
import time

from e2e import ROOT
from e2e.contract.document_blocks import ADDRESSES, DocumentError, Shell, blocks, run_block
from e2e.contract.package import PORT, Machine, listens, new_machine
from e2e.contract.readme_tour import tour_of
from e2e.harness import HarnessError, leave_when_told

MOST_SECONDS = 180
INSTALLS = "apt-get install ./campanile_*.deb\n"
LACKS = "apt-get -q update\napt-get -q install --no-install-recommends curl\n"
TOUR_LACKS = "apt-get -q install --no-install-recommends python3\n"


def way_in():
    """README.md's block that installs the package."""
    found = [block for block in blocks(ROOT / "README.md", "README.md") if INSTALLS in block.content]
    if len(found) != 1:
        raise DocumentError(f"README.md has {len(found)} blocks with {INSTALLS}")
    return found[0].content


class Clock:
    def __init__(self):
        self.began = self.last = time.monotonic()

    def say(self, what):
        now = time.monotonic()
        print(f"readme_package: {what}: {now - self.last:.1f} s, {now - self.began:.1f} s in all", flush=True)
        self.last = now
        return now - self.began


def typed(shell, commands):
    succeeded, printed = shell.run(commands, seconds=MOST_SECONDS)
    print(f"{commands}--- prints:\n{printed}", end="", flush=True)
    if not succeeded:
        raise DocumentError(f"a command failed:\n{commands}")


def follow(shell):
    """Gives the seconds to the first badge."""
    clock, seconds = Clock(), None
    typed(shell, "cd /srv\n" + LACKS)
    clock.say("Debian's lists, and curl")
    typed(shell, way_in())
    clock.say("the package installed, and its socket enabled")
    for block in tour_of("README.md"):
        run_block(shell, block, is_shown=True)
        if seconds is None and "/badge" in block.content:
            seconds = clock.say("README.md's lines, to the badge")
    if seconds is None:
        raise DocumentError("README.md's lines ask for no badge")
    typed(shell, TOUR_LACKS)
    for block in tour_of("docs/tour.md"):
        run_block(shell, block, is_shown=True)
    clock.say("the tour")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--package", required=True, type=pathlib.Path, help="the Debian package")
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="for the machine")
    options = parser.parse_args()
    leave_when_told()
    if os.geteuid() != 0 or not shutil.which("systemd-nspawn"):
        sys.exit("readme_package: root is needed, and systemd-nspawn: apt-get install --no-install-recommends systemd-container")
    if listens():
        sys.exit(f"readme_package: port {PORT} is taken, which the package's socket listens on")
    options.folder.mkdir(parents=True, exist_ok=True)
    root = new_machine(options.folder.resolve())
    shutil.copy(options.package, root / "srv")
    (root / "etc/apt/apt.conf.d/yes").write_text('APT::Get::Assume-Yes "true";\n')
    machine = Machine(root, options.folder / "machine.log")
    print(f"readme_package: a new Debian runs; {ADDRESSES[0]} is its own, too", flush=True)
    shell = Shell("/", words=machine.words())
    try:
        seconds = follow(shell)
    finally:
        shell.close()
        machine.stop()
    if seconds > MOST_SECONDS:
        sys.exit(f"readme_package: the first badge came after {seconds:.1f} s, and {MOST_SECONDS} s are the most")
    print(f"readme_package: from the package to the first badge in {seconds:.1f} s")


if __name__ == "__main__":
    try:
        main()
    except (DocumentError, HarnessError) as error:
        sys.exit(f"readme_package: {error}")
