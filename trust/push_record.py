"""What the simulator received, whole: it keeps the newest 2,000 requests, and this reads them before they go."""
import datetime
import json
import threading
import time
from dataclasses import dataclass

import campanile_process as process

KEPT = 2000              # requests that the simulator keeps
PAUSE_SECONDS = 0.05
UNKNOWN = 64             # requests that may come between two questions


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


def parsed(row):
    """A row of GET /requests as a Request; None for a request that is no push."""
    if row["service"] == "token":
        return None
    payload = json.loads(row["payload"]) if row["payload"] else {}
    headers = dict(row["headers"])
    if row["service"] == "apns":
        token, apple, data, shown = row["path"].rpartition("/")[2], payload, payload, False
    else:
        message = payload["message"]
        token, apple = message["token"], message.get("apns", {}).get("payload", {})
        data, shown = {**apple, **message.get("data", {})}, "notification" in message
    aps = apple.get("aps", {})
    badge = aps.get("badge")
    if badge is None and data.get("type") == "badge":
        badge = int(data["count"])
    if shown or "alert" in aps:
        kind = "alert"
        if shown and "aps" not in apple:
            badge = message.get("android", {}).get("notification", {}).get("notification_count")
    else:
        kind = "background" if badge is None else "sync" if badge else "clearing"
    return Request(
        datetime.datetime.fromisoformat(row["at"]).timestamp(), row["service"], row["connection"], token, kind,
        data.get("id", "").replace("-", ""), headers.get("apns-id", "").replace("-", ""), badge, row["status"],
        row["reason"], row["fault"])


class Record(threading.Thread):
    """Reads along until told to stop. `requests` are in the order of their arrival."""

    def __init__(self, simulator):
        super().__init__(daemon=True, name="record")
        self.simulator = simulator
        self.connection = process.Connection(simulator.page)
        self.requests, self.trouble = [], None
        self.seen, self._tail = 0, []      # all requests so far, those for tokens as well; the last rows
        self._stopping, self._lock = threading.Event(), threading.Lock()

    def run(self):
        try:
            while not self._stopping.is_set():
                self.read()
                self._stopping.wait(PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 – told by `complete`
            self.trouble = error

    def read(self):
        """Takes in what came since the last look."""
        with self._lock:
            total = self.simulator.call("GET", "/counters", connection=self.connection)["requests"]
            if total == self.seen:
                return
            rows = self._rows(total - self.seen + UNKNOWN)
            if rows is None:
                rows = self._rows(KEPT)
            if rows is None:
                raise process.TrustError(
                    f"{total - self.seen} requests arrived since the last look, more than the simulator keeps: "
                    "repeat this on a quieter machine")
            self.seen += len(rows)
            self._tail = (self._tail + rows)[-3:]
            self.requests += [one for one in map(parsed, rows) if one is not None]

    def _rows(self, limit):
        """The rows after those that are known, oldest first; None if there may be others between."""
        limit = min(limit, KEPT)
        rows = self.simulator.call("GET", f"/requests?limit={limit}", connection=self.connection)["requests"]
        rows.reverse()
        if not self._tail:
            return rows if len(rows) < limit else None
        size = len(self._tail)
        for end in range(len(rows), size - 1, -1):
            if rows[end - size:end] == self._tail:
                return rows[end:]
        return None

    def complete(self):
        """Everything that arrived until now."""
        if self.is_alive():
            self._stopping.set()
            self.join()
        if self.trouble is not None:
            raise process.TrustError(f"the record broke off: {self.trouble}") from self.trouble
        self.read()
        return self.requests

    def wait_for(self, count, seconds):
        """Waits until so many requests arrived in all, or the time is over."""
        deadline = time.monotonic() + seconds
        while len(self.requests) < count and self.trouble is None and time.monotonic() < deadline:
            time.sleep(0.02)
