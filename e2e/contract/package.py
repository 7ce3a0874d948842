"""The Debian package on a new Debian 12 that systemd has booted: installed, served from, upgraded under requests, removed, purged.

The machine is a debootstrap in systemd-nspawn, on this machine's network. It stays in the folder, for the next time; what is tried runs on
a copy. The upgrade is to the same package with a version one higher, while requests come, each on a connection of its own: none may be
refused or fail. Then back to the older one, and forth again. Prints what it does; exit code 1 if anything is wrong. Needs root, debootstrap
and systemd-container; MIRROR: scripts/stand_ins.sh.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from e2e import ROOT
from e2e.harness import HarnessError, Report, die_with_parent, leave_when_told, temporary_folder
from e2e.harness.children import children

PORT = 3001
WAIT_SECONDS = 120
# Between two requests of the load, and how long it goes on before the upgrade and after it.
PAUSE_SECONDS = 0.01
ALONE_SECONDS = 2
CONFIGURATION = "/etc/campanile/campanile.yaml"
DATABASE = "/var/lib/campanile/campanile.sqlite"


def command(*arguments, **options):
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise HarnessError(f"{' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def until(holds, complaint):
    deadline = time.monotonic() + WAIT_SECONDS
    while not (given := holds()):
        if time.monotonic() > deadline:
            raise HarnessError(complaint)
        time.sleep(0.1)
    return given


class Machine:
    """A Debian that systemd-nspawn has booted. Ends with the script."""

    def __init__(self, root, log):
        self.root = root
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--link-journal=no", "--directory", root, "--boot"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=die_with_parent)
        children.append(self.process)
        self.init = until(self._init, f"it doesn't boot: {log}")
        until(lambda: self.run("systemctl", "is-system-running", fails=True)[1] in ("running", "degraded"), f"it doesn't come up: {log}")

    def _init(self):
        if self.process.poll() is not None:
            raise HarnessError("systemd-nspawn ended")
        found = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return found and pathlib.Path(f"/proc/{found[0]}/comm").read_text().strip() == "systemd" and found[0]

    def words(self):
        """What leads there, as root, before a command."""
        return ["nsenter", "--target", self.init, "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--root", "--wd=/",
                "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]

    def run(self, *arguments, fails=False):
        """A command there, as root: its output; with `fails` its exit status, output and errors."""
        if not fails:
            return command(*self.words(), *arguments)
        done = subprocess.run([*self.words(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def campanile(self, *arguments):
        return self.run("sh", "-c", 'cd /etc/campanile && exec setpriv --reuid=campanile --regid=campanile --init-groups campanile "$@"',
                        "sh", *arguments)

    def state(self, unit):
        return self.run("systemctl", "is-active", unit, fails=True)[1]

    def exists(self, path):
        return (self.root / path.lstrip("/")).exists()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_SECONDS)


class Load:
    """Requests one after the other from several threads, each on a connection of its own."""

    def __init__(self, threads=4):
        self.is_over, self.answered, self.wrong, self.longest = False, 0, [], 0.0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        while not self.is_over:
            began, trouble = time.monotonic(), None
            try:
                status, _ = answer("GET", "/healthz")
                trouble = None if status == 200 else f"status {status}"
            except (OSError, http.client.HTTPException) as error:
                trouble = repr(error)
            with self.lock:
                self.answered += trouble is None
                self.longest = max(self.longest, time.monotonic() - began)
                if trouble:
                    self.wrong.append(trouble)
            time.sleep(PAUSE_SECONDS)

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join(WAIT_SECONDS)


def answer(method, path, credential=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=WAIT_SECONDS)
    headers = {"Connection": "close"}
    if credential:
        headers["Authorization"] = f"Bearer {credential}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()


def listens():
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT), 1):
        return True
    return False


def new_machine(folder):
    """A Debian with systemd and nothing more, made once; a copy of it."""
    base, ready = folder / "base", folder / "booting.done"
    if not ready.exists():
        subprocess.run(["bash", "-c", "set -euo pipefail; folder=$1; source scripts/stand_ins.sh; base", "package", str(folder)],
                       cwd=ROOT, check=True)
        shutil.copy("/etc/resolv.conf", base / "etc/resolv.conf")
        command("chroot", str(base), "sh", "-c", "apt-get -q update && apt-get -q install -y --no-install-recommends systemd systemd-sysv dbus")
        ready.touch()
    root = folder / "machine"
    shutil.rmtree(root, ignore_errors=True)
    command("cp", "-a", str(base), str(root))
    return root


def one_higher(package, folder):
    """The same package with a version one higher."""
    tree = folder / "newer"
    command("dpkg-deb", "--raw-extract", str(package), str(tree))
    control = tree / "DEBIAN/control"
    version = re.search(r"^Version: (\d+\.\d+\.)(\d+)(-\d+)$", control.read_text(), re.M)
    newer = f"{version[1]}{int(version[2]) + 1}{version[3]}"
    control.write_text(control.read_text().replace(version[0], f"Version: {newer}"))
    command("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(tree), str(folder / "newer.deb"))
    return folder / "newer.deb", newer


def install(machine, package, *options, fails=False):
    """Installs the package as a user would: apt takes a file that is named with its place."""
    shutil.copy(package, machine.root / "srv" / package.name)
    return machine.run("apt-get", "install", "-q", "-y", "--no-install-recommends", *options, f"/srv/{package.name}", fails=fails)


def installed(machine):
    return machine.run("dpkg-query", "--show", "--showformat=${Version}", "campanile")


def check_installed(report, machine):
    def check(holds, what):
        report.check("install", holds, what)
    for unit in ("campanile.socket", "campanile.service"):
        check(machine.state(unit) == "inactive", f"{unit} is {machine.state(unit)} after the installation")
        check(machine.run("systemctl", "is-enabled", unit, fails=True)[1] == "disabled", f"{unit} was enabled")
    rights = machine.run("stat", "--format=%U:%G %a", "/etc/campanile", CONFIGURATION, "/var/lib/campanile").splitlines()
    check(rights == ["root:campanile 750", "root:campanile 640", "campanile:campanile 700"], f"rights: {rights}")
    check("/nologin" in machine.run("getent", "passwd", "campanile"), "the user can log in")
    libraries = machine.run("ldd", "/usr/bin/campanile")
    check("not found" not in libraries, libraries)
    print(f"install: campanile {machine.run('campanile', '--version')}; nothing enabled, nothing started; {', '.join(rights)}")


def check_serving(report, machine):
    """A notification and its badge, after `systemctl enable --now campanile.socket`: the first visitor starts the server."""
    key = machine.campanile("keys", "create", "shop")
    token = machine.campanile("token", "alice")
    machine.run("systemctl", "enable", "--now", "campanile.socket")
    report.check("serve", machine.state("campanile.service") == "inactive", "the service runs before anybody came")
    status, said = answer("POST", "/notifications", key, {"user_id": "alice", "title": "Your order is ready", "body": "Counter 3"})
    report.check("serve", status == 201, f"a create: {status} {said}")
    status, said = answer("GET", "/badge", token)
    report.check("serve", status == 200 and json.loads(said)["count"] == 1, f"the badge: {status} {said}")
    report.check("serve", machine.state("campanile.service") == "active", "the service doesn't run")
    journal = machine.run("journalctl", "--unit=campanile.service", "--output=cat")
    report.check("serve", "The supervisor passed the listening socket" in journal, journal)
    report.check("serve", "already exists but the mode is different" not in journal, journal)
    exposure = machine.run("systemd-analyze", "security", "--no-pager", "campanile.service").splitlines()[-1]
    print(f"serve: {said.strip()}; {exposure.strip(' →')}")
    return token


def check_upgrade(report, machine, package, version, token):
    process = machine.run("systemctl", "show", "--property=MainPID", "--value", "campanile.service")
    held = machine.run("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "--value", "campanile.socket")
    load = Load()
    time.sleep(ALONE_SECONDS)
    install(machine, package)
    time.sleep(ALONE_SECONDS)
    load.end()
    report.check("upgrade", installed(machine) == version, "it isn't upgraded")
    now = machine.run("systemctl", "show", "--property=MainPID", "--value", "campanile.service")
    report.check("upgrade", now not in ("0", process), "the service wasn't restarted")
    report.check("upgrade", held == machine.run(
        "systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "--value", "campanile.socket"), "the socket wasn't held")
    report.check("upgrade", not load.wrong, lambda: f"{len(load.wrong)} requests failed: {load.wrong[:5]}")
    report.check("upgrade", load.answered > 100, f"only {load.answered} requests")
    report.check("upgrade", json.loads(answer("GET", "/badge", token)[1])["count"] == 1, "the badge is lost")
    print(f"upgrade: to {version} under {load.answered} requests, {len(load.wrong)} failed, the longest took {load.longest:.2f} s")


def check_back(report, machine, older, newer, token):
    """The way back where the schema stays, and forth again: docs/upgrading.md."""
    version = installed(machine)
    report.check("back", install(machine, older, fails=True)[0] != 0, "apt goes back without being told to")
    report.check("back", installed(machine) == version, "it went back although apt refused")
    install(machine, older, "--allow-downgrades")
    before = installed(machine)
    report.check("back", before != version and json.loads(answer("GET", "/badge", token)[1])["count"] == 1, "it isn't back, or lost the badge")
    install(machine, newer)
    report.check("back", installed(machine) == version, "it isn't upgraded again")
    print(f"back: to {before} with --allow-downgrades, and to {version} again; the badge is there")


def check_control(report, machine):
    """Without the socket somebody must be refused while the service restarts: the load above would have seen it."""
    machine.run("systemctl", "stop", "campanile.socket", "campanile.service")
    machine.run("systemctl", "start", "campanile.service")
    until(listens, "the service alone doesn't listen")
    load = Load()
    machine.run("systemctl", "restart", "campanile.service")
    until(listens, "the service alone doesn't come back")
    load.end()
    report.check("control", load.wrong, "a restart without the socket refused nobody")
    machine.run("systemctl", "stop", "campanile.service")
    machine.run("systemctl", "start", "campanile.socket")
    print(f"control: a restart without the socket: {len(load.wrong)} requests failed of {len(load.wrong) + load.answered}")


def check_removal(report, machine, package):
    machine.run("sh", "-c", f"echo '# mine' >>{CONFIGURATION}")
    machine.run("apt-get", "remove", "-q", "-y", "campanile")
    report.check("remove", not listens() and not machine.exists("/usr/bin/campanile"), "it still serves")
    report.check("remove", machine.exists(DATABASE) and machine.exists(CONFIGURATION), "the data or the configuration is gone")
    print("remove: nobody listens; the database and the configuration are there")
    install(machine, package)
    report.check("again", "# mine" in (machine.root / CONFIGURATION.lstrip("/")).read_text(), "the changed configuration is lost")
    report.check("again", machine.run("systemctl", "is-enabled", "campanile.socket", fails=True)[1] == "enabled", "the socket isn't enabled")
    machine.run("systemctl", "start", "campanile.socket")
    report.check("again", answer("GET", "/readyz")[0] == 200, "it doesn't serve when it is installed again")
    print("again: installed, started, and ready with what was kept")
    machine.run("apt-get", "purge", "-q", "-y", "campanile")
    left = [path for path in ("/var/lib/campanile", "/etc/campanile") if machine.exists(path)]
    report.check("purge", not left and not listens(), f"left: {left}")
    links = machine.run("find", "/etc/systemd/system", "-name", "campanile*")
    report.check("purge", not links, f"left: {links}")
    report.check("purge", "campanile" in machine.run("getent", "passwd", "campanile"), "the user is gone")
    print("purge: the database and the configuration are gone, and the links; the user stays")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--package", required=True, type=pathlib.Path, help="the Debian package")
    parser.add_argument("--folder", default=ROOT / ".build/package", type=pathlib.Path, help="for the machine; default: %(default)s")
    options = parser.parse_args()
    leave_when_told()
    if os.geteuid() != 0:
        sys.exit("package.py: root is needed, for debootstrap and systemd-nspawn")
    if not shutil.which("systemd-nspawn"):
        sys.exit("package.py: systemd-nspawn is missing: apt-get install --no-install-recommends systemd-container")
    if listens():
        sys.exit(f"package.py: port {PORT} is taken, which the package's socket listens on")
    options.folder.mkdir(parents=True, exist_ok=True)
    report = Report()
    with temporary_folder("campanile-package-") as name:
        newer, version = one_higher(options.package, pathlib.Path(name))
        machine = Machine(new_machine(options.folder.resolve()), options.folder / "machine.log")
        install(machine, options.package)
        check_installed(report, machine)
        token = check_serving(report, machine)
        check_upgrade(report, machine, newer, version, token)
        check_back(report, machine, options.package, newer, token)
        check_control(report, machine)
        check_removal(report, machine, newer)
        machine.stop()
    report.print_wrong()
    print(f"package: {sum(report.checked.values())} checks, {len(report.wrong)} wrong")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HarnessError as error:
        sys.exit(f"package.py: {error}")
