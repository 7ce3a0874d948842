"""README.md and docs/*.md: every shell command that they show is run, and what it prints compared with what stands there.

A test is a document: its blocks run in order, in a folder where `campanile` is the program and a server of its own serves; only
the port is another. `document_blocks.py` says how a block is written. A block that isn't run says why, and the reason is printed.
Whatever else a document shows belongs to a test by its language, below, or says why to none. And the commands, options and targets
of make that stand in a sentence must be there.
"""
import functools
import html
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from e2e import ROOT
from e2e.contract.document_blocks import ADDRESSES, DocumentError, Shell, blocks, run_block
from e2e.harness import JWT_SECRET, Campanile, HarnessError, free_port, serving, temporary_folder

DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))]
SHELL = {"sh", "console"}
# Shown, not run: what a program or a server prints, and settings of other programs.
SHOWN = {"text", "json"}
# Which test holds a document's blocks of a language. Each names the document.
HOLDERS = {
    ("docs/integration.md", "swift"): "e2e/contract/check_swift.py",
    ("docs/integration.md", "python"): "e2e/contract/documents.py",
    ("docs/client.md", "swift"): "e2e/contract/check_swift.py",
    ("docs/realtime-pages.md", "js"): "e2e/harness/documents.py",
    ("docs/realtime-pages.md", "html"): "e2e/harness/documents.py",
    ("docs/inbox-on-your-page.md", "js"): "e2e/harness/documents.py",
    ("docs/inbox-on-your-page.md", "html"): "e2e/harness/documents.py",
    ("docs/moving-in.md", "sql"): "e2e/contract/moving_in.py",
    **{("docs/sending.md", language): "e2e/contract/producers.py" for language in ("python", "ruby", "js", "go")},
}
# A line that looks like a command in a block that isn't one.
COMMAND = re.compile(r"^(?:\$ |(?:sudo |bundle exec )?(?:campanile|curl|make|docker|npm|pip|systemctl|apt-get|swift|bin/rails|python3) )", re.MULTILINE)
INLINE = re.compile(r"`((?:campanile|make) [^`\n]+)`")
FENCES = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def all_blocks():
    return [block for name in DOCUMENTS for block in blocks(ROOT / name, name)]


def complaint(block):
    """What is wrong with how a block says what it is; None: nothing."""
    holder = HOLDERS.get((block.document, block.language))
    if block.not_run is not None:
        return None if len(block.not_run.split()) >= 3 else "it isn't run, and gives no reason"
    if block.language in SHELL:
        return None
    if COMMAND.search(block.content):
        return "it holds commands: make it ```sh or ```console, or say why it isn't run"
    if not block.language:
        return "it has no language and is no output of a ```sh block: ```text, ```sh, ```console …"
    if block.language in SHOWN or block.file:
        return None
    if holder is None:
        return f"no test holds {block.language} of {block.document}: name one in HOLDERS, or say why it isn't run"
    return None


class World:
    """A document's folder, its server and its shell, started when they are first needed."""

    def __init__(self, folder, binary):
        self.folder = pathlib.Path(folder)
        release = self.folder / ".build/release"
        release.mkdir(parents=True)
        (release / "campanile").symlink_to(os.path.realpath(binary))
        self.server = Campanile(binary, f"{folder}/data/campanile.sqlite", folder)
        # As at `make run`: the server makes its own secret.
        for name in ("CAMPANILE_JWT_SECRET", "CAMPANILE_METRICS_TOKEN"):
            del self.server.environment[name]
        self.server.port = free_port()
        self.shell = Shell(folder, f"{release}:{os.environ['PATH']}", {"CAMPANILE_PORT": str(self.server.port)})
        self.serves = False

    def run(self, block):
        if block.file:
            (self.folder / block.file).write_text(block.content, encoding="utf-8")
            if self.serves:
                self.server.stop()
            self.serves = False
        if block.file or block.language in SHELL:
            if not self.serves:
                self.server.start()
                self.serves = True
        if block.language in SHELL:
            run_block(self.shell, block, f"http://127.0.0.1:{self.server.port}")

    def close(self):
        self.shell.close()
        if self.serves and self.server.process.poll() is None:
            self.server.stop()


def run_document(found, binary):
    with temporary_folder("campanile-document-") as folder:
        world = World(folder, binary)
        try:
            for block in found:
                if block.not_run is None:
                    world.run(block)
        finally:
            world.close()


# --- the documents

@pytest.mark.parametrize("name", [name for name in DOCUMENTS if any(
    block.not_run is None and (block.file or block.language in SHELL) for block in blocks(ROOT / name, name))])
def test_what_a_document_shows_is_so(name, binary):
    run_document(blocks(ROOT / name, name), binary)


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in all_blocks() if block.not_run is not None])
def test_not_run(block):
    if complaint(block):
        pytest.fail(complaint(block))
    pytest.skip(f"{block.place}: {block.not_run}")


def test_every_block_says_what_it_is():
    wrong = [f"{block.place}: {complaint(block)}" for block in all_blocks() if complaint(block)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("document", "language"), HOLDERS)
def test_what_holds_a_language_names_its_document(document, language):
    assert any(block.language == language for block in blocks(ROOT / document, document)), f"{document} shows no {language}"
    words = (ROOT / HOLDERS[document, language]).read_text(encoding="utf-8")
    assert pathlib.Path(document).name in words


@pytest.mark.parametrize(("name", "least"), [("README.md", 1), ("docs/tour.md", 10)])
def test_a_tour_shows_what_it_prints(name, least):
    tour = [block for block in blocks(ROOT / name, name) if block.language == "sh" and block.not_run is None]
    assert sum(block.output is not None for block in tour) >= least


def test_the_python_that_mints_a_user_token(binary):
    minting = [block.content for block in blocks(ROOT / "docs/integration.md", "") if block.language == "python" and block.not_run is None]
    assert len(minting) == 1 and "def user_token" in minting[0]
    with serving(binary) as server:
        source = minting[0] + "\nprint(user_token(7))\n"
        environment = {"PATH": os.environ["PATH"], "CAMPANILE_JWT_SECRET": JWT_SECRET}
        done = subprocess.run([sys.executable, "-S", "-c", source], env=environment, capture_output=True, text=True, check=True)
        connection = server.connection()
        assert connection.request("GET", "/badge", credential=done.stdout.strip()).status == 200
        created = connection.request("POST", "/notifications", credential=server.producer_key("docs"), body={"user_id": "7", "title": "T"})
        assert created.status == 201
        assert connection.request("GET", "/badge", credential=done.stdout.strip()).json()["count"] == 1


# --- the reference

def test_the_curl_lines_of_the_reference_are_understood(binary, tmp_path):
    """Whatever they ask for may not be there; but none is malformed, without its credential, or refused."""
    with serving(binary) as server:
        page = server.connection().request("GET", "/docs").body.decode()
        lines = [html.unescape(line) for line in re.findall(r"<pre><code>(curl [^<]*)</code></pre>", page)]
        environment = {"TOKEN": server.user_token("alice"), "KEY": server.producer_key("docs")}
        for kind in ("operate", "broadcast"):
            environment[f"{kind.upper()}_KEY"] = server.command("keys", "create", f"docs-{kind}", f"--{kind}")[1]
        answers = {}
        for line in lines:
            command = line.replace(ADDRESSES[0], f"http://127.0.0.1:{server.port}")
            # Two seconds of a stream are enough. What isn't answered by then is asked for again: the machine may be busy.
            for seconds in (2, 40):
                done = subprocess.run(
                    ["bash", "-c", command.replace("curl ", f"curl -s -o /dev/null --max-time {seconds} -w '%{{http_code}}' ", 1)],
                    env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True, timeout=60)
                answers[line] = int(done.stdout)
                if answers[line]:
                    break
    assert len(answers) == page.count('<section class="operation"') > 20
    # The usual policy takes no number from a producer.
    given = {line for line in answers if "-X PUT" in line}
    wrong = {line: status for line, status in answers.items() if status not in ((409,) if line in given else (101, 200, 201, 202, 204, 302, 404))}
    assert not wrong and len(given) == 1
    assert sum(status < 400 for status in answers.values()) > 15, answers


# --- where it doesn't build

@pytest.mark.parametrize("target", ["run", "test"])
def test_on_a_mac_make_leads_to_the_containers(target, tmp_path):
    uname = tmp_path / "uname"
    uname.write_text("#!/bin/sh\necho Darwin\n", encoding="utf-8")
    uname.chmod(0o755)
    done = subprocess.run(
        ["make", "--no-print-directory", target], cwd=ROOT, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "  docker compose up\n" in done.stderr, done.stdout + done.stderr
    assert "apt" not in done.stdout + done.stderr


# --- commands within sentences

@functools.cache
def options_of(binary, *words):
    """The options that a command's help names."""
    done = subprocess.run([binary, *words, "--help"], capture_output=True, text=True, timeout=60)
    return set(re.findall(r"--[a-z-]+", done.stdout)), set(re.findall(r"^  ([a-z][a-z-]*) {2,}", done.stdout, re.MULTILINE))


def unknown_in(command, binary, targets):
    """What of a command in a sentence isn't there."""
    try:
        words = shlex.split(re.sub(r"[\[\]]", " ", command))
    except ValueError:
        return "it can't be read"
    if words[0] == "make":
        return next((word for word in words[1:2] if re.fullmatch(r"[a-z-]+", word) and word not in targets), None)
    path = []
    options, below = options_of(binary)
    for word in words[1:]:
        if word in below:
            path.append(word)
            options, below = options_of(binary, *path)
        elif below and re.fullmatch(r"[a-z][a-z-]*", word):
            return word
        elif word.startswith("--") and word.split("=")[0] not in options:
            return word
    return None


def test_commands_in_sentences_are_there(binary):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets, wrong, count = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)), [], 0
    for name in DOCUMENTS:
        for command in INLINE.findall(FENCES.sub("", (ROOT / name).read_text(encoding="utf-8"))):
            count += 1
            unknown = unknown_in(command, binary, targets)
            if unknown:
                wrong.append(f"{name}: `{command}`: there is no {unknown}")
    assert count > 50 and not wrong, "\n".join(wrong)


def test_a_command_that_is_not_there_is_seen(binary):
    assert unknown_in("campanile keys create shop --app A", binary, set()) is None
    assert unknown_in("campanile kyes create shop", binary, set()) == "kyes"
    assert unknown_in("campanile keys make shop", binary, set()) == "make"
    assert unknown_in("campanile token USER --tll 24h", binary, set()) == "--tll"
    assert unknown_in("make tset", binary, {"test"}) == "tset"


# --- controls: what must fail

def document(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return blocks(path, "page.md")


@pytest.mark.parametrize("text", [
    "```sh\necho one\n```\n\n```\ntwo\n```\n",
    "```sh\nfalse\n```\n",
    "```sh\nfalse | cat\ncurl -s http://127.0.0.1:3001/nowhere\n```\n",
    "```sh\ncampanile nothing\n```\n",
    "```console\n$ echo one\ntwo\n```\n",
    "```console\n$ true\nError: it fails\n```\n",
    "```console\nno command\n```\n",
    "<!-- set-up: false -->\n```sh\ntrue\n```\n",
    "<!-- file: campanile.yaml -->\n```yaml\nprot: 1\n```\n",
], ids=["output", "failure", "refusal", "command", "console", "no error", "no command", "set-up", "setting"])
def test_a_wrong_block_fails(text, tmp_path, binary):
    with pytest.raises((DocumentError, HarnessError)):
        run_document(document(tmp_path, text), binary)


def test_a_right_block_passes(tmp_path, binary):
    run_document(document(tmp_path, (
        "<!-- file: campanile.yaml -->\n```yaml\nconsole: true\n```\n\n"
        "<!-- set-up: name=alice -->\n```sh\ncurl -s http://127.0.0.1:3001/healthz\necho\necho $name; echo $RANDOM\n```\n\n"
        "```\n{\"status\":\"ok\"}\nalice\n…\n```\n\n"
        "```console\n$ echo one \\\n    two\none two\n$ campanile token\nError: …\n…\n```\n")), binary)


@pytest.mark.parametrize("text", [
    "```\ncurl http://127.0.0.1:3001\n```\n",
    "```text\ncampanile serve\n```\n",
    "```\nwhat is this\n```\n",
    "<!-- not run: no -->\n```sh\nmake\n```\n",
    "```perl\nprint 1\n```\n",
    "<!-- not run: a reason that is one -->\n```sh\ntrue\n```\n\n```\nan output of nothing\n```\n",
], ids=["no language", "in disguise", "no output", "no reason", "no test", "not run"])
def test_an_unmarked_block_that_nobody_runs_fails(text, tmp_path):
    assert any(complaint(block) for block in document(tmp_path, text))
