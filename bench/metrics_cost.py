"""What it costs to count requests for /metrics: the instructions of a badge read, with counting and without
(CAMPANILE_UNSAFE_UNCOUNTED), as callgrind counts them.

A server under valgrind is asked for a badge some thousand times, over one connection. What its start costs cancels out between
a short run and a long one. Each server is asked for /metrics at its end: the one must have counted every read, the other none, or
the same would be measured twice. Exit code 1 if counting costs more than it may, or nothing at all; 2 if something doesn't work.
"""
import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from e2e.harness import JWT_SECRET, die_with_parent, free_port, user_token

SHARE = 1.02          # how many instructions as without
START_SECONDS = 120   # valgrind is slow
SHORT, LONG = 1_000, 5_000
RUNS = 3
TOKEN = "cost-metrics-token-that-is-long-enough"
COUNTED = re.compile(r'^campanile_http_requests_total\{[^}]*route="/badge"[^}]*\} (\d+)', re.MULTILINE)


class CostError(Exception):
    """What keeps the script from measuring."""


class Server:
    """`campanile serve` under callgrind."""

    def __init__(self, binary: str, folder: str, counts: bool) -> None:
        self.port, self.log = free_port(), Path(folder, "log")
        environment = {
            "PATH": os.environ["PATH"], "HOME": folder, "CAMPANILE_JWT_SECRET": JWT_SECRET, "CAMPANILE_METRICS_TOKEN": TOKEN,
            **({} if counts else {"CAMPANILE_UNSAFE_UNCOUNTED": "1"})}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out", binary, "serve",
                 "--port", str(self.port), "--database", f"{folder}/cost.sqlite"],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def read_badges(self, count: int) -> None:
        """Reads the badge of a user whom the server knows by a device: of nobody else is it in memory."""
        headers = {"Authorization": f"Bearer {user_token(JWT_SECRET, 'alice')}"}
        device = json.dumps({"token": "ab" * 32, "platform": "ios"})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        requests = [("POST", "/device_tokens", device), *[("GET", "/badge", None)] * count]
        for method, path, body in requests:
            connection.request(method, path, body, headers | ({"Content-Type": "application/json"} if body else {}))
            response = connection.getresponse()
            if (status := response.status) not in (200, 201):
                raise CostError(f"{method} {path} got {status} {response.read()!r}")
            response.read()
        connection.close()

    def counted(self) -> int:
        """How many badge reads /metrics tells of."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        if response.status != 200 or not text.endswith("# EOF\n"):
            raise CostError(f"GET /metrics got {response.status} {text[-300:]!r}")
        return sum(int(count) for count in COUNTED.findall(text))

    def wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS)
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        raise CostError(f"the server doesn't answer:\n{self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> int:
        """Ends the server. - Returns: the instructions of its life."""
        self.process.terminate()
        self.process.wait(START_SECONDS)
        found = re.search(r"Collected : (\d+)", self.log.read_text(errors="replace"))
        if found is None:
            raise CostError(f"valgrind tells no sum:\n{self.log.read_text(errors='replace')[-2000:]}")
        return int(found[1])


def instructions(binary: str, counts: bool, reads: int) -> int:
    with tempfile.TemporaryDirectory(prefix="campanile-cost-") as folder:
        server = Server(binary, folder, counts)
        try:
            server.wait()
            server.read_badges(reads)
            if (counted := server.counted()) != (reads if counts else 0):
                raise CostError(f"of {reads} reads /metrics tells {counted}, of a server that {'counts' if counts else 'counts nothing'}")
            return server.stop()
        finally:
            if server.process.poll() is None:
                server.process.kill()


def per_read(binary: str, counts: bool) -> float:
    """The least of several runs: what the server does by its timers comes on top, the more the busier the machine is."""
    short, long = (min(instructions(binary, counts, reads) for _ in range(RUNS)) for reads in (SHORT, LONG))
    return (long - short) / (LONG - SHORT)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--binary", required=True, help="the campanile program, of a release build")
    binary = os.path.realpath(parser.parse_args().binary)
    for program, package in (("valgrind", "valgrind"), ("strip", "binutils")):
        if not shutil.which(program):
            raise CostError(f"{program} is missing: apt-get install {package}")
    with tempfile.TemporaryDirectory(prefix="campanile-cost-") as folder:
        # Debian 12's valgrind gives up at the newer of DWARF's forms.
        stripped = os.path.join(folder, "campanile")
        subprocess.run(["strip", "--strip-debug", "-o", stripped, binary], check=True)
        off, on = per_read(stripped, counts=False), per_read(stripped, counts=True)
    print(f"a badge read: {off:,.0f} instructions without counting, {on:,.0f} with it: {on / off:.4f}, at most {SHARE}")
    return 0 if on <= off * SHARE else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CostError as error:
        print(f"metrics_cost: {error}", file=sys.stderr)
        sys.exit(2)
