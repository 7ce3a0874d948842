"""What one caller sees of a server that something is wrong with: the client of faults.py."""
import concurrent.futures
import contextlib
import email.message
import http.client
import time

from e2e import harness
from e2e.trust import load

USERS = ("alice", "bob")
UNREADY_SECONDS = 2.5     # longer than two proofs of /readyz


class Caller:
    """Makes calls and keeps what was acknowledged and what was refused."""

    def __init__(self, server, report):
        self.server, self.report = server, report
        self.key = server.producer_key("faults")
        self.tokens = {user: server.user_token(user) for user in USERS}
        self.acknowledged, self.refused = {}, []   # id → user; (user, title, key, body)
        self.read = set()
        self.number = 0

    def request(self, *arguments, **more):
        with contextlib.closing(self.server.connection()) as connection:
            try:
                return connection.request(*arguments, **more)
            except (OSError, http.client.HTTPException) as error:
                return harness.Answer(0, email.message.Message(), f"no answer: {error!r}".encode())

    def create(self, retry=None):
        """True if it was acknowledged."""
        self.number += 1
        user = USERS[self.number % len(USERS)]
        body = {"user_id": user, "title": f"Title {self.number}", "body": "abcdefghij" * 190, "push": False}
        user, title, key, body = retry or (user, body["title"], f"faults-{self.number}", body)
        answer = self.request("POST", "/notifications", credential=self.key, body=body,
                              headers={"Idempotency-Key": key})
        if answer.status == 201:
            self.acknowledged[answer.json()["id"]] = user
            return True
        self.is_refusal("create", answer)
        self.refused.append((user, title, key, body))
        return False

    def is_refusal(self, what, answer):
        return self.report.check("refusal", refusal_fault(answer) is None,
                                 lambda: f"{what}: {refusal_fault(answer)}: {answer!r}")

    def other_writes(self):
        """Calls whose effect the ledger doesn't follow: done or refused, nothing else. Gives how many were refused."""
        user = USERS[0]
        one = next(one for one, owner in self.acknowledged.items() if owner == user)
        calls = {
            "PATCH": ("PATCH", f"/notifications/{one}", {"read": True}),
            "register": ("POST", "/device_tokens", {"token": "ab" * 32, "platform": "ios"}),
            "clear": ("DELETE", "/badge", None),
            "mark_all_read": ("POST", "/notifications/mark_all_read", {"up_to": one}),
        }
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            answers = dict(zip(calls, pool.map(
                lambda call: self.request(call[0], call[1], credential=self.tokens[user], body=call[2]),
                calls.values())))
        refused = 0
        for name, answer in answers.items():
            if answer.status not in (200, 201):
                refused += self.is_refusal(name, answer)
            elif name == "PATCH":
                self.read.add(one)
        return refused, answers

    def reads(self, when):
        """Reads go on, with the right numbers."""
        for user in USERS:
            mine = {one for one, owner in self.acknowledged.items() if owner == user}
            badge = self.request("GET", "/badge", credential=self.tokens[user])
            self.report.check("reads", badge.status == 200, lambda: f"GET /badge {when}: {badge!r}")
            one = self.request("GET", f"/notifications/{max(mine)}", credential=self.tokens[user])
            self.report.check("reads", one.status == 200, lambda: f"GET /notifications/{{id}} {when}: {one!r}")
            listed, problem = self.listed(user)
            self.report.check("reads", listed is not None, lambda: f"GET /notifications {when}: {problem!r}")
            if listed is not None:
                ids = {entry["id"] for entry in listed}
                self.report.check("lost", mine <= ids, lambda: f"{user} {when}: {len(mine - ids)} lost")
                self.report.check("refused but done", ids <= mine,
                                  lambda: f"{user} {when}: {len(ids - mine)} that were answered with 503 are there")
        health = self.request("GET", "/healthz")
        self.report.check("reads", health.status == 200, lambda: f"/healthz {when}: {health!r}")

    def listed(self, user):
        found, cursor = [], None
        while True:
            answer = self.request("GET", "/notifications?limit=100" + (f"&cursor={cursor}" if cursor else ""),
                                  credential=self.tokens[user], headers={"User-Agent": load.BROWSER})
            if answer.status != 200:
                return None, answer
            found += answer.json()["notifications"]
            cursor = answer.json()["next_cursor"]
            if cursor is None:
                return found, None

    def unready(self):
        """Who asks /readyz is never sent here while creates are refused."""
        first = self.request("GET", "/readyz")
        self.report.check("readyz", first.status == 503, lambda: f"/readyz right after a refused create: {first!r}")
        deadline = time.monotonic() + UNREADY_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.3)
            before, taken, after = self.request("GET", "/readyz"), self.create(), self.request("GET", "/readyz")
            self.report.check("readyz", taken or before.status == after.status == 503,
                              lambda: f"/readyz around a refused create: {before!r}, {after!r}")

    def ready(self, wanted, seconds):
        """Waits until /readyz has the status; gives the last answer."""
        deadline = time.monotonic() + seconds
        while True:
            answer = self.request("GET", "/readyz", credential=harness.METRICS_TOKEN)
            if answer.status == wanted or time.monotonic() > deadline:
                return answer
            time.sleep(0.1)


def refusal_fault(answer):
    """None if the answer is a 503 as the contract has it, else what is wrong with it."""
    if answer.status != 503:
        return f"status {answer.status} instead of 503"
    if not (answer.header("Retry-After") or "").isdigit():
        return "no Retry-After in seconds"
    if not (answer.header("Content-Type") or "").startswith("application/problem+json"):
        return "not problem+json"
    try:
        problem = answer.json()
    except ValueError:
        return "not JSON"
    if problem.get("status") != 503 or not problem.get("code") or not problem.get("request_id"):
        return "status, code or request_id is missing"
    return None
