"""A cluster: nodes of one campanile program on one PostgreSQL database, the simulator as Apple and Google for all, nginx in front."""
import contextlib
import http.client
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from e2e.harness.campanile import START_SECONDS, Campanile
from e2e.harness.children import HarnessError, children
from e2e.harness.network import Network, Place
from e2e.harness.nginx import Balancer
from e2e.harness.postgres import PASSWORD, Pair, PostgreSQL, server_folder
from e2e.harness.simulator import Simulator

# Streams of many clients of one user come from one address here.
LIMITS = {"CAMPANILE_STREAMS_PER_USER": "20000", "CAMPANILE_STREAMS_TOTAL": "20000"}


@dataclass
class Shape:
    """What a cluster consists of. `commit` and `synchronous` as in Pair. `standby`: false for a primary alone."""
    nodes: int = 3
    plain: bool = False
    standby: bool = True
    commit: str = "on"
    synchronous: bool = True
    apps: Sequence[str] = ("default",)
    environment: dict[str, str] = field(default_factory=dict)   # of the nodes
    settings: dict[str, str] = field(default_factory=dict)      # of PostgreSQL


class Cluster:
    """Everything is started by `start`. `nodes` are in the order of their start; a killed one keeps its place."""

    def __init__(self, binary: str, folder: str, seed: int, shape: Shape) -> None:
        self.binary, self.folder, self.shape = binary, folder, shape
        self.network = Network(shape.plain)
        self.apple = self.network.place("apple")
        self.stores = [self.network.place(name) for name in ("one", "two")]
        servers = [PostgreSQL(folder, place.name, host=place.address, prefix=place.prefix, settings=shape.settings) for place in self.stores]
        self.pair = Pair(servers[0], servers[1], shape.commit, shape.synchronous)
        self._address = self.pair.address if shape.standby else servers[0].address
        self.simulator = Simulator(binary, folder, seed, host=self.apple.address, prefix=self.apple.prefix)
        self.places: list[Place] = []
        self.nodes: list[Campanile] = []
        for _ in range(shape.nodes):
            self._add()
        self.balancer: Balancer | None = None

    def _add(self) -> Campanile:
        place = self.network.place(f"node-{len(self.nodes) + 1}")
        folder = os.path.join(self.folder, place.name)
        os.makedirs(folder)
        node = Campanile(self.binary, self._address, folder, {"PGPASSWORD": PASSWORD, **LIMITS, **self.shape.environment})
        node.host, node.prefix = place.address, place.prefix
        pathlib.Path(folder, "campanile.yaml").write_text(self.simulator.settings(self.shape.apps), encoding="utf-8")
        self.places.append(place)
        self.nodes.append(node)
        return node

    # --- its life

    def start(self) -> None:
        if self.shape.standby:
            self.pair.create()
        else:
            self.pair.primary.settings["synchronous_commit"] = self.shape.commit
            self.pair.primary.create()
        for node in self.nodes:   # at once, as an orchestrator does
            node.start(wait=False)
        for node in self.nodes:
            self.wait_until_ready(node)
        self.balancer = Balancer(self.folder, [(node.host, node.port) for node in self.nodes])

    def add(self) -> Campanile:
        """One node more, which nginx doesn't know."""
        node = self._add()
        node.start(wait=False)
        self.wait_until_ready(node)
        return node

    def stop(self) -> None:
        """All nodes must stop as SIGTERM asks them to."""
        for node in self.nodes:
            if node.process in children:
                node.stop()
        self.close()

    def close(self) -> None:
        """Whatever state it is in; nothing of it is left."""
        for node in self.nodes:
            if getattr(node, "process", None) in children:
                node.kill()
        if self.balancer is not None:
            self.balancer.stop()
        self.simulator.process.kill()
        self.pair.stop()

    @property
    def front(self) -> int:
        """nginx' port at 127.0.0.1."""
        if self.balancer is None:
            raise HarnessError("the cluster isn't started")
        return self.balancer.port

    # --- nodes

    def wait_until_ready(self, node: Campanile, seconds: float = START_SECONDS) -> float:
        """Until /readyz is 200; how many seconds that took."""
        began, said = time.monotonic(), ""
        while time.monotonic() - began < seconds:
            if node.process.poll() is not None:
                raise HarnessError(f"a node exited {node.process.returncode}:\n{node.log_tail()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = node.connection().request("GET", "/readyz")
                if answer.status == 200:
                    return time.monotonic() - began
                said = repr(answer)
            time.sleep(0.05)
        raise HarnessError(f"a node is not ready after {seconds} s: {said}\n{node.log_tail()}")

    def freeze(self, node: Campanile) -> None:
        """SIGSTOP: it does nothing, and nobody is told."""
        node.process.send_signal(signal.SIGSTOP)

    def thaw(self, node: Campanile) -> None:
        node.process.send_signal(signal.SIGCONT)

    def running(self) -> list[Campanile]:
        return [node for node in self.nodes if getattr(node, "process", None) in children and node.process.poll() is None]

    def place_of(self, node: Campanile) -> Place:
        return self.places[self.nodes.index(node)]

    # --- the database

    @property
    def primary(self) -> PostgreSQL:
        return self.pair.primary

    def query(self, sql: str) -> list[list[str]]:
        return self.primary.rows(sql)

    def wait_for(self, holds: Callable[[], bool], seconds: float, pause: float = 0.2) -> bool:
        """Whether something holds within that time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if holds():
                return True
            time.sleep(pause)
        return False


@contextlib.contextmanager
def cluster(binary: str, seed: int, shape: Shape, name: str = "campanile-cluster-") -> Iterator[Cluster]:
    """A cluster that is started, in a folder that is gone afterwards. If something goes wrong inside, the ends of the nodes' logs are
    printed. With a network of its own the calling process stays in it."""
    with server_folder(name) as folder:
        made = Cluster(binary, folder, seed, shape)
        try:
            made.start()
            yield made
        except BaseException:
            for node in made.nodes:
                print(f"--- the log of {made.place_of(node).name} ends:\n{node.log_tail(1500)}")
            print(f"--- PostgreSQL's logs end:\n{made.pair.primary.log_tail(1500)}\n---\n{made.pair.standby.log_tail(1500)}", flush=True)
            raise
        finally:
            made.close()
