"""The image that scripts/image.sh laid into a folder, run without an engine: a chroot in namespaces of its own, with the user,
the directory, the variables and the program that the image names. Needs root.

What an engine would do besides and this doesn't: control groups (memory, processes), a seccomp filter.
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import time

from e2e.harness import HarnessError, die_with_parent

DEVICES = ("null", "zero", "full", "random", "urandom")


class Image:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.root = self.folder / "root"
        if not self.root.is_dir():
            raise HarnessError(f"{self.root} isn't there: scripts/image.sh {folder} makes it")
        if os.geteuid() != 0:
            raise HarnessError("root is needed, for chroot and namespaces")
        document = json.loads((self.folder / "image.json").read_text())["Docker"]
        self.settings = document["config"]
        self.base_bytes = int((self.folder / "base.bytes").read_text())

    def user(self):
        """The numbers of the image's user and group."""
        name = self.settings["User"]
        for line in (self.root / "etc/passwd").read_text().splitlines():
            fields = line.split(":")
            if name in (fields[0], fields[2]):
                return int(fields[2]), int(fields[3])
        raise HarnessError(f"the image has no user {name!r}")

    def path(self, target):
        return self.root / str(target).lstrip("/")


class Container:
    """A program of the image. `mounts` are (path here, path there, whether it may be written)."""

    def __init__(
            self, image, folder, arguments=None, *, entrypoint=None, environment=None, mounts=(), hosts=None, read_only=True):
        self.image, self.mounts = image, list(mounts)
        self.read_only = read_only
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.environment = {**dict(one.split("=", 1) for one in image.settings["Env"]), **(environment or {})}
        self.program = [*(image.settings["Entrypoint"] if entrypoint is None else entrypoint),
                        *(image.settings["Cmd"] if arguments is None and entrypoint is None else arguments or [])]
        if hosts:
            (self.folder / "hosts").write_text(hosts)
            self.mounts.append((self.folder / "hosts", "/etc/hosts", False))
        self.root = self.folder / "root"
        # Links, not copies; what is mounted into it needs a place, as an engine makes it.
        subprocess.run(["cp", "-al", str(image.root), str(self.root)], check=True)
        for source, target, _ in self.mounts:
            place = self.root / target.lstrip("/")
            if pathlib.Path(source).is_dir():
                place.mkdir(parents=True, exist_ok=True)
            elif not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
        self.log = self.folder / "log"
        self.process = None

    def script(self, program):
        """What makes the container, to run in new namespaces."""
        root = shlex.quote(str(self.root))
        lines = ["set -e", f"mount --bind {root} {root}"]
        if self.read_only:
            lines.append(f"mount -o remount,bind,ro {root}")
        for source, target, is_writable in self.mounts:
            place = shlex.quote(str(self.root) + target)
            lines.append(f"mount --bind {shlex.quote(str(source))} {place}")
            if not is_writable:
                lines.append(f"mount -o remount,bind,ro {place}")
        lines += [f"mount -t proc proc {root}/proc", f"mount -t tmpfs -o mode=755 tmpfs {root}/dev"]
        for device in DEVICES:
            lines += [f"touch {root}/dev/{device}", f"mount --bind /dev/{device} {root}/dev/{device}"]
        uid, gid = self.image.user()
        words = [
            "chroot", str(self.root), "/usr/bin/setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "--inh-caps=-all", "/usr/bin/env", "-i", f"--chdir={self.image.settings['WorkingDir']}",
            *(f"{name}={value}" for name, value in self.environment.items()), *program]
        lines.append("exec " + shlex.join(words))
        return "\n".join(lines)

    def _words(self, program):
        # As process 1 of its own, as in a container.
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "sh", "-c", self.script(program)]

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self._words(self.program), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def run(self, *program):
        """Another program beside it, as an engine's exec: (exit status, standard output, standard error)."""
        done = subprocess.run(self._words(program), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def own_process(self):
        """The number of the program itself, as it is known outside."""
        while self.process.poll() is None:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            if children:
                return int(children[0])
            time.sleep(0.01)
        raise HarnessError(f"the program has ended:\n{self.output()[-2000:]}")

    def stop(self, signal=15, seconds=20):
        """Its exit status."""
        os.kill(self.own_process(), signal)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise HarnessError(f"it didn't stop within {seconds} s") from None

    def output(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def remove(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
