"""Starts a campanile of its own, makes a user token, a producer key and a little to read, and runs schemathesis on it.

Exit code 0: no check failed. Everything it starts and writes is gone afterwards.
"""
import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys

from e2e import ROOT
from e2e.harness import Campanile, HarnessError, stores, temporary_folder

HERE = pathlib.Path(__file__).resolve().parent

EXAMPLES_PER_ROUND = 25
USER = "alice"
DEVICE_TOKEN = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"


# So that the documents have something in them. The tree is another app's: a random link would be none of its screens.
CONFIGURATION = """
path_configuration:
  ios:
    v1:
      settings: {search: true, tabs: [{title: Home, path: /}, {icon: bell, path: /notifications, notifications: true}]}
      rules: [{patterns: [/new$], properties: {context: modal}}]
  android: {v1: {rules: [{patterns: [.*], properties: {uri: "hotwire://fragment/web"}}]}}
apps:
  own_inbox: {badge: {policy: given}}
  shop:
    deep_links: {home: {title: Home, web: /, children: {":id": {query: {page: integer}, min_app_version: {ios: 2.1}}}}}
"""


def parse():
    parser = argparse.ArgumentParser(
        prog="e2e/contract/schemathesis.sh", description=__doc__.split("\n\n")[0],
        epilog="With arguments after --, schemathesis runs once with them: -- --phases fuzzing --include-operation-id getBadge")
    parser.add_argument("--binary", default=ROOT / ".build/debug/campanile", type=pathlib.Path, help="default: %(default)s")
    parser.add_argument("--examples", default=50, type=int, help="examples an operation (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="repeats the choices of a run (printed)")
    parser.add_argument("--keep-log", type=pathlib.Path, help="where to copy the server's log afterwards")
    parser.add_argument("more", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    if not os.access(options.binary, os.X_OK):
        parser.error(f"{options.binary} is not a program; build it first (make build)")
    return options


def expect(answer, *statuses):
    if answer.status not in statuses:
        raise HarnessError(f"a fixture got {answer!r}")


def fixtures(server):
    """A user with a device and three notifications, so that lists have pages; and the credentials."""
    token, key = server.user_token(USER), server.producer_key("contract")
    operate = server.command("keys", "create", "contract-operate", "--operate")[1]
    broadcast = server.command("keys", "create", "contract-broadcast", "--broadcast")[1]
    own_inbox = server.command("keys", "create", "contract-own-inbox", "--app", "own_inbox")[1]
    connection = server.connection()
    expect(connection.request("POST", "/device_tokens", credential=token, body={"token": DEVICE_TOKEN, "platform": "ios"}), 201)
    for number in range(3):
        body = {"user_id": USER, "title": f"Fixture {number}", "category": "ORDER_UPDATE"}
        expect(connection.request("POST", "/notifications", credential=key, body=body), 201)
    connection.close()
    return {
        "CONTRACT_USER": USER, "CONTRACT_USER_TOKEN": token, "CONTRACT_PRODUCER_KEY": key, "CONTRACT_OPERATE_KEY": operate,
        "CONTRACT_OWN_INBOX_KEY": own_inbox, "CONTRACT_BROADCAST_KEY": broadcast,
        "CONTRACT_DEVICE_TOKEN": DEVICE_TOKEN}


class Schemathesis:
    """`schemathesis run` on one server, with the checks and settings that all runs share."""

    def __init__(self, server, folder, options):
        self.options, self.folder = options, folder
        self.command = [
            str(pathlib.Path(sys.executable).parent / "schemathesis"), "--config-file", str(HERE / "schemathesis.toml"),
            "run", str(ROOT / "openapi.yaml"), "--url", f"http://127.0.0.1:{server.port}", "--checks", "all",
            "--max-examples", str(options.examples), "--generation-database", "none",
            # A stream has no end to wait for; authorization_matrix.py and the Swift tests hold them to their contract.
            "--exclude-tag", "streams"]
        self.environment = {
            **os.environ, **fixtures(server), "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"), "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, seed, *arguments, **settings):
        return subprocess.run(
            [*self.command, "--seed", str(seed), *arguments], cwd=self.folder, env=self.environment, **settings)

    def operations(self):
        """Every operation by itself: the document's examples, the edges of every schema, and random requests."""
        print("Operations one by one", flush=True)
        return self.run(self.options.seed, "--phases", "examples,coverage,fuzzing").returncode == 0

    def chains(self):
        """Requests that follow the document's links. An answer depends on what is there, so a random chain can't be repeated
        exactly, and Hypothesis ends its search when it notices; several rounds make up for it."""
        scenarios = requests = 0
        rounds = -(-self.options.examples // EXAMPLES_PER_ROUND)
        for number in range(rounds):
            done = self.run(self.options.seed + number, "--phases", "stateful", capture_output=True, text=True)
            if done.returncode != 0:
                print(done.stdout, done.stderr, sep="\n", flush=True)
                return False
            scenarios += int(re.search(r"Scenarios:\s+(\d+)", done.stdout)[1])
            requests += int(re.search(r"(\d+) generated", done.stdout)[1])
        print(f"Chains of links: {rounds} rounds, {scenarios} chains, {requests} requests, no issues found", flush=True)
        return True


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # runs what is to be cleaned up
    with temporary_folder("campanile-contract-") as folder:
        pathlib.Path(folder, "campanile.yaml").write_text(CONFIGURATION, encoding="utf-8")
        server = Campanile(str(options.binary), stores.new_database(folder), folder, {"CAMPANILE_CONSOLE": "true"})
        server.start()
        try:
            print(f"e2e/contract/schemathesis.sh: seed {options.seed}", flush=True)
            run = Schemathesis(server, folder, options)
            if options.more:
                holds = [run.run(options.seed, *options.more).returncode == 0]
            else:
                # Both, so that one failing operation doesn't hide a broken chain.
                holds = [run.operations(), run.chains()]
            if server.process.poll() is not None:
                raise HarnessError(f"the server died during the run:\n{server.log_tail()}")
            server.stop()
        finally:
            if options.keep_log:
                options.keep_log.write_bytes(pathlib.Path(server.log).read_bytes())
    return 0 if all(holds) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HarnessError as error:
        sys.exit(f"e2e/contract/schemathesis.sh: {error}")
