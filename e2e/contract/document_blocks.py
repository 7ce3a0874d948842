"""The blocks of code in README.md and docs/*.md: what stands before them, which of them a shell runs, and that shell.

A block says by its language what it is. ```sh blocks are run, a document's in order in one bash; a block without a language after
one is what that prints: `…` stands for anything within a line, a line of `…` alone for any number of lines. ```console blocks
show commands after `$ ` and below each what it prints; one that prints `Error:` must fail, and all others must succeed. Comments
before a block, which no reader sees, say more:

    <!-- not run: the reason -->         nobody runs it, or a test that the reason names does
    <!-- set-up: shell commands -->      run before the block, in the same shell
    <!-- file: campanile.yaml -->        the block is written to this file; a server that runs is started again with it
"""
import contextlib
import dataclasses
import os
import queue
import re
import signal
import subprocess
import threading
import time

ADDRESSES = ("http://127.0.0.1:3001", "https://push.example.com")
BLOCK_SECONDS = 60   # a command that takes longer hangs
PUSH_SECONDS = 30    # until a push is recorded; a debug binary on a busy machine is slow
END = "--- end of block ---"
FENCE = re.compile(r"^((?:<!-- (?:(?!-->).)*-->\n+)*)```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (not run|set-up|file):\s+((?:(?!-->).)*?)\s*-->", re.DOTALL)


class DocumentError(Exception):
    """A document and the program disagree, or a block says not what it is."""


@dataclasses.dataclass
class Block:
    document: str
    line: int
    language: str
    content: str
    not_run: str | None = None
    set_up: str | None = None
    file: str | None = None
    output: str | None = None

    @property
    def place(self):
        return f"{self.document}:{self.line}"

    @property
    def commands(self):
        """Each command with what the block says that it prints; None: the block says nothing of it."""
        if self.language == "sh":
            return [(self.content, self.output)]
        parts = re.split(r"^\$ ", self.content, flags=re.MULTILINE)
        if parts[0] or len(parts) == 1:
            raise DocumentError(f"{self.place}: a console block begins with `$ ` and a command")
        return [self._split(part) for part in parts[1:]]

    @staticmethod
    def _split(part):
        """A command goes on over lines that end with a backslash."""
        lines = part.splitlines(keepends=True)
        end = next(number for number, line in enumerate(lines) if not line.endswith("\\\n")) + 1
        return "".join(lines[:end]), "".join(lines[end:]) or None


def blocks(path, name=None):
    """A document's blocks in order."""
    text, name, found = path.read_text(encoding="utf-8"), name or str(path), []
    for fence in FENCE.finditer(text):
        before, language, content = fence.groups()
        block = Block(name, text.count("\n", 0, fence.start(2)) + 1, language, content)
        for kind, value in MARK.findall(before):
            setattr(block, kind.replace(" ", "_").replace("-", "_"), value)
        printed = found and found[-1].language == "sh" and not found[-1].not_run and found[-1].output is None
        if not language and not before and printed:
            found[-1].output = content
        else:
            found.append(block)
    if len(re.findall(r"^ *```", text, re.MULTILINE)) != 2 * len(FENCE.findall(text)):
        raise DocumentError(f"{name}: a block begins or ends other than with ``` at the beginning of a line")
    return found


def pattern(output):
    """What an output allows, as a regular expression for the whole output."""
    lines = []
    for line in output.splitlines():
        if line.strip() == "…":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            lines.append(r"[^\n]*?".join(re.escape(part) for part in line.split("…")) + r"\n")
    return re.compile("".join(lines))


class Shell:
    """One bash that runs block after block; elsewhere than here, if `words` lead there."""

    def __init__(self, folder, path=None, environment=None, words=()):
        self.process = subprocess.Popen(
            [*words, "bash", "--noprofile", "--norc"], cwd=folder, text=True, bufsize=1, start_new_session=True,
            env={"PATH": path or os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8", **(environment or {})},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        # An answer of 4xx or 5xx must fail, whatever the document prints of it. A command may say so itself, with -f.
        self._write("curl() { case \" $*\" in *' -f'*) command curl \"$@\";; *) command curl --fail-with-body \"$@\";; esac; }\n")

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _write(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def run(self, commands, in_a_shell_below=False, seconds=BLOCK_SECONDS):
        """(whether all commands succeeded, what they printed)."""
        begin, end = ("(set -eo pipefail\n", ")") if in_a_shell_below else ("set -eo pipefail\n{\n", "}")
        self._write(f"{begin}{commands}{end} </dev/null\nprintf '\\n%s %s\\n' '{END}' $?\nset +eo pipefail\n")
        deadline, printed = time.monotonic() + seconds, []
        while True:
            try:
                line = self.lines.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise DocumentError(f"did not end within {seconds:.0f} s:\n{commands}") from None
            if line is None:
                return False, "".join(printed)
            if line.startswith(END):
                return line.split()[-1] == "0", "".join(printed)[:-1]
            printed.append(line)

    def close(self):
        """And what it started in the background."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run_block(shell, block, address=ADDRESSES[0], is_shown=False):
    """Runs a block's commands and compares what they print. One that asks for /sandbox/pushes is repeated until it fits, as pushes
    go out after the answer that owes them; and one with a limit of time, which is short for a busy machine."""

    def placed(text):
        for shown in ADDRESSES:
            text = text.replace(shown, address)
        return text

    if block.set_up:
        succeeded, printed = shell.run(placed(block.set_up) + "\n")
        if not succeeded:
            raise DocumentError(f"{block.place}: its set-up failed:\n{block.set_up}\n--- printed:\n{printed}")
    for commands, output in block.commands:
        fails = (output or "").startswith("Error:")
        repeats = any(word in commands for word in ("/sandbox/pushes", "--max-time"))
        deadline = time.monotonic() + PUSH_SECONDS
        while True:
            succeeded, printed = shell.run(placed(commands), in_a_shell_below=repeats or fails)
            # Where an answer ends without a new line, a terminal's next prompt would stand beside it.
            if block.language == "console" and printed and not printed.endswith("\n"):
                printed += "\n"
            if succeeded != fails and (output is None or pattern(placed(output)).fullmatch(printed)):
                break
            if not repeats or time.monotonic() > deadline:
                raise DocumentError(
                    f"{block.place}: {'prints something else' if succeeded != fails else 'a command succeeded' if succeeded else 'a command failed'}:\n"
                    f"{commands}--- printed:\n{printed}--- {block.document} says:\n{output or '(nothing)'}")
            time.sleep(0.1)
        if is_shown:
            print(f"{commands}--- prints:\n{printed}", flush=True)
