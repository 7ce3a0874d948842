"""A simulator, a server that pushes to it, and users with devices: what pushes.py works with."""
import contextlib
import os
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from e2e import harness
from e2e.harness import stores
from e2e.trust import load

RECIPIENTS = 1000        # of one POST, at most (the contract)
CALLERS = 8              # threads that call the server
RETRY_SCALE = 600        # a minute of the retries' ladder becomes a tenth of a second
IDLE_SECONDS = 5         # a connection that rested so long is not used again
QUIET_SECONDS = 240      # until nothing is owed any more: two unanswered pushes in a row take 45 s


@dataclass
class Device:
    token: str
    platform: str = "ios"
    provider: str = "apns"


@dataclass
class User:
    name: str
    app: str
    credential: str
    devices: list = field(default_factory=list)


class World:
    """The two programs, the users, and what was acknowledged to the producers."""

    def __init__(self, options, folder, apps=("default",)):
        self.apps, self.folder = apps, folder
        self.simulator = harness.Simulator(options.simulator or options.binary, folder, options.seed)
        self.server = harness.Campanile(
            options.binary, stores.new_database(folder), folder,
            environment={"CAMPANILE_UNSAFE_RETRY_SCALE": str(RETRY_SCALE)})
        with open(os.path.join(folder, "campanile.yaml"), "w", encoding="utf-8") as file:
            file.write(self.simulator.settings(apps))
        self.keys = {app: self.server.command("keys", "create", f"trust-{app}", "--app", app)[1] for app in apps}
        self.users, self.posted = [], {}   # posted: notification id → user
        self.pool = ThreadPoolExecutor(CALLERS)
        self._connections = {}

    def close(self):
        self.pool.shutdown(cancel_futures=True)

    # --- calls

    def request(self, method, path, **more):
        """One call over this thread's connection; one that rested may be closed by now, and is left."""
        key = threading.get_ident(), self.server.process.pid
        connection, used = self._connections.get(key, (harness.Connection(self.server.port), 0))
        if time.monotonic() - used > IDLE_SECONDS:
            connection.close()
        try:
            return connection.request(method, path, **more)
        finally:
            self._connections[key] = connection, time.monotonic()

    def ask(self, method, path, **more):
        answer = self.request(method, path, **more)
        if not 200 <= answer.status < 300:
            raise harness.HarnessError(f"{method} {path}: {answer!r}")
        return answer

    def each(self, call, things):
        return list(self.pool.map(call, things))

    def add_users(self, users):
        """Registers their devices."""
        def register(user):
            for device in user.devices:
                self.ask("POST", "/device_tokens", credential=user.credential,
                         body={"token": device.token, "platform": device.platform, "provider": device.provider})
        self.users += users
        self.each(register, users)

    def post_all(self, title, receivers=None):
        """A notification to every user, or to these. Gives how many alerts are owed with it."""
        owed = 0
        for app in self.apps:
            users = {user.name: user for user in receivers or self.users if user.app == app}
            names = list(users)
            for first in range(0, len(names), RECIPIENTS):
                # More than 100 users need a key.
                answer = self.ask("POST", "/notifications", credential=self.keys[app], headers={"Idempotency-Key": secrets.token_hex(16)}, body={
                    "user_ids": names[first:first + RECIPIENTS], "title": title, "body": "A fault, or none"})
                for one in answer.json()["notifications"]:
                    self.posted[one["id"]] = users[one["user_id"]]
                    owed += len(users[one["user_id"]].devices)
        return owed

    def post(self, user, title):
        answer = self.ask("POST", "/notifications", credential=self.keys[user.app],
                          body={"user_id": user.name, "title": title, "body": "At once"})
        self.posted[answer.json()["id"]] = user

    def mark_read(self, user):
        self.ask("POST", "/notifications/mark_all_read", credential=user.credential, body={})

    def look(self, user):
        """The first page, as a native app asks for it: clears the badge."""
        self.ask("GET", "/notifications?limit=1", credential=user.credential, headers={"User-Agent": load.NATIVE})

    def badges(self):
        """User's (app, name) → the count that GET /badge gives."""
        def one(user):
            return (user.app, user.name), self.ask("GET", "/badge", credential=user.credential).json()["count"]
        return dict(self.each(one, self.users))

    def exhausted_tokens(self, attempts):
        """The device tokens whose badge push was tried so often."""
        return {token for token, in self.query(f"SELECT token FROM device_tokens WHERE badge_attempts >= {attempts}")}

    def living_tokens(self):
        """The device tokens that the server still has."""
        def one(user):
            found = self.ask("GET", "/device_tokens", credential=user.credential).json()["device_tokens"]
            return [device["token"] for device in found]
        return {token for tokens in self.each(one, self.users) for token in tokens}

    # --- the database

    def query(self, sql):
        return stores.rows(self.server.database, sql)

    def owed(self):
        """Devices that something is owed or in flight to."""
        return int(self.query("SELECT count(*) FROM device_tokens WHERE due_at IS NOT NULL OR lease <> 0")[0][0])

    def wait_until_quiet(self, seconds=QUIET_SECONDS):
        """Whether nothing is owed any more."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.owed() == 0:
                return True
            time.sleep(0.1)
        return False

    def unsettled(self):
        """A sentence on what is still owed, for whoever has to find out why."""
        now = int(time.time() * 1000)
        rows = self.query(
            f"SELECT id, provider, lease, due_at - {now}, badge_due_at - {now}, badge_attempts FROM device_tokens "
            "WHERE due_at IS NOT NULL OR lease <> 0 LIMIT 3")
        return (f"{self.owed()} devices are still owed something; (id, provider, lease, due in ms, badge due in ms, "
                f"badge attempts) of some: {rows}; the log ends with\n{self.server.log_tail(1500)}")

    def in_flight(self):
        """(token, notification id) of every alert that may have been sent without its answer being written down."""
        found = self.query(f"SELECT t.token, {self._id('d.notification_id')} FROM deliveries d JOIN device_tokens t ON t.id = d.device_id "
                           "WHERE d.state = 'sending'")
        return {(token, one) for token, one in found}

    def deliveries(self):
        """Every alert that was owed to a device."""
        found = self.query(
            f"SELECT {self._id('d.notification_id')}, coalesce(d.token, t.token), {self._id('d.id')}, d.state, d.attempts, d.answers "
            "FROM deliveries d LEFT JOIN device_tokens t ON t.id = d.device_id WHERE d.device_id <> 0")
        return [Delivery(one, token or None, identifier, state, int(attempts), answers or None)
                for one, token, identifier, state, attempts, answers in found]

    def _id(self, column):
        return stores.hexadecimal(self.server.database, column)


@dataclass(slots=True)
class Delivery:
    """One alert owed to one device. Ids are 32 hexadecimal digits."""
    notification: str
    token: str | None
    id: str
    state: str
    attempts: int
    answers: str | None


@contextlib.contextmanager
def world(options, name, apps=("default",), make=World):
    """Both programs running in a folder that is gone afterwards. `make`: World, or a class of its kind."""
    with harness.temporary_folder(f"campanile-pushes-{name}-") as folder:
        made = make(options, folder, apps)
        try:
            made.server.start()
            yield made
        finally:
            made.close()
            for one in (made.server.process, made.simulator.process):
                if one is not None and one.poll() is None:
                    one.kill()
                    one.wait()
