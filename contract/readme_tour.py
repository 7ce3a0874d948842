"""Runs README.md's tour as a newcomer would paste it, and compares what it prints with what README.md says.

The tour stands between `<!-- tour -->` and `<!-- end of tour -->`. Its ```sh blocks run in order in one bash, in an empty
folder where .build/release/campanile is the binary and a server of this script's own serves; only the port is another. Every
command must succeed, and no call may be answered with an error. A ``` block after a ```sh block is what that prints: `…`
stands for anything within a line, a line of `…` alone for any number of lines. Pushes go out after the answer that owes
them, so a block that asks for /sandbox/pushes is repeated until it fits.

With --served nothing stands in for anything: `make run` serves at README.md's own address, from the clone in which the commands
run (scripts/stranger.sh); what is typed and printed is shown.
"""
import argparse
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time

from harness import Campanile, HarnessError, temporary_folder

ROOT = pathlib.Path(__file__).resolve().parent.parent

README_ADDRESS = "http://127.0.0.1:3001"
BLOCK_SECONDS = 60   # a command that takes longer hangs
PUSH_SECONDS = 30    # until a push is recorded; a debug binary on a busy machine is slow
MARK = "--- end of block ---"


class TourError(Exception):
    """README.md and the program disagree."""


class Block:
    def __init__(self, line, commands, output):
        self.line, self.commands, self.output = line, commands, output

    @property
    def is_repeatable(self):
        return "/sandbox/pushes" in self.commands


def read_tour(path):
    """The blocks of the tour with the line each begins in."""
    text = path.read_text(encoding="utf-8")
    parts = re.split(r"^<!-- (?:end of )?tour -->$", text, flags=re.MULTILINE)
    if len(parts) != 3:
        raise TourError(f"{path}: the tour must stand between <!-- tour --> and <!-- end of tour -->")
    first_line = parts[0].count("\n") + 1
    blocks = []
    for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", parts[1], flags=re.MULTILINE | re.DOTALL):
        language, content = fence.groups()
        line = first_line + parts[1].count("\n", 0, fence.start())
        if language == "sh":
            blocks.append(Block(line, content, None))
        elif language == "" and blocks and blocks[-1].output is None:
            blocks[-1].output = content
        else:
            raise TourError(f"{path}:{line}: this block is neither ```sh nor the output of one")
    if sum(block.output is not None for block in blocks) < 5:
        raise TourError(f"{path}: the tour shows hardly any output; there is nothing to compare")
    return blocks


def pattern(output):
    """What an output block allows, as a regular expression for the whole output."""
    lines = []
    for line in output.splitlines():
        if line.strip() == "…":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            lines.append(r"[^\n]*?".join(re.escape(part) for part in line.split("…")) + r"\n")
    return re.compile("".join(lines))


class Shell:
    """One bash that runs block after block."""

    def __init__(self, folder):
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        # An answer of 4xx or 5xx must fail, whatever the tour prints of it.
        self._write("curl() { command curl --fail-with-body \"$@\"; }\n")

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _write(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def run(self, block):
        """(whether all commands succeeded, what they printed). A block that may be repeated runs in a shell below."""
        begin, end = ("(set -eo pipefail\n", ")") if block.is_repeatable else ("set -eo pipefail\n{\n", "}")
        self._write(f"{begin}{block.commands}{end} </dev/null\nprintf '\\n%s %s\\n' '{MARK}' $?\nset +eo pipefail\n")
        deadline, printed = time.monotonic() + BLOCK_SECONDS, []
        while True:
            try:
                line = self.lines.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise TourError(f"the block at line {block.line} did not end within {BLOCK_SECONDS} s") from None
            if line is None:
                return False, "".join(printed)
            if line.startswith(MARK):
                return line.split()[-1] == "0", "".join(printed)[:-1]
            printed.append(line)

    def close(self):
        self.process.kill()
        self.process.wait()


def run_block(shell, block, is_shown=False):
    deadline = time.monotonic() + PUSH_SECONDS
    while True:
        succeeded, printed = shell.run(block)
        fits = succeeded and (block.output is None or pattern(block.output).fullmatch(printed))
        if fits:
            if is_shown:
                print(f"{block.commands}--- prints:\n{printed}", flush=True)
            return
        if not block.is_repeatable or time.monotonic() > deadline:
            raise TourError(
                f"README.md:{block.line}: {'prints something else' if succeeded else 'a command failed'}:\n"
                f"{block.commands}--- printed:\n{printed}--- README.md says:\n{block.output or '(nothing)'}")
        time.sleep(0.1)


def run_tour(blocks, binary, folder):
    release = pathlib.Path(folder, ".build/release")
    release.mkdir(parents=True)
    (release / "campanile").symlink_to(binary.resolve())
    server = Campanile(str(binary), f"{folder}/data/campanile.sqlite", folder)
    del server.environment["CAMPANILE_JWT_SECRET"]  # as at `make run`: the server makes its own
    server.start()
    shell = Shell(folder)
    try:
        for block in blocks:
            block.commands = block.commands.replace(README_ADDRESS, f"http://127.0.0.1:{server.port}")
            run_block(shell, block)
    finally:
        shell.close()
    server.stop()


def run_served_tour(blocks):
    shell = Shell(str(ROOT))
    try:
        for block in blocks:
            run_block(shell, block, is_shown=True)
    finally:
        shell.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--binary", type=pathlib.Path, help="the campanile program")
    how.add_argument("--served", action="store_true", help="`make run` serves already, from this clone")
    parser.add_argument("--readme", default=ROOT / "README.md", type=pathlib.Path, help="default: %(default)s")
    options = parser.parse_args()
    if options.binary and not os.access(options.binary, os.X_OK):
        parser.error(f"{options.binary} is not a program; build it first")
    blocks = read_tour(options.readme)
    if options.served:
        run_served_tour(blocks)
    else:
        with temporary_folder("campanile-tour-") as folder:
            run_tour(blocks, options.binary, folder)
    compared = sum(block.output is not None for block in blocks)
    print(f"readme_tour: {len(blocks)} blocks ran, the output of {compared} was as README.md says")


if __name__ == "__main__":
    try:
        main()
    except (TourError, HarnessError) as error:
        sys.exit(f"readme_tour: {error}")
