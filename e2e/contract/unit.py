"""packaging/campanile.service and campanile.socket: what systemd-analyze thinks of them, and whether the server gets along with them.

systemd-socket-activate opens a socket as the .socket unit does, and starts the server when somebody comes; it starts it once, so the
restarts are e2e/trust/restart.py's. No service manager runs here, so the server's system calls are recorded (strace) while it does all that
it does, with pushes to the simulator, a backup, streams, a reload and a stop; each must be one that the unit's SystemCallFilter allows, and
each socket of a family that RestrictAddressFamilies allows. Exit code 1 if anything is wrong. Debian's packages: systemd, strace.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

from e2e import ROOT
from e2e.harness import METRICS_TOKEN, Campanile, HarnessError, Report, die_with_parent, free_port, stores, temporary_folder

UNIT = ROOT / "packaging/campanile.service"
SOCKET = ROOT / "packaging/campanile.socket"
# Where the server listens without a configuration, and so where `campanile health` asks.
ADDRESS = "127.0.0.1:3001"
# What an inherited socket is asked and told, beside what strace sees of a server that opens its own.
INHERITING_CALLS = {"getsockopt", "getsockname", "fcntl", "accept4", "close"}
MOST_EXPOSURE = 2.0
WAIT_SECONDS = 60
NOBODY = 65534


def settings(name, unit=UNIT):
    """The words of all lines of one setting."""
    return [word for value in re.findall(rf"^{name}=(.*)$", unit.read_text(), re.M) for word in value.split()]


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", "--no-pager", *arguments], capture_output=True, text=True)


def check_unit(report, folder, binary):
    done = analyze("security", "--offline=yes", f"--threshold={int(MOST_EXPOSURE * 10)}", str(UNIT))
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    report.check("unit", done.returncode == 0 and level and float(level[1]) <= MOST_EXPOSURE, done.stdout + done.stderr)
    print(f"unit: exposure {level and level[1]}, at most {MOST_EXPOSURE} is wanted")
    copy = folder / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/local/bin/campanile", str(binary)))
    shutil.copy(SOCKET, folder)
    done = analyze("verify", str(copy), str(folder / SOCKET.name))
    report.check("unit", done.returncode == 0 and not done.stderr.strip(), f"systemd-analyze verify: {done.stderr}")
    report.check("unit", settings("ListenStream", SOCKET) == [ADDRESS], f"{SOCKET.name} doesn't listen on {ADDRESS} alone")
    report.check("unit", SOCKET.stem == UNIT.stem and not settings("Accept", SOCKET), f"{SOCKET.name} hands no listening socket to {UNIT.name}")


def check_activation(report, user, binary, folder):
    """The server in the environment that systemd itself makes: started by who comes first, who is answered."""
    port = free_port()
    with open(folder / "activation.log", "wb") as log:
        activation = subprocess.Popen(
            [*user, "systemd-socket-activate", f"--listen=127.0.0.1:{port}", f"--fdname={SOCKET.name}", str(binary), "serve",
             "--database", str(folder / "activation.sqlite")],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def status():
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=WAIT_SECONDS) as response:
                return response.status
    try:
        until(lambda: status() == 200, lambda: f"nobody answers: {(folder / 'activation.log').read_text()}")
        activation.terminate()
        code = activation.wait(WAIT_SECONDS)
    finally:
        activation.kill()
    said = (folder / "activation.log").read_text()
    report.check("activation", code == 0, f"exit status {code}: {said}")
    report.check("activation", "The supervisor passed the listening socket" in said and f"listens on http://127.0.0.1:{port}" in said, said)
    print("activation: systemd-socket-activate started the server, and who came first was answered 200")


def groups():
    """systemd's groups of system calls, each with all calls in it."""
    direct, current = {}, None
    for line in analyze("syscall-filter").stdout.splitlines():
        if line.startswith("@"):
            current = direct.setdefault(line.strip(), set())
        elif current is not None and line.startswith("    ") and not line.strip().startswith("#"):
            current.add(line.strip())

    def whole(name):
        return set().union(*({one} if not one.startswith("@") else whole(one) for one in direct[name]))
    return {name: whole(name) for name in direct}


def allowed_calls():
    known, allowed = groups(), set()
    for value in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.M):
        calls = set().union(*(known[word] if word.startswith("@") else {word} for word in value.lstrip("~").split()))
        allowed = allowed - calls if value.startswith("~") else allowed | calls
    # What every filter of systemd's lets through.
    return allowed | known["@default"] | {"execve"}


def record(user, binary, folder):
    """Serves under strace, and does what a server does; gives the lines of the record."""
    ports = free_port(), free_port()
    with open(folder / "simulator.log", "wb") as log:
        simulator = subprocess.Popen(
            [*user, str(binary), "simulator", "--port", str(ports[0]), "--page", str(ports[1]),
             "--make-keys", str(folder / "keys")],
            stdout=log, stderr=log, preexec_fn=die_with_parent)
    until(lambda: (folder / "keys/campanile.yaml").exists(), "the simulator doesn't start")
    trace = folder / "trace"
    wrapper = folder / "campanile"
    wrapper.write_text(f"""#!/bin/sh
if [ "$1" = serve ]; then
    exec {" ".join(user)} strace -f -qq -e signal=none -o {trace} {binary} "$@" --config {folder}/keys/campanile.yaml
fi
exec {" ".join(user)} {binary} "$@"
""")
    wrapper.chmod(0o755)
    # PostgreSQL's backups are its own.
    backups = {} if stores.is_postgres() else {"CAMPANILE_BACKUP_DIRECTORY": str(folder / "backups")}
    server = Campanile(str(wrapper), stores.new_database(str(folder), "unit"), str(folder), {
        "CAMPANILE_STREAMS_COOKIE": "campanile", "CAMPANILE_RETENTION_PER_INBOX": "1", **backups})
    server.start()
    if backups:
        until(lambda: list(folder.glob("backups/campanile-*Z.sqlite")), "no backup is made")
    key, token = server.producer_key("unit"), server.user_token("alice")
    call = server.connection().request
    assert call("POST", "/device_tokens", credential=token, body={"token": "a" * 64, "platform": "ios"}).status == 201
    assert call("POST", "/device_tokens", credential=token, body={"token": "android", "platform": "android"}).status == 201
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/badge/stream", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as stream:
        body = {"user_id": "alice", "title": "Hello", "body": "World"}
        assert call("POST", "/notifications", credential=key, body=body).status == 201
        lines = iter(stream.readline, b"")
        assert any(b'"count":1' in line for line in lines)
        until(lambda: badges(ports[1]) == [1, 1], "the phones hear nothing")
    assert call("GET", "/notifications", credential=token, headers={"User-Agent": "Hotwire Native iOS"}).status == 200
    assert call("GET", "/readyz").status == 200
    metrics = call("GET", "/metrics", credential=METRICS_TOKEN).body.decode()
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_max_fds"):
        assert re.search(rf"^{name} [1-9]", metrics, re.M), metrics
    operator = server.command("keys", "create", "unit-operator", "--operate")[1]
    assert call("GET", "/operate/overview", credential=operator).status == 200
    assert call("GET", "/operate/deliveries", credential=operator).status == 200
    server.command("revoke", "alice")
    # strace has the server for its child.
    child = int(pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()[0])
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGHUP)
        time.sleep(1)
        os.kill(child, signal.SIGTERM)
    server.process.wait(WAIT_SECONDS)
    simulator.terminate()
    simulator.wait(WAIT_SECONDS)
    return trace.read_text(errors="replace").splitlines()


def badges(page):
    with urllib.request.urlopen(f"http://127.0.0.1:{page}/devices", timeout=WAIT_SECONDS) as response:
        return [one["badge"] for one in json.load(response)["devices"]]


def until(holds, complaint):
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise HarnessError(complaint() if callable(complaint) else complaint)
        time.sleep(0.1)


def check_calls(report, lines):
    allowed, families = allowed_calls(), set(settings("RestrictAddressFamilies"))
    used, asked = {}, {}
    for line in lines:
        call = re.match(r"\d+\s+(?:<\.\.\. )?([a-z0-9_]+)", line)
        if call:
            used.setdefault(call[1], line)
        socket = re.search(r"\bsocket(?:pair)?\((AF_\w+)", line)
        if socket:
            asked.setdefault(socket[1], line)
    # The metrics of the process come from where ProcSubset=pid lets it read.
    read = {place: any(f'"/proc/self/{place}"' in line for line in lines) for place in ("statm", "fd")}
    report.check("calls", all(read.values()), f"of /proc/self it reads {read}")
    report.check("calls", len(used) > 40 and "AF_INET" in asked, f"hardly anything was recorded: {sorted(used)}")
    for name in sorted((set(used) | INHERITING_CALLS) - allowed):
        report.check("calls", False, f"the unit forbids {name}: {used.get(name, 'of an inherited socket')}")
    for family in sorted(set(asked) - families):
        report.check("calls", False, f"the unit forbids {family}: {asked[family]}")
    writable = [line for line in lines if re.search(r"PROT_WRITE\|PROT_EXEC|PROT_READ\|PROT_WRITE\|PROT_EXEC", line)]
    report.check("calls", not writable, lambda: f"memory that can be written and run: {writable[0]}")
    print(f"calls: {len(used)} kinds of system calls in {len(lines)} lines, sockets of {', '.join(sorted(asked))}")


def as_nobody(folder, binary):
    """The words before a program that make it run without root's rights, and the program at a place that anybody can read: the
    kernel and SQLite treat root otherwise."""
    if os.geteuid() != 0:
        return [], binary
    copy = folder / "program"
    shutil.copy(binary, copy)
    os.chown(folder, NOBODY, NOBODY)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"], copy


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", default=ROOT / ".build/debug/campanile", type=pathlib.Path, help="default: %(default)s")
    options = parser.parse_args()
    for program in ("systemd-analyze", "systemd-socket-activate", "strace"):
        if not shutil.which(program):
            sys.exit(f"unit.py: {program} is missing, so the unit wasn't looked at: scripts/setup.sh tests installs it")
    report = Report()
    with temporary_folder("campanile-unit-") as name:
        folder = pathlib.Path(name)
        user, binary = as_nobody(folder, options.binary.resolve())
        check_unit(report, folder, binary)
        check_activation(report, user, binary, folder)
        check_calls(report, record(user, binary, folder))
    report.print_wrong()
    print(f"unit: {sum(report.checked.values())} checks, {len(report.wrong)} wrong")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HarnessError as error:
        sys.exit(f"unit.py: {error}")
