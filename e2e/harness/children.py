"""Programs as children of a script, of which none outlives it, and the folders and ports that they get.

Every process started with `die_with_parent` dies with the script, also when the script itself is killed (PR_SET_PDEATHSIG);
every temporary folder goes with it, unless it was killed with SIGKILL.
"""
import atexit
import contextlib
import ctypes
import errno
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from types import FrameType
from typing import Any

PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)
# What is killed when the script ends.
children: list[subprocess.Popen[Any]] = []


class HarnessError(Exception):
    """The script itself can't go on: the server didn't start, a command failed. Not a finding about the server."""


def die_with_parent() -> None:
    """For `preexec_fn`."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def forget(process: subprocess.Popen[Any]) -> None:
    """Takes a process that has ended off the list. Two threads may find its end: one that stops it, and one that kills it."""
    with contextlib.suppress(ValueError):
        children.remove(process)


@atexit.register
def _kill_children() -> None:
    for process in children:
        if process.poll() is None:
            process.kill()
            process.wait()


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)  # runs atexit and the context managers


def leave_when_told() -> None:
    """SIGTERM and SIGHUP end the script as an exception does, so that its children and folders go with it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)


@contextlib.contextmanager
def temporary_folder(prefix: str, parent: str | None = None) -> Iterator[str]:
    """A folder that is gone afterwards. Its path is free of links, as the recorder compares paths by their text."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Below the ports that the system gives to whoever asks for any.
PORTS = range(20_000, 30_000)
# The ones of this script; a byte in a file is locked for each, until the script ends.
_ports: set[int] = set()
_locks = os.open(os.path.join(tempfile.gettempdir(), f"campanile-ports-{os.getuid()}"), os.O_RDWR | os.O_CREAT, 0o600)


def free_port() -> int:
    """A port of 127.0.0.1 that no other script of this user takes while this one runs, so that a server may stop and come back."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if port in _ports:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                fcntl.lockf(_locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EAGAIN):
                    continue
                raise
        _ports.add(port)
        return port
    raise HarnessError("no port is free")


def c_compiler() -> str:
    """The path or name of a C compiler: that of CC, or what is there."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    raise HarnessError("no C compiler found: apt-get install gcc libc6-dev")
