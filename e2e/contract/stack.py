"""compose.yaml without an engine: its rules, and its services started from the file, in a network of their own.

Reads the services' commands, variables, volumes, ports, secrets and conditions from compose.yaml and runs them with the image
that scripts/image.sh built (image_root.py). Then does what somebody does who tries it: runs the printed lines, looks at the
phones, starts it all again, and serves with the profile `production`. Exit code 1 if anything is wrong. Needs root.

What an engine would do besides: build and pull, limits of memory and processes, logs, a network interface for each service
(here all share the loopback interface of one network, each with an address of its own).
"""
import argparse
import json
import os
import pathlib
import re
import selectors
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request

from e2e import ROOT

try:
    import yaml

    from e2e.contract.image_root import Container, Image
    from e2e.harness import HarnessError, Report, temporary_folder
    from e2e.harness.network import enter_network
    from e2e.harness.nginx import replaced
except ImportError as error:
    sys.exit(f"stack.py: {error}: run it with $({ROOT}/e2e/venv.sh)")

WAIT_SECONDS = 60
FILE = ROOT / "compose.yaml"
# What the demo makes at its first start, in its volume.
SECRETS = ("demo.key", "campanile.sqlite.jwt_secret", "simulator/simulator-ca.key", "simulator/service-account.json")


# --- the rules

def check_rules(document, report):
    for name, service in document["services"].items():
        for port in service.get("ports", []):
            report.check("rules", port.startswith("127.0.0.1:"), f"{name} is reachable from outside by {port}")
        for key, wanted in {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}.items():
            report.check("rules", service.get(key) == wanted, f"{name}: {key}")
        report.check("rules", not service.get("privileged") and "user" not in service, f"{name} has more than the image's user")
    words = FILE.read_text()
    report.check("rules", not re.search(r"cmp_|BEGIN|eyJ|[A-Za-z0-9+/]{32}", words), "something like a secret stands in the file")
    by_itself = [name for name, service in document["services"].items() if not service.get("profiles")]
    report.check("rules", by_itself == ["simulator", "campanile", "seed"], f"by itself it starts {by_itself}")
    # Compose builds all at once, and two builds of one name get into each other's way; who builds none waits for who does.
    for names in [by_itself, *([name] for name, one in document["services"].items() if one.get("profiles"))]:
        builders = [name for name in names if "build" in document["services"][name]]
        report.check("rules", builders == names[:1], f"of {names} these build the one image: {builders}")
        fetched = [name for name in names if document["services"][name].get("pull_policy") != "never"]
        report.check("rules", not fetched, f"these may fetch an image of that name from somewhere: {fetched}")
    missing = "docker-compose is missing, so it wasn't asked: scripts/setup.sh tests installs it"
    if report.check("rules", shutil.which("docker-compose") is not None, missing):
        for arguments in ([], ["--profile", "production"]):
            done = subprocess.run(["docker-compose", "--file", str(FILE), *arguments, "config", "--quiet"],
                                  capture_output=True, text=True)
            report.check("rules", done.returncode == 0, f"docker-compose config: {done.stderr}")
        print("rules: docker-compose takes the file, also with the profile production")


def check_seed(report):
    """It says what failed: a command's own words, and a server that hangs up."""
    with temporary_folder("campanile-seed-") as name, socket.create_server(("127.0.0.1", 0)) as server:
        folder, port = pathlib.Path(name), server.getsockname()[1]
        seed = replaced((ROOT / "packaging/seed.sh").read_text(), ("/data/", f"{folder}/"), ("/campanile/3001", f"/127.0.0.1/{port}"))

        def run(program):
            command = folder / "campanile"
            command.write_text(f"#!/bin/sh\n{program}\n")
            command.chmod(0o755)
            return subprocess.Popen(["bash", "-c", seed], env={"PATH": f"{folder}:{os.environ['PATH']}"}, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        seeding = run("echo the reason >&2; exit 1")
        said = seeding.communicate(timeout=WAIT_SECONDS)[1]
        report.check("rules", seeding.returncode == 1 and "the reason" in said, f"seed.sh hides why it can't make a key: {said!r}")
        report.check("rules", not (folder / "demo.key").exists(), "seed.sh leaves an empty key")
        seeding = run("echo made")
        server.settimeout(WAIT_SECONDS)
        with server.accept()[0] as client:
            request = b""
            while not request.endswith(b"}") and (part := client.recv(65_536)):
                request += part
        said = seeding.communicate(timeout=WAIT_SECONDS)[1]
        report.check("rules", seeding.returncode == 1 and "seed: POST /device_tokens" in said,
                     f"seed.sh says nothing of a server that hangs up: {said!r}")


# --- a network

class Published:
    """A published port: hands on what comes to 127.0.0.1. Not needed where the service listens on every address."""

    def __init__(self, port, address, target):
        self.listening = socket.create_server(("127.0.0.1", port))
        self.to = (address, target)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._hand_on, args=(client,), daemon=True).start()

    def _hand_on(self, client):
        with client, socket.create_connection(self.to) as service, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, service)
            selector.register(service, selectors.EVENT_READ, client)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(65_536)
                    if not data:
                        return
                    key.data.sendall(data)

    def close(self):
        # A thread that waits in accept() would keep a socket that is only closed.
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()


# --- the services

class Stack:
    """The services of the file in one network. `folder` holds the volumes and what stands in for the engine's files."""

    def __init__(self, document, image, folder, names):
        self.document, self.image, self.folder = document, image, folder
        self.services = {name: document["services"][name] for name in names}
        self.addresses = {name: f"127.0.1.{number}" for number, name in enumerate(self.services, 1)}
        self.containers, self.published = {}, []

    def hosts(self):
        lines = ["127.0.0.1 localhost"] + [f"{address} {name}" for name, address in self.addresses.items()]
        return "\n".join(lines) + "\n"

    def volume(self, name):
        """Made empty and given what lies in the image at its place: here the owner and the rights of /data."""
        path = self.folder / "volumes" / name
        if not path.exists():
            path.mkdir(parents=True)
            like = self.image.path("/data").stat()
            os.chown(path, like.st_uid, like.st_gid)
            os.chmod(path, like.st_mode & 0o7777)
        return path

    def mounts(self, service):
        for entry in service.get("volumes", []):
            if isinstance(entry, dict):
                yield self.here(entry["source"]), entry["target"], not entry.get("read_only")
                continue
            source, target, *options = entry.split(":")
            path = self.volume(source) if source in self.document["volumes"] else self.here(source)
            yield path, target, "ro" not in options
        for name in service.get("secrets", []):
            yield self.here(self.document["secrets"][name]["file"]), f"/run/secrets/{name}", False

    def here(self, path):
        """A file beside compose.yaml, or one that was put into its place for the test."""
        own = self.folder / path
        return own if own.exists() else (ROOT / path).resolve(strict=True)

    def up(self):
        waiting = dict(self.services)
        turn = len(list(self.folder.glob("run-*")))
        while waiting:
            name = next(one for one, service in waiting.items() if not set(service.get("depends_on", {})) & set(waiting))
            service = waiting.pop(name)
            for other, condition in service.get("depends_on", {}).items():
                if condition["condition"] == "service_healthy":
                    self.wait_until_healthy(other)
            container = Container(
                self.image, self.folder / f"run-{turn}" / name, service.get("command"), entrypoint=service.get("entrypoint"),
                environment=service.get("environment"), mounts=self.mounts(service), hosts=self.hosts(),
                read_only=service.get("read_only", False))
            container.start()
            self.containers[name] = container
            for port in service.get("ports", []):
                _, outside, inside = port.split(":")
                self.publish(name, int(outside), int(inside))

    def publish(self, name, outside, inside):
        deadline = time.monotonic() + WAIT_SECONDS
        while not reachable(self.addresses[name], inside):
            self.containers[name].own_process()
            if time.monotonic() > deadline:
                raise HarnessError(f"{name} doesn't listen on {inside}:\n{self.containers[name].output()}")
            time.sleep(0.05)
        if not reachable("127.0.0.1", outside):
            self.published.append(Published(outside, self.addresses[name], inside))

    def wait_until_healthy(self, name):
        check = self.services[name]["healthcheck"]["test"]
        deadline = time.monotonic() + WAIT_SECONDS
        while self.containers[name].run(*check[1:])[0] != 0:
            if time.monotonic() > deadline:
                raise HarnessError(f"{name} doesn't become healthy:\n{self.containers[name].output()}")
            time.sleep(0.2)

    def finish(self, name):
        """The exit status of a service that ends by itself."""
        return self.containers[name].process.wait(WAIT_SECONDS)

    def down(self):
        """Exit statuses, in the order that an engine stops them in."""
        for one in self.published:
            one.close()
        self.published.clear()
        codes = {}
        for name, container in reversed(self.containers.items()):
            if container.process.poll() is None:
                codes[name] = container.stop()
            container.remove()
        self.containers.clear()
        return codes


def reachable(address, port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


def fetch(url):
    with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as response:
        return response.read().decode()


def until(holds, report, kind, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not (good := holds()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return report.check(kind, good, what)


# --- what somebody does who tries it

def printed_lines(text):
    """The commands; a line that ends with a backslash goes on in the next."""
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.startswith("  curl ")]


def run_line(line):
    done = subprocess.run(["bash", "-c", line.replace("curl ", "curl --silent --show-error --fail ", 1)],
                          capture_output=True, text=True, timeout=WAIT_SECONDS)
    return done.returncode, done.stdout, done.stderr


def badges():
    devices = json.loads(fetch("http://127.0.0.1:2198/devices"))["devices"]
    return sorted((one["platform"], one["badge"]) for one in devices)


def check_demo(document, image, folder, report):
    stack = Stack(document, image, folder, [name for name, one in document["services"].items() if not one.get("profiles")])
    secrets = {}
    # What was opened and not read counts again when something new arrives; a command made one between the starts.
    for turn, number in (("first", 1), ("second", 3)):
        stack.up()
        code = stack.finish("seed")
        text = stack.containers["seed"].output()
        if not report.check("demo", code == 0, f"seed exited {code}:\n{text}"):
            print(stack.containers["campanile"].output()[-3000:])
            return
        lines = printed_lines(text)
        report.check("demo", len(lines) == 2, f"the lines to try: {lines}")
        code, out, err = run_line(lines[0])
        report.check("demo", code == 0 and '"title":"Hello"' in out, f"{lines[0]}: {err}")
        shown = [("android", number), ("ios", number), ("ios", number)]
        until(lambda: badges() == shown, report, "demo", lambda: f"the phones: {badges()}")
        code, out, err = run_line(lines[1])
        report.check("demo", code == 0 and '"badge":{"count":0' in out, f"{lines[1]}: {err} {out[-300:]}")
        until(lambda: [one for one in badges() if one[0] == "ios"] == [("ios", 0)] * 2, report, "demo",
              lambda: f"the phones after the inbox was opened: {badges()}")
        report.check("demo", "<html" in fetch("http://127.0.0.1:2198/"), "no page of phones")
        report.check("demo", "<html" in fetch("http://127.0.0.1:3001/console"), "no console")
        volume = stack.volume("demo")
        now = {one: (volume / one).read_bytes() for one in SECRETS}
        for one in now:
            report.check("demo", (volume / one).stat().st_mode & 0o077 == 0, f"{one} can be read by others")
        report.check("demo", secrets in ({}, now), "the second start made new secrets")
        secrets = now
        code, out, err = stack.containers["campanile"].run("campanile", "notify", "alice", "Hello", "from a command")
        report.check("demo", code == 0, f"a command beside the server: {err}")
        codes = stack.down()
        report.check("demo", codes == {"campanile": 0, "simulator": 0}, f"they stopped with {codes}")
        print(f"demo: {turn} start: seeded, the printed lines worked, the phones showed {number} and 0, stopped in order")
    other = Stack(document, image, folder / "other", stack.services)
    (folder / "other").mkdir()
    other.up()
    other.finish("seed")
    report.check("demo", (other.volume("demo") / "demo.key").read_bytes() != secrets["demo.key"], "two installations share a key")
    other.down()


def check_production(document, image, folder, report):
    """With stand-ins for the operator's files: credentials that the simulator made."""
    keys = next((folder / "volumes/demo/simulator").glob("AuthKey_*.p8"))
    account = folder / "volumes/demo/simulator/service-account.json"
    own = folder / "production"
    own.mkdir()
    shutil.copy(keys, own / "apns_key.p8")
    shutil.copy(account, own / "fcm_service_account.json")
    guide = (ROOT / "docs/containers.md").read_text()
    settings = re.search(r"```yaml\n(# production/campanile\.yaml\n.*?)```", guide, re.S)
    if not report.check("production", settings is not None, "docs/containers.md shows no production/campanile.yaml"):
        return
    (own / "campanile.yaml").write_text(settings[1])
    uid, gid = image.user()
    for one in own.iterdir():
        os.chown(one, uid, gid)
        one.chmod(0o400)
    stack = Stack(document, image, folder, ["production"])
    stack.up()
    container = stack.containers["production"]
    deadline = time.monotonic() + WAIT_SECONDS
    while (health := container.run("campanile", "health", "--ready"))[0] != 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    report.check("production", health[0] == 0, f"{health[2]}\n{container.output()[-2000:]}")
    report.check("production", "Pushes of default go to their providers" in container.output(), container.output()[-2000:])
    code, key, err = container.run("campanile", "keys", "create", "shop")
    report.check("production", code == 0 and key.startswith("cmp_"), err)
    codes = stack.down()
    report.check("production", codes == {"production": 0}, f"it stopped with {codes}")
    print("production: served with a configuration and two secrets of the operator's, and stopped in order")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--image", help="the folder that scripts/image.sh was given; without it only the rules are checked")
    options = parser.parse_args()
    document, report = yaml.safe_load(FILE.read_text()), Report()
    check_rules(document, report)
    check_seed(report)
    if options.image:
        image = Image(options.image)
        enter_network()
        with temporary_folder("campanile-stack-") as folder:
            check_demo(document, image, pathlib.Path(folder), report)
            if not report.wrong:
                check_production(document, image, pathlib.Path(folder), report)
    report.print_wrong()
    print(f"stack: {sum(report.checked.values())} checks, {len(report.wrong)} wrong")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HarnessError as error:
        sys.exit(f"stack.py: {error}")
