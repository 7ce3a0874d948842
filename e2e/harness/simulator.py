"""The simulator of Apple and Google as a child."""
import contextlib
import http.client
import json
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Any

from e2e.harness.campanile import START_SECONDS, Connection
from e2e.harness.children import HarnessError, children, die_with_parent, free_port


class Simulator:
    """`campanile simulator` with keys of its own, its record of all requests, and its control calls."""

    def __init__(self, binary: str, folder: str, seed: int, strict: bool = True, host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> None:
        self.binary, self.folder = os.path.realpath(binary), os.path.join(folder, "simulator")
        self.port, self.page = free_port(), free_port()
        self.log, self.record = os.path.join(folder, "simulator.log"), os.path.join(folder, "requests.jsonl")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*prefix, self.binary, "simulator", "--host", host, "--port", str(self.port), "--page", str(self.page), "--make-keys",
                 self.folder, "--seed", str(seed % (1 << 31)), "--record", self.record, *(["--strict"] if strict else [])],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        children.append(self.process)
        self.host, self.connection = host, Connection(self.page, host)
        self.changes: list[float] = []   # when the certificate was changed, in seconds since 1970
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.counters()
                return
            time.sleep(0.02)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            raise HarnessError(f"the simulator did not start:\n{log.read()[-2000:]}")

    def call(self, method: str, path: str, body: Any = None, connection: Connection | None = None) -> Any:
        answer = (connection or self.connection).request(method, path, body=body)
        if answer.status != 200:
            raise HarnessError(f"simulator: {method} {path}: {answer!r}")
        return answer.json()

    def counters(self) -> Any:
        return self.call("GET", "/counters")

    def phones(self) -> dict[str, Any]:
        """Device token → what its phone shows."""
        return {one["token"]: one for one in self.call("GET", "/devices")["devices"]}

    def set_faults(self, rules: Any) -> None:
        self.call("POST", "/faults", rules)

    def certificate(self, change: str) -> None:
        self.changes.append(time.time())
        self.call("POST", "/certificate", {"change": change})

    def settings(self, apps: Iterable[str]) -> str:
        """The text of a campanile.yaml whose apps all push to this simulator, with one team's key."""
        with open(os.path.join(self.folder, "simulator.json"), encoding="utf-8") as file:
            names = json.load(file)
        url = f"https://{self.host}:{self.port}"
        one = {"apns": {"key_file": os.path.join(self.folder, f"AuthKey_{names['key_id']}.p8"),
                        "key_id": names["key_id"], "team_id": names["team_id"], "topic": names["topic"], "url": url},
               "fcm": {"service_account_file": os.path.join(self.folder, "service-account.json"), "url": url}}
        # JSON is YAML.
        return json.dumps({"apps": {app: one for app in apps}, "badge": {"android_data": True},
                           "push": {"ca_file": os.path.join(self.folder, "simulator-ca.pem")}}, indent=1)
