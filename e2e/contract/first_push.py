"""From `rails new` to the first push at the simulator, by the lines of clients/ruby/README.md, typed into a shell as they stand there: how many
they are, and how long they take. At most ten may be typed.

Debian's Rails is 6.1 and nothing comes from rubygems.org, so the home folder has a ~/.railsrc that leaves out what Debian lacks, and a Gemfile of
what it has. The ports are the usual ones, in a network of the script's own. Who may have none, because that takes root or the capabilities
SYS_ADMIN and NET_ADMIN, is told so, and has the lines run in the network that there is, if the ports are free there. Needs ruby-rails,
ruby-foreman, puma, iproute2.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

from e2e import ROOT, harness
from e2e.browser.rails_shop import SKIPPED
from e2e.harness import children, die_with_parent
from e2e.harness.documents import documented
from e2e.harness.network import enter_network_if_allowed

MOST_LINES = 10
LINE_SECONDS = 180
PUSH_SECONDS = 30
SERVER, SIMULATOR = 3001, 2198
PORTS = 2197, SIMULATOR, 3000, SERVER     # all that the lines open: Apple and Google, the phones' page, Rails, the server
PHONE = "ab" * 32
TEMPLATE = """remove_file "Gemfile"
create_file "Gemfile", %(gem "rails"\\ngem "sqlite3"\\ngem "puma"\\n)
"""


class Shell:
    """A shell that somebody types into."""

    def __init__(self, folder, environment):
        self.log = open(folder / "shell.log", "wb")  # noqa: SIM115 – until the end
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            preexec_fn=die_with_parent, start_new_session=True)
        children.append(self.process)

    def type(self, line):
        """Runs a line to its end; one that ends with & only begins."""
        self.process.stdin.write(f"{{ {line.rstrip(' &')} ; }} >&2 {'&' if line.endswith('&') else ''}\necho done $?\n")
        self.process.stdin.flush()
        timer = threading.Timer(LINE_SECONDS, self.kill)
        timer.start()
        answer = self.process.stdout.readline().split()
        timer.cancel()
        if answer != ["done", "0"]:
            raise harness.HarnessError(f"`{line}` ended with {answer}:\n{self.tail()}")

    def tail(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")[-3000:]

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self):
        self.kill()
        self.process.wait()
        children.remove(self.process)


def home(folder, binary):
    """A home folder and a PATH, with what a user has by then: Rails, the program, and a clone of the repository."""
    options = [*(f"--skip-{part}" for part in SKIPPED), f"--template={folder}/template.rb"]
    (folder / ".railsrc").write_text("\n".join(options) + "\n")
    (folder / "template.rb").write_text(TEMPLATE)
    (folder / "campanile").symlink_to(ROOT)
    programs = folder / "bin"
    programs.mkdir()
    (programs / "campanile").symlink_to(os.path.realpath(binary))
    return {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8", "BUNDLE_SILENCE_ROOT_WARNING": "1"}


def enter():
    """A network of this process's own, or the one that there is, with nobody at the ports."""
    reason = enter_network_if_allowed()
    if not reason:
        return
    print(f"first push: in the network that there is, because it may have none of its own ({reason})", flush=True)
    taken = [str(port) for port in PORTS if not is_free(port)]
    if taken:
        raise harness.HarnessError(f"the lines open the ports {', '.join(map(str, PORTS))} of 127.0.0.1, and others have {', '.join(taken)}: end those")


def is_free(port):
    with socket.socket() as probe:
        # Connections that have ended keep no port from whoever listens.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    return connection.getresponse().read()


def wait_for(what, seconds, shell):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if (found := what()):
                return found
        time.sleep(0.05)
    raise harness.HarnessError(f"nothing came within {seconds} s:\n{shell.tail()}")


def shown():
    """What the phone shows, once that is something."""
    phones = {one["token"]: one for one in json.loads(ask(SIMULATOR, "/devices"))["devices"]}
    phone = phones.get(PHONE)
    return phone if phone and phone["notifications"] else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", required=True, help="the campanile program")
    options = parser.parse_args()
    lines = documented("sh", "From `rails new` to the first push", "clients/ruby/README.md").splitlines()
    with harness.temporary_folder("campanile-first-push-") as name:
        folder = pathlib.Path(name)
        environment = home(folder, options.binary)
        enter()
        shell, began = Shell(folder, environment), time.monotonic()
        try:
            for line in lines:
                shell.type(line)
                if line.startswith("foreman"):
                    # Whoever types sees in its log when the server serves.
                    wait_for(lambda: ask(SERVER, "/healthz"), LINE_SECONDS, shell)
            phone = wait_for(shown, PUSH_SECONDS, shell)
            seconds = time.monotonic() - began
        finally:
            shell.end()
    print(f"first push: {len(lines)} lines, {seconds:.0f} s; the phone shows {phone['notifications'][0].get('title')!r} and {phone['badge']}", flush=True)
    if len(lines) > MOST_LINES or phone["badge"] != 1:
        raise harness.HarnessError(f"more than {MOST_LINES} lines, or another number than 1")
    return 0


if __name__ == "__main__":
    harness.run(main)
