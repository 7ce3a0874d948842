"""What the simulator received, whole: it adds every request to a file before it answers (--record), and this reads the
file to its end."""
import datetime
import json
import os
import threading
import time
from dataclasses import dataclass

from e2e import harness

PAUSE_SECONDS = 0.05
CHUNK_BYTES = 1 << 20


@dataclass(slots=True)
class Request:
    """One push as it arrived. `notification` is empty for a badge push; `status` is None where no answer was sent."""
    at: float            # seconds since 1970
    service: str
    connection: int
    token: str
    kind: str            # alert, clearing, sync or background
    notification: str    # 32 hexadecimal digits
    apns_id: str
    badge: int | None
    status: int | None
    reason: str | None
    fault: str | None
    # What was named: a token, or an installation ID of Firebase's, which then stands in `token` too.
    sent_to: tuple[str, str] = ("token", "")


def parsed(row):
    """A line of the file as a Request; None for a request that is no push."""
    if row["service"] == "token":
        return None
    payload = json.loads(row["payload"]) if row["payload"] else {}
    headers = dict(row["headers"])
    if row["service"] == "apns":
        named, token, apple, data, shown = "token", row["path"].rpartition("/")[2], payload, payload, False
        drawn = None
    else:
        message = payload["message"]
        named = "fid" if "fid" in message else "token"
        token, apple = message[named], message.get("apns", {}).get("payload", {})
        data = {**apple, **message.get("data", {})}
        drawn = json.loads(message.get("data", {}).get("alert", "null"))   # by the app itself
        shown = "notification" in message or drawn is not None
    aps = apple.get("aps", {})
    badge = aps.get("badge")
    if badge is None and data.get("type") == "badge":
        badge = int(data["count"])
    if shown or "alert" in aps:
        kind = "alert"
        if shown and "aps" not in apple:
            badge = drawn.get("count") if drawn else message.get("android", {}).get("notification", {}).get("notification_count")
    else:
        kind = "background" if badge is None else "sync" if badge else "clearing"
    return Request(
        datetime.datetime.fromisoformat(row["at"]).timestamp(), row["service"], row["connection"], token, kind,
        data.get("id", "").replace("-", ""), headers.get("apns-id", "").replace("-", ""), badge, row["status"],
        row["reason"], row["fault"], (named, token))


class Record(threading.Thread):
    """Reads along until told to stop, as fast as it can: the file keeps what it hasn't read yet. `requests` are in the
    order of their arrival."""

    def __init__(self, simulator):
        super().__init__(daemon=True, name="record")
        self.simulator = simulator
        self.file = open(simulator.record, "rb")
        self.requests, self.trouble = [], None
        self.lines, self._rest = 0, b""    # all requests so far, those for tokens as well; a line that has no end yet
        self._stopping, self._lock = threading.Event(), threading.Lock()

    def run(self):
        try:
            while not self._stopping.is_set():
                self.read()
                self._stopping.wait(PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 – told by `complete`
            self.trouble = error

    def read(self):
        """Takes in what the file holds by now. What comes meanwhile waits for the next time."""
        with self._lock:
            left = os.fstat(self.file.fileno()).st_size - self.file.tell()
            while left > 0:
                chunk = self.file.read(min(left, CHUNK_BYTES))
                left -= len(chunk)
                lines = (self._rest + chunk).split(b"\n")
                self._rest = lines.pop()
                self.lines += len(lines)
                self.requests += [one for one in map(parsed, map(json.loads, lines)) if one is not None]

    def complete(self):
        """Everything that arrived until now: as many lines as the simulator counted requests."""
        if self.is_alive():
            self._stopping.set()
            self.join()
        if self.trouble is not None:
            raise harness.HarnessError(f"the record broke off: {self.trouble}") from self.trouble
        counted = self.simulator.counters()["requests"]
        self.read()
        if self.lines < counted:
            raise harness.HarnessError(f"the record has {self.lines:,} requests, and the simulator counted {counted:,}")
        return self.requests

    def wait_for(self, count, seconds):
        """Waits until so many requests arrived in all, or the time is over."""
        deadline = time.monotonic() + seconds
        while len(self.requests) < count and self.trouble is None and time.monotonic() < deadline:
            time.sleep(0.02)
