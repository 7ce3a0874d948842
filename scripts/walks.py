"""Lists the functions of ours that a request enters, and counts their files.

    python3 -m scripts.walks --binary .build/walks/debug/campanile [--against OTHER] [--list]

Counted are functions with a name, initialisers, and computed properties and subscripts with a written body, in the Swift of
Sources/; a getter and its setter are two. Not counted are closures, default arguments, initial values, deinitialisers, and what
the compiler adds. Four walks:

- notification, sqlite: POST /notifications with an API key and an Idempotency-Key, for a user with one iPhone;
- notification, postgres: the same request on PostgreSQL;
- badge, sqlite: GET /badge with a user's token;
- push, sqlite: the alert of such a notification, from the commit until Apple's answer, which the simulator gives, is settled.

The program must count: `make walks` builds it with -profile-generate and -profile-coverage-mapping. The script sends requests
one after the other. After each it reads LLVM's counters in the server's memory, when they have come to rest. A request enters a
function whose count grows with three of four requests or more. So a walk has nothing that timers do, or that is done once, at a
start or for a new user. It has what the server does for a request after its answer: the access log, and a look at the length of
SQLite's log. On a busy machine, requests take so long that some of what a node's timers do is in the walk on PostgreSQL.

The creation of a notification claims its push at once, and the push goes in the background while the creation is answered. To
tell them apart, the script counts creations twice. The first time it waits after each until the push is settled, and counts both.
The second time the simulator stands still: every user has a push in flight, and has deleted the iPhone and registered it again.
Now a creation claims its push as before, and hands it over after the commit; but the server holds it back while another push to
the token is in flight. This is the walk of a creation. The walk of the push is what the first count has more. What both enter,
such as a transaction, is in both.

Exit code 2 if something doesn't work.
"""
import argparse
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e import harness
from e2e.harness import HarnessError, stores

REQUESTS = 200   # twice as many pushes leave more than half of a lane's places free, or a creation wouldn't claim
SETTLED_SECONDS = 60
LOOKS = 10       # at the counters after a request, a millisecond apart

# The header of a profile as a program writes it at its end (LLVM's InstrProfData.inc); then come ids, a record for each function,
# a padding and the counters.
HEADER = struct.Struct("<16Q")
MAGIC, VERSION, RECORD_BYTES = 0xFF6C_7072_6F66_7281, 10, 64
COUNTERS = re.compile(r"^\s*\d+ __llvm_prf_cnts\s+([0-9a-f]+) ([0-9a-f]+)", re.MULTILINE)
# How swift-demangle begins, or ends, the names that don't count.
UNCOUNTED = re.compile(r"(implicit )?closure #|default argument |variable initialization |property wrap|.*\.deinit$")


@dataclass(frozen=True, order=True)
class Function:
    path: str
    line: int
    column: int   # two may stand in a line
    name: str


# How often three of four requests enter each function, or more often.
Walk = dict[Function, int]


class Program:
    """A program that counts, and LLVM's tools, which read what it counts."""

    def __init__(self, binary: str, swift: str, folder: str) -> None:
        self.binary, self.tools, self.folder = os.path.realpath(binary), tools(swift), Path(folder)
        if not os.access(self.binary, os.X_OK):
            raise HarnessError(f"{binary} is not a program; build it first")
        found = COUNTERS.search(self._run("llvm-objdump", "--section-headers", self.binary))
        if found is None:
            raise HarnessError(f"{binary} doesn't count: build it with -profile-generate and -profile-coverage-mapping")
        self.size, self.address = (int(number, 16) for number in found.groups())
        # A profile that has all but the counts.
        empty = self.folder / "empty.profraw"
        subprocess.run([self.binary, "--version"], env={"PATH": os.environ["PATH"], "LLVM_PROFILE_FILE": str(empty)}, check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        self.empty = empty.read_bytes()
        magic, version, ids, records, padding, counters, *_ = HEADER.unpack_from(self.empty)
        if (magic, version & 0xFFFF_FFFF, counters * 8) != (MAGIC, VERSION, self.size):
            raise HarnessError(f"{binary} doesn't write version {VERSION} of LLVM's profiles: adapt walks.py")
        self.begin = HEADER.size + ids + records * RECORD_BYTES + padding

    def _run(self, tool: str, *arguments: str, text: str | None = None) -> str:
        command = [os.path.join(self.tools, tool), *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise HarnessError(f"{tool}: {done.stderr[-2000:]}")
        return done.stdout

    def counters(self, process: int) -> Sequence[int]:
        """All counters of a server that runs."""
        maps = Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines()
        start = min(int(line.split("-")[0], 16) for line in maps if line.endswith(self.binary))
        with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
            memory.seek(start + self.address)
            return array("Q", memory.read(self.size))

    def walk(self, counters: list[int]) -> Walk:
        raw, profile = self.folder / "walk.profraw", self.folder / "walk.profdata"
        raw.write_bytes(self.empty[:self.begin] + array("Q", counters).tobytes() + self.empty[self.begin + self.size:])
        self._run("llvm-profdata", "merge", "-o", str(profile), str(raw))
        told = json.loads(self._run("llvm-cov", "export", "-format=text", f"-instr-profile={profile}", self.binary))
        ours = [one for one in told["data"][0]["functions"] if is_ours(one["filenames"][0])]
        # LLVM may put the file in front of a name.
        mangled = "\n".join(re.split("[:;]", one["name"])[-1] for one in ours)
        names = self._run("swift-demangle", "--compact", "--simplified", text=mangled).splitlines()
        walk: Walk = {}
        for one, name in zip(ours, names, strict=True):
            if not UNCOUNTED.match(name):
                line, column, *_ = one["regions"][0]
                function = Function("Sources/" + one["filenames"][0].rpartition("/Sources/")[2], line, column, name)
                walk[function] = walk.get(function, 0) + one["count"]
        return walk


def is_ours(path: str) -> bool:
    return "/Sources/" in path and "/checkouts/" not in path


def tools(swift: str) -> str:
    """The folder of LLVM's tools that belong to the Swift."""
    told = subprocess.run([f"{swift}c", "-print-target-info"], capture_output=True, check=False).stdout
    resources = json.loads(told or "{}").get("paths", {}).get("runtimeResourcePath", "/")
    folder = os.path.realpath(os.path.join(resources, "../../bin"))
    for name in ("llvm-objdump", "llvm-profdata", "llvm-cov", "swift-demangle"):
        if shutil.which(name, path=folder) is None:
            raise HarnessError(f"{name} is not beside {swift}c")
    return folder


class User:
    """A user with an iPhone."""

    def __init__(self, number: int) -> None:
        self.name, self.token = f"user-{number}", f"{number:064x}"
        self.credential = harness.user_token(harness.JWT_SECRET, self.name)


class Scene:
    """A server, the simulator, and users who have had a notification already."""

    def __init__(self, program: Program, server: harness.Campanile, simulator: harness.Simulator) -> None:
        self.program, self.server, self.simulator = program, server, simulator
        self.key, self.numbers = server.producer_key("walks"), itertools.count(1)
        self.connection, self.users = harness.Connection(server.port), [User(number) for number in range(REQUESTS)]
        for user in self.users:
            self.register(user)
            self.create(user)
        self.wait_until_settled()

    # --- requests

    def ask(self, wanted: int, method: str, path: str, credential: str, body: object = None,
            headers: dict[str, str] | None = None) -> None:
        answer = self.connection.request(method, path, credential=credential, body=body, headers=headers)
        if answer.status != wanted:
            raise HarnessError(f"{method} {path}: {answer!r}")

    def register(self, user: User) -> None:
        self.ask(201, "POST", "/device_tokens", user.credential, {"token": user.token, "platform": "ios"})

    def create(self, user: User) -> None:
        self.ask(201, "POST", "/notifications", self.key, {"user_id": user.name, "title": "A walk", "body": "A step further"},
                 {"Idempotency-Key": f"walk-{next(self.numbers)}"})

    def push(self, user: User) -> None:
        self.create(user)
        self.wait_until_settled()

    def read_badge(self, _: User) -> None:
        self.ask(200, "GET", "/badge", self.users[0].credential)

    # --- what is owed: asked of the database, because requests would count

    def devices(self) -> tuple[int, int]:
        """How many have a push in flight, and how many wait for one."""
        rows = stores.rows(self.server.database, "SELECT count(*) FROM device_tokens WHERE lease <> 0 UNION ALL "
                           "SELECT count(*) FROM device_tokens WHERE lease = 0 AND due_at IS NOT NULL")
        return int(rows[0][0]), int(rows[1][0])

    def wait_until_settled(self) -> None:
        deadline = time.monotonic() + SETTLED_SECONDS
        while self.devices() != (0, 0):
            if time.monotonic() > deadline:
                raise HarnessError(f"of {self.devices()} devices a push was in flight or owed after {SETTLED_SECONDS} s")
            time.sleep(0.001)

    # --- walks

    def counters_at_rest(self) -> Sequence[int]:
        """The counters when they have stayed for a millisecond, or at the last look, as timers may count always."""
        last: Sequence[int] = []
        for _ in range(LOOKS):
            counters = self.program.counters(self.server.process.pid)
            if counters == last:
                break
            last = counters
            time.sleep(0.001)
        return last

    def counted(self, request: Callable[[User], None]) -> Walk:
        """Counts a request of each user."""
        seen = [self.counters_at_rest()]
        for user in self.users:
            request(user)
            seen.append(self.counters_at_rest())
        counts = [0] * len(seen[0])
        for number, (first, last) in enumerate(zip(seen[0], seen[-1])):
            if first != last:
                growths = sorted(after[number] - before[number] for before, after in itertools.pairwise(seen))
                counts[number] = growths[REQUESTS // 4]
        return self.program.walk(counts)

    def creations(self) -> Walk:
        """Counts creations whose pushes are held back. None is answered afterwards."""
        self.simulator.process.send_signal(signal.SIGSTOP)
        for user in self.users:
            self.create(user)
        for user in self.users:
            self.ask(204, "DELETE", f"/device_tokens/{user.token}", user.credential)
            self.register(user)
        before, walk, after = self.devices(), self.counted(self.create), self.devices()
        if (before, after) != ((0, 0), (REQUESTS, 0)):
            raise HarnessError(f"each creation was to claim its push: in flight and owed were {before} before, and are {after}")
        return walk


@contextlib.contextmanager
def scene(program: Program, store: str) -> Iterator[Scene]:
    os.environ["TEST_STORE"] = store
    with harness.temporary_folder("campanile-walks-") as folder:
        simulator = harness.Simulator(program.binary, folder, seed=1)
        with harness.serving(program.binary, configuration=simulator.settings(["default"])) as server:
            try:
                yield Scene(program, server, simulator)
            finally:
                # Told to stop, the server would wait for the simulator's answers.
                server.kill()
                simulator.process.kill()


def walks(binary: str, swift: str) -> dict[str, list[Function]]:
    """The functions of each walk."""
    with harness.temporary_folder("campanile-walks-") as folder:
        program = Program(binary, swift, folder)
        with scene(program, "sqlite") as one:
            badge, both, creation = one.counted(one.read_badge), one.counted(one.push), one.creations()
        with scene(program, "postgres") as one:
            node = one.creations()
    push = {function: count - creation[function] for function, count in both.items()}
    found = {"notification, sqlite": creation, "notification, postgres": node, "badge, sqlite": badge, "push, sqlite": push}
    return {name: sorted(function for function, count in walk.items() if count > 0) for name, walk in found.items()}


def files(walk: list[Function]) -> int:
    return len({function.path for function in walk})


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--binary", required=True, help="the program, from a build that counts")
    parser.add_argument("--against", metavar="OTHER", help="another such program, to compare with")
    parser.add_argument("--list", action="store_true", help="print the functions too, those of --binary")
    parser.add_argument("--swift", default="swift", help="the Swift of the build, beside which LLVM's tools are")
    options = parser.parse_args()
    harness.leave_when_told()
    found = walks(options.binary, options.swift)
    others = walks(options.against, options.swift) if options.against else {}
    for name, walk in found.items():
        numbers = f"{len(walk)} functions in {files(walk)} files"
        if other := others.get(name):
            numbers += (f"; of the other {len(other)} in {files(other)}; ratio {len(walk) / len(other):.2f} and "
                        f"{files(walk) / files(other):.2f}")
        print(f"{name}: {numbers}")
        if options.list:
            print("".join(f"  {one.path}:{one.line} {one.name}\n" for one in walk))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (HarnessError, OSError, subprocess.SubprocessError) as trouble:
        print(f"walks: {trouble}", file=sys.stderr)
        sys.exit(2)
