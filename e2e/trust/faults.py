"""A disk that is full, fails or is read-only, and a database that somebody else has locked, moved away or serves already.

While the fault lasts: writes get 503 with Retry-After as problem+json (or are done, where a full disk still has room),
never anything else; reads and /healthz go on with 200 and the right numbers; /readyz says 503 and why, from the first
refused create on and as long as creates are refused. When it ends:
writes work again and /readyz is 200, without a restart; everything acknowledged is there, nothing refused was done, a
refused call may be repeated with its Idempotency-Key and is done once; the audit is clean.

The faults:
  full disk        the database on a small tmpfs of a mount namespace of our own, filled to the last byte. Needs root
                   with CAP_SYS_ADMIN; skipped with a note otherwise
  nearly full disk the same with 40 KB left: room for small writes and not for a create
  file size limit  RLIMIT_FSIZE: the same for everybody (the write fails with EFBIG)
  read-only        the file system was remounted read-only under the server: writes fail with EROFS (failing.c)
  failing sync     fdatasync fails with EIO (failing.c): nothing may be acknowledged on it
  failing copy     the sync of the database's file fails, and not its log's: nothing is written until it succeeds with all of the
                   log copied anew, or until a restart; and though nothing that was copied had reached the disk, nothing is lost
  amid a call      read-only amid a call for many users (large_calls.py), with and without a stop: 503 (with a stop
                   perhaps no answer), and whole when it is repeated
  locked           another process holds BEGIN EXCLUSIVE
  file moved away, file replaced, log moved away
                   the files that the server has open don't stand under their names, and come back
  removed          the file, or its log, is gone for good: nothing is acknowledged any more, and of the log's content
                   nothing is lost, though the server is then killed
  second start     a second server on the same database, by another name: it must leave with a sentence
  read-only start  a directory that can't be written, before the start: the program must leave with a sentence

The controls: no fault at all must be reported as one that wasn't answered with 503; faked answers must be refused.
Needs a C compiler for failing.c (Debian: apt install gcc libc6-dev).
"""
import concurrent.futures
import contextlib
import ctypes
import email.message
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time

from e2e import harness
from e2e.trust import large_calls, load, schema
from e2e.trust.fault_caller import USERS, Caller, refusal_fault
from e2e.trust.preload import build_library

UNTIL_REFUSED = 400       # creates of about 2 KB that a fault may still take before it bites
UNTIL_COPIED = 4_000      # and before the log is copied
RECOVERY_SECONDS = 15
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18


def own_mounts():
    """A mount namespace of our own, so that a mount can't outlive the script. False if that isn't allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0


# --- the faults: each a context manager that holds while the fault lasts

class Fault:
    """One way to fail. `total`: from the first refusal on nothing can be written."""
    name, total = "", True

    def __init__(self, folder, library):
        self.folder, self.library = folder, library

    def server(self, binary):
        return harness.Campanile(binary, os.path.join(self.folder, "campanile.sqlite"), self.folder)

    @contextlib.contextmanager
    def lasting(self, server):
        yield


class FullDisk(Fault):
    name, total, spare = "full disk", False, 0

    def server(self, binary):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk], check=True)
        return harness.Campanile(binary, os.path.join(disk, "campanile.sqlite"), self.folder)

    @contextlib.contextmanager
    def lasting(self, server):
        filler = os.path.join(self.folder, "disk", "filler")
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        os.truncate(filler, os.path.getsize(filler) - self.spare)
        try:
            yield
        finally:
            os.unlink(filler)


class NearlyFullDisk(FullDisk):
    name, spare = "nearly full disk", 40 * 1024


class FileSizeLimit(Fault):
    name, total = "file size limit", False

    def server(self, binary):
        server = super().server(binary)
        server.log = "/dev/null"    # the limit would hit the log as well
        server.preexec = lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        return server

    @contextlib.contextmanager
    def lasting(self, server):
        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (256 * 1024, hard))
        try:
            yield
        finally:
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (soft, hard))


class ReadOnly(Fault):
    name, switch = "read-only", f"write={errno.EROFS}"

    def server(self, binary):
        database = os.path.join(self.folder, "campanile.sqlite")
        return harness.Campanile(binary, database, self.folder, preload=self.library, environment={
            "FAILING_PREFIX": database, "FAILING_SWITCH": os.path.join(self.folder, "switch")})

    @contextlib.contextmanager
    def lasting(self, server):
        switch = os.path.join(self.folder, "switch")
        with open(switch + "-", "w", encoding="ascii") as file:
            file.write(self.switch)
        os.rename(switch + "-", switch)
        try:
            yield
        finally:
            os.unlink(switch)


class FailingSync(ReadOnly):
    name, switch = "failing sync", f"sync={errno.EIO}"


class FailingCopy(ReadOnly):
    name, switch = "failing copy", f"checkpoint={errno.EIO}"


class Locked(Fault):
    name = "locked"

    @contextlib.contextmanager
    def lasting(self, server):
        with contextlib.closing(schema.connect(server.database)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            try:
                yield
            finally:
                connection.execute("ROLLBACK")


class FileMoved(Fault):
    name, suffix = "file moved away", ""

    def replace(self, path):
        os.rename(path, path + ".away")

    @contextlib.contextmanager
    def lasting(self, server):
        path = server.database + self.suffix
        self.replace(path)
        try:
            yield
        finally:
            os.rename(path + ".away", path)


class FileReplaced(FileMoved):
    name = "file replaced"

    def replace(self, path):
        shutil.copyfile(path, path + ".new")
        os.link(path, path + ".away")
        os.rename(path + ".new", path)


class LogMoved(FileMoved):
    name, suffix = "log moved away", "-wal"


class NoFault(Fault):
    name = "no fault (control)"


# --- one fault from its begin to its end

def suffer(fault, caller, report):
    """What must hold while the fault lasts."""
    taken = 0
    while taken < UNTIL_REFUSED and caller.create():
        taken += 1
    if not report.check("a refusal came", caller.refused, f"{taken} creates were taken as if nothing were wrong"):
        return "not refused"
    caller.unready()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: caller.create(), range(12)))   # a whole group of the writer
    refused, answers = caller.other_writes()
    if fault.total:
        report.check("total", len(caller.refused) >= 13 and refused == len(answers),
                     lambda: f"a write got through: {taken} creates before, {answers}")
    caller.reads(f"during '{fault.name}'")
    native = caller.request("GET", "/notifications", credential=caller.tokens[USERS[1]],
                            headers={"User-Agent": load.NATIVE})
    # Clearing the badge is a write that can wait for the next list; the list itself is a read, and goes on.
    report.check("reads", native.status == 200, lambda: f"GET /notifications of a native app: {native!r}")
    ready = caller.ready(503, 5)
    said = ready.json().get("reasons", []) if ready.status == 503 else []
    report.check("readyz", said and all(len(reason) > 10 for reason in said), lambda: f"/readyz during the fault: {ready!r}")
    return f"{taken} creates before the first 503, native list {native.status}, /readyz: {' '.join(said)}"


def recover(fault, caller, report, pid):
    """What must hold after it ended, without a restart."""
    deadline, worked = time.monotonic() + RECOVERY_SECONDS, False
    caller_refused = list(caller.refused)
    caller.reads(f"after '{fault.name}'")
    probe = caller_refused[0] if caller_refused else None
    while not worked and time.monotonic() < deadline:
        worked = caller.create(retry=probe)
        time.sleep(0 if worked else 0.1)
    report.check("recovery", worked, f"no write within {RECOVERY_SECONDS} s after the fault's end")
    for again in caller_refused[1:6]:
        report.check("recovery", caller.create(retry=again), lambda: f"the refused {again[1]} can't be repeated")
    ready = caller.ready(200, RECOVERY_SECONDS)
    report.check("recovery", ready.status == 200, lambda: f"/readyz after the fault: {ready!r}")
    caller.reads(f"after the recovery from '{fault.name}'")
    report.check("recovery", caller.server.process.poll() is None and caller.server.process.pid == pid,
                 "the server was restarted")


def run(fault, binary, report):
    server = fault.server(binary)
    caller = Caller(server, report)
    server.start()
    pid = server.process.pid
    for _ in range(20):
        if not caller.create():
            raise harness.HarnessError(f"a create failed before the fault began: {report.wrong[-1]}")
    with fault.lasting(server):
        said = suffer(fault, caller, report)
    recover(fault, caller, report, pid)
    server.stop()
    clean, audit = server.badge_audit()
    report.check("badge audit", clean, audit)
    with contextlib.closing(schema.connect(server.database)) as file:
        damage = schema.integrity(file)
        report.check("integrity", damage is None, str(damage))
        mismatches, _ = schema.badge_mismatches(file)
        report.check("badge audit", not mismatches, str(mismatches))
    return f"{len(caller.acknowledged)} acknowledged, {len(caller.refused)} refused; {said}"


def removed(binary, folder, report, suffix):
    """The file or its log is removed under the server. Of the log, what it held must be there after SIGKILL and a restart."""
    server = harness.Campanile(binary, os.path.join(folder, "campanile.sqlite"), folder)
    server.start()
    caller = Caller(server, report)
    for _ in range(20):
        report.check("removed", caller.create(), "a create failed before anything was removed")
    os.unlink(server.database + suffix)
    for _ in range(3):
        report.check("removed", not caller.create(), f"a create was taken after {suffix or 'the file'} was removed")
    caller.unready()
    caller.reads(f"after {suffix or 'the file'} was removed")
    lines = server.log_tail(1 << 20).count("The database's files aren't the ones that the server opened")
    report.check("removed", lines == 1, f"the log says it {lines} times, not once")
    if suffix:
        server.kill()
        server.start()
        caller.reads(f"after {suffix} was removed and the server killed")
        report.check("removed", caller.create(), "a create failed after the restart")
    server.stop()
    return f"{len(caller.acknowledged)} acknowledged, {len(caller.refused)} refused"


def failing_copy(binary, folder, library, report, is_killed):
    """What was copied into the file doesn't reach the disk. The log holds all of it: for whoever starts after SIGKILL, and for
    the server itself, which copies it anew once the disk works."""
    fault = FailingCopy(folder, library)
    server = fault.server(binary)
    server.start()
    caller = Caller(server, report)
    for _ in range(20):
        report.check("failing copy", caller.create(), "a create failed before the fault began")
    server.stop()
    before = server.database + ".before"
    shutil.copyfile(server.database, before)
    server.start()
    with fault.lasting(server):
        taken = 0
        while taken < UNTIL_COPIED and caller.create():
            taken += 1
        report.check("failing copy", caller.refused, f"{taken} creates were taken as if nothing were wrong")
        for _ in range(3):
            report.check("failing copy", not caller.create(), "a create was taken after a copy that failed")
        caller.unready()
        caller.reads("after a copy that failed")
        lines = server.log_tail(1 << 20).count("The database's disk failed to sync")
        report.check("failing copy", lines == 1, f"the log says it {lines} times, not once")
        if is_killed:
            server.kill()
        with open(before, "rb") as old, open(server.database, "r+b") as file:
            shutil.copyfileobj(old, file)
            file.truncate()
        if not is_killed:
            time.sleep(2)   # all is copied anew meanwhile, at least once, and the sync fails again
            report.check("failing copy", not caller.create(), "a create was taken after a copy that failed again")
            caller.reads("after a copy that failed again")
    if is_killed:
        server.start()
        caller.reads("after a copy that failed and nothing of which reached the disk")
        report.check("failing copy", caller.create(), "a create failed after the restart")
    else:
        recover(fault, caller, report, server.process.pid)
    server.stop()
    with contextlib.closing(schema.connect(server.database)) as file:
        damage = schema.integrity(file)
        report.check("integrity", damage is None, str(damage))
    clean, audit = server.badge_audit()
    report.check("badge audit", clean, audit)
    return f"{len(caller.acknowledged)} acknowledged, {taken} of them before the first 503, {len(caller.refused)} refused"


def second_start(binary, folder, report, mounts):
    """By whatever name a second server is given the database, it leaves; a command beside the server works."""
    server = harness.Campanile(binary, os.path.join(folder, "campanile.sqlite"), folder)
    server.start()
    names = {name: os.path.join(folder, name) for name in ("link", "folder/campanile.sqlite", "hard", "bound")}
    os.symlink("campanile.sqlite", names["link"])
    os.symlink(".", os.path.join(folder, "folder"))
    key = harness.Campanile(binary, names["link"], folder).producer_key("linked")
    with contextlib.closing(server.connection()) as connection:
        taken = connection.request("POST", "/notifications", credential=key, body={"user_id": "a", "title": "T"})
    report.check("second start", taken.status == 201, lambda: f"a key made through a link doesn't work: {taken!r}")
    said = []
    for name, path in {"the same": server.database, **names}.items():
        if name == "hard":
            os.link(server.database, path)
        elif name == "bound":
            if not mounts:
                said.append("bind mount skipped (needs root)")
                continue
            open(path, "wb").close()
            subprocess.run(["mount", "--bind", server.database, path], check=True)
        second = harness.Campanile(binary, path, folder)
        second.log = os.path.join(folder, "second.log")
        second.start(wait=False)
        try:
            code = second.process.wait(20)
            sentence = "2 hard links" if name == "hard" else "Another campanile serves the database"
            report.check("second start", code > 0 and sentence in second.log_tail(),
                         lambda: f"{name}: exit code {code}: {second.log_tail()}")
        except subprocess.TimeoutExpired:
            report.check("second start", False, f"{name}: two servers work on one database")
            second.kill()
        if name == "hard":
            os.unlink(path)
        elif name == "bound":
            subprocess.run(["umount", path], check=True)
        os.unlink(second.log)
        said.append(name)
    server.stop()
    return ", ".join(said)


def read_only_start(binary, folder, report, mounts):
    """The program in a directory that it can't write must say so and leave."""
    server = harness.Campanile(binary, os.path.join(folder, "campanile.sqlite"), folder)
    server.log = os.devnull
    server.start()
    server.stop()
    server.log = folder + ".log"
    if os.getuid() != 0:
        os.chmod(folder, 0o555)
        os.chmod(server.database, 0o444)
    elif mounts:
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    else:
        return "skipped: root without the right to mount can write everywhere"
    try:
        server.start(wait=False)
        code = server.process.wait(20)
        said = server.log_tail().strip().replace("\n", " | ")
        report.check("read-only start", code > 0 and server.database in said,
                     lambda: f"it doesn't say which file it can't write: exit code {code}: {said}")
        return f"exit code {code}: {said[-300:]}"
    except subprocess.TimeoutExpired:
        report.check("read-only start", False, f"it stays, without a word: {server.log_tail()}")
        return ""
    finally:
        if server.process.poll() is None:
            server.kill()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(server.log)
        if os.getuid() != 0:
            os.chmod(folder, 0o755)
        else:
            subprocess.run(["umount", folder], check=False)


def controls(binary, folder, report):
    """Gives what the checks should have seen and didn't."""
    own, unseen = harness.Report(), []
    run(NoFault(folder, None), binary, own)
    if own.kinds() != {"a refusal came"}:
        unseen.append(f"a run without a fault gave {sorted(own.kinds()) or 'no finding'}")
    good = json.dumps({"status": 503, "code": "unavailable", "request_id": "x"}).encode()
    right = {"Retry-After": "1", "Content-Type": "application/problem+json"}
    faked = {
        None: (503, right, good), "a 500": (500, right, good), "a torn body": (503, right, good[:-3]),
        "no Retry-After": (503, {"Content-Type": "application/problem+json"}, good),
        "plain text": (503, {"Retry-After": "1", "Content-Type": "text/plain"}, good),
        "no code": (503, right, b'{"status":503,"request_id":"x"}'),
    }
    for name, (status, fields, body) in faked.items():
        headers = email.message.Message()
        for field, value in fields.items():
            headers[field] = value
        if (refusal_fault(harness.Answer(status, headers, body)) is None) != (name is None):
            unseen.append(f"the check of a refusal is wrong about {name or 'a right one'}")
    report.count("controls", len(faked) + 1)
    return unseen


def main():
    parser = harness.arguments(__doc__, short="the same: the whole takes about a minute")
    parser.add_argument("--only", default=None, help="one fault by its name")
    options = harness.begin(parser)
    random.seed(options.seed)
    report, started, mounts = harness.Report(), time.monotonic(), own_mounts()
    with contextlib.ExitStack() as stack:
        tools = stack.enter_context(harness.temporary_folder("campanile-faults-"))
        library = build_library("failing.c", tools)
        for kind in (FullDisk, NearlyFullDisk, FileSizeLimit, ReadOnly, FailingSync, Locked, FileMoved, FileReplaced,
                     LogMoved):
            if options.only not in (None, kind.name):
                continue
            if issubclass(kind, FullDisk) and not mounts:
                print(f"faults: {kind.name}: skipped, mounting a tmpfs isn't allowed here (needs root)")
                continue
            folder = stack.enter_context(harness.temporary_folder("campanile-fault-"))
            before = len(report.wrong)
            said = run(kind(folder, library), options.binary, report)
            if issubclass(kind, FullDisk):
                subprocess.run(["umount", os.path.join(folder, "disk")], check=False)
            print(f"faults: {kind.name}: {len(report.wrong) - before} wrong; {said}", flush=True)
        for suffix in ("", "-wal") if options.only in (None, "removed") else ():
            folder = stack.enter_context(harness.temporary_folder("campanile-fault-"))
            print(f"faults: {suffix or 'file'} removed: {removed(options.binary, folder, report, suffix)}", flush=True)
        for is_killed in (True, False) if options.only in (None, FailingCopy.name) else ():
            folder = stack.enter_context(harness.temporary_folder("campanile-fault-"))
            said = failing_copy(options.binary, folder, library, report, is_killed)
            print(f"faults: failing copy{', killed' if is_killed else ''}: {said}", flush=True)
        for is_stopped in (False, True) if options.only in (None, "amid a call") else ():
            folder = stack.enter_context(harness.temporary_folder("campanile-fault-"))
            said = large_calls.amid_a_call(ReadOnly(folder, library), options.binary, is_stopped, report)
            print(f"faults: amid a call{', stopped' if is_stopped else ''}: {said}", flush=True)
        if options.only in (None, "second start"):
            folder = stack.enter_context(harness.temporary_folder("campanile-fault-"))
            print(f"faults: second start: {second_start(options.binary, folder, report, mounts)}", flush=True)
        if options.only in (None, "read-only start"):
            folder = stack.enter_context(harness.temporary_folder("campanile-fault-"))
            print(f"faults: read-only start: {read_only_start(options.binary, folder, report, mounts)}", flush=True)
        unseen = []
        if options.only is None:
            unseen = controls(options.binary, stack.enter_context(harness.temporary_folder("campanile-f-")), report)
    report.print_wrong()
    for what in unseen:
        print(f"  WRONG (control): {what}")
    print(f"faults: {sum(report.checked.values())} checks, {len(report.wrong) + len(unseen)} wrong, "
          f"{time.monotonic() - started:.0f} s")
    return 1 if report.wrong or unseen else 0


if __name__ == "__main__":
    harness.run(main)
