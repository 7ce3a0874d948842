"""A network of a script's own, whose lines can be cut, and one without, where everything is at 127.0.0.1.

The script's process becomes the router: it leaves the machine's network for an empty one, and each place is a network namespace behind
it. Nothing has a name, so all of it ends with its processes. Needs root, or the capabilities SYS_ADMIN and NET_ADMIN, and Debian's
`iproute2`.
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass, field

from e2e.harness.children import HarnessError, children, die_with_parent

CLONE_NEWNET = 0x40000000
PREFERENCE = "100"      # of the rules that cut, before those that lead somewhere


def _ip_program() -> str:
    program = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise HarnessError("ip is missing: apt-get install iproute2")
    return program


def _ip(*arguments: str) -> None:
    done = subprocess.run([_ip_program(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HarnessError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def enter_network() -> None:
    """A network of this process's own, with nothing but the loopback interface. Before any thread is started: it moves only the calling one."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise HarnessError(f"no network of its own: {os.strerror(ctypes.get_errno())}")
    _ip("link", "set", "lo", "up")


def enter_network_if_allowed() -> str:
    """Enters a network of this process's own, where one can be had. Gives the reason why not otherwise, and this process stays where it is."""
    # A child tries first: whoever may leave a network may be refused the new one's loopback, and the way back.
    tried = subprocess.run(["unshare", "--net", _ip_program(), "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return tried.stderr.strip() or f"unshare ended with {tried.returncode}"
    enter_network()
    return ""


@dataclass
class Place:
    """Where a program runs: its address, and the command that starts another one there."""
    name: str
    address: str = "127.0.0.1"
    prefix: list[str] = field(default_factory=list)


class Network:
    """Places and the lines between them. `plain`: all are at 127.0.0.1, and no line can be cut."""

    def __init__(self, plain: bool = False) -> None:
        self.plain = plain
        self.places: list[Place] = []
        self._cut: list[tuple[str, str]] = []
        if not plain:
            enter_network()
            # Of this network: /proc shows the reader's own.
            pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="utf-8")

    def place(self, name: str) -> Place:
        made = Place(name) if self.plain else self._behind_a_wire(name, len(self.places) + 1)
        self.places.append(made)
        return made

    @staticmethod
    def _behind_a_wire(name: str, number: int) -> Place:
        """A namespace that a sleeping program holds, a pair of interfaces, and the way to everywhere by the router."""
        nsenter = shutil.which("nsenter")
        if nsenter is None:
            raise HarnessError("nsenter is missing: apt-get install util-linux")
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        children.append(holder)
        assert holder.stdout is not None
        if not holder.stdout.readline():
            raise HarnessError("no network namespace can be made: it needs root")
        holder.stdout.close()
        inner, outer = f"10.77.{number}.2", f"10.77.{number}.1"
        _ip("link", "add", f"wire{number}", "type", "veth", "peer", "name", "wire", "netns", str(holder.pid))
        _ip("address", "add", f"{outer}/24", "dev", f"wire{number}")
        _ip("link", "set", f"wire{number}", "up")
        prefix = [nsenter, f"--net=/proc/{holder.pid}/ns/net", "--"]
        for inside in (f"address add {inner}/24 dev wire", "link set wire up", "link set lo up", f"route add default via {outer}"):
            done = subprocess.run([*prefix, "ip", *inside.split()], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise HarnessError(f"{name}: ip {inside}: {done.stderr.strip()}")
        return Place(name, inner, prefix)

    # --- cuts

    def cut(self, one: Place, other: Place, one_way: bool = False) -> None:
        """From now on nothing arrives that one sends to the other, and nobody is told; nor the other way, unless `one_way`. Connections
        that are open stay so, as far as their ends know."""
        if self.plain:
            raise HarnessError("a plain network has no lines to cut")
        for sender, receiver in [(one, other)] if one_way else [(one, other), (other, one)]:
            _ip("rule", "add", "from", sender.address, "to", receiver.address, "blackhole", "pref", PREFERENCE)
            self._cut.append((sender.address, receiver.address))

    def heal(self) -> None:
        """Mends all lines."""
        for sender, receiver in self._cut:
            _ip("rule", "del", "from", sender, "to", receiver, "blackhole", "pref", PREFERENCE)
        self._cut.clear()
