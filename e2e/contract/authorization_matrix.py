"""Every operation of openapi.yaml against every credential that must not open it, and the one that must.

Starts a campanile of its own and asks it over a socket. For each operation: no credential 401, malformed, forged and
expired ones 401, a revoked key 401, the wrong kind and an operate key 403, another user's or another app's object 404 or an empty answer,
and then the owner, who succeeds; after each refusal the owner's inbox, badge and devices are what they were. `HEAD`
is held to the same as `GET`. What a user and a producer may both call is held to either's rules, and to those of the names of
producers' keys. An operation that openapi.yaml has and this table lacks is a failure, and the reverse.

A test is an operation. It goes on after a cell that is wrong, and says all that are.
"""
import base64
import hashlib
import hmac
import http.client
import json
import socket
import time
import uuid
from urllib.parse import quote

import pytest
import yaml

from e2e import ROOT
from e2e.harness import JWT_SECRET, METRICS_TOKEN, HarnessError, serving

CONTRACT = ROOT / "openapi.yaml"
REVOCATION_SECONDS = 10  # the contract says 1 s; a debug binary on a busy machine is slow
OWNER, STRANGER = "alice", "bob"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


# --- credentials

def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwt(claims, *, header=None, secret=JWT_SECRET):
    """A JWT signed with HS256 (RFC 7515), whatever its header says. Claims that are a text stand as they are."""
    head = {"alg": "HS256", "typ": "JWT", **(header or {})}
    text = claims if isinstance(claims, str) else json.dumps(claims)
    signed = f"{base64url(json.dumps(head).encode())}.{base64url(text.encode())}"
    return f"{signed}.{base64url(hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest())}"


def malformed_tokens():
    """Bearer tokens that no check may let through, by what is wrong with them."""
    soon = int(time.time()) + 3600
    good = jwt({"sub": OWNER, "exp": soon})
    head, claims, signature = good.split(".")
    return {
        "garbage": "garbage",
        "a key that was never made": "cmp_" + base64url(b"\0" * 32),
        "empty parts": "..",
        "no signature": f"{head}.{claims}.",
        "two parts": f"{head}.{claims}",
        "another signature": f"{head}.{claims}.{'A' * len(signature)}",
        "other claims under the signature": f"{head}.{base64url(json.dumps({'sub': STRANGER, 'exp': soon}).encode())}.{signature}",
        "another secret": jwt({"sub": OWNER, "exp": soon}, secret="x" * 40),
        "alg none": base64url(b'{"alg":"none"}') + f".{claims}.",
        "alg none, signed": jwt({"sub": OWNER, "exp": soon}, header={"alg": "none"}),
        "alg RS256": jwt({"sub": OWNER, "exp": soon}, header={"alg": "RS256"}),
        "alg HS512": jwt({"sub": OWNER, "exp": soon}, header={"alg": "HS512"}),
        "no exp": jwt({"sub": OWNER}),
        "a comma too many": jwt(f'{{"sub":"{OWNER}","exp":{soon},}}'),
        "sub twice": jwt(f'{{"sub":"{OWNER}","exp":{soon},"sub":"{OWNER}"}}'),
        "exp as text": jwt({"sub": OWNER, "exp": str(soon)}),
        "no sub": jwt({"exp": soon}),
        "empty sub": jwt({"sub": "", "exp": soon}),
        "sub as number": jwt({"sub": 1, "exp": soon}),
        "not yet valid": jwt({"sub": OWNER, "exp": soon, "nbf": soon - 60}),
        "app as number": jwt({"sub": OWNER, "exp": soon, "app": 1}),
        "empty app": jwt({"sub": OWNER, "exp": soon, "app": ""}),
    }


def malformed_headers():
    """`Authorization` fields that hold a good token in a bad form."""
    good = jwt({"sub": OWNER, "exp": int(time.time()) + 3600})
    return {
        "scheme alone": "Bearer",
        "empty token": "Bearer ",
        "no scheme": good,
        "another scheme": f"Token {good}",
        "Basic": "Basic " + base64.b64encode(f"alice:{good}".encode()).decode(),
        "two tokens": f"Bearer {good} {good}",
        "no space": f"Bearer{good}",
    }


class Credentials:
    """What the two users, the two apps and their producers hold."""

    def __init__(self, server):
        self.owner, self.stranger = server.user_token(OWNER), server.user_token(STRANGER)
        self.other_app_user = server.command("token", OWNER, "--app", "other")[1]
        self.producer = server.producer_key("matrix")
        self.other_name = server.producer_key("matrix-other-name")
        # A third app, so that what it creates doesn't stand in the inbox that must be empty.
        self.other_app_producer = server.command("keys", "create", "matrix-third", "--app", "third")[1]
        self.revoked = server.producer_key("matrix-revoked")
        self.operate = server.command("keys", "create", "matrix-operate", "--operate")[1]
        self.revoked_operate = server.command("keys", "create", "matrix-operate-revoked", "--operate")[1]
        server.command("keys", "revoke", "matrix-operate-revoked")
        self.other_app_operate = server.command("keys", "create", "matrix-operate-fourth", "--app", "fourth", "--operate")[1]
        self.broadcast = server.command("keys", "create", "matrix-broadcast", "--broadcast")[1]
        self.other_app_broadcast = server.command("keys", "create", "matrix-broadcast-third", "--app", "third", "--broadcast")[1]
        self.expired = jwt({"sub": OWNER, "exp": int(time.time()) - 60})

    def right(self, kind):
        """What opens an operation to the owner's side."""
        return {"producerKey": self.producer, "broadcastKey": self.broadcast}.get(kind, self.owner)

    def of_other_app(self, kind):
        return {"userToken": self.other_app_user, "broadcastKey": self.other_app_broadcast}.get(kind, self.other_app_producer)


# --- requests

class Answer:
    """An answer; of a stream the first event only, because it has no end."""

    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        if self.headers.get("Content-Type", "").startswith("text/event-stream"):
            self.body = self.block(response) + self.block(response)  # what to wait before coming back, and the event
        else:
            self.body = response.read()

    @staticmethod
    def block(response):
        lines = []
        while (line := response.readline()).strip():
            lines.append(line)
        return b"".join(lines)

    def event(self):
        """The name of the event, and its data."""
        fields = dict(line.split(": ", 1) for line in self.body.decode().splitlines() if ": " in line)
        return fields["event"], json.loads(fields["data"])

    def json(self):
        return json.loads(self.body)


class Client:
    def __init__(self, port):
        self.port = port

    def send(self, method, path, authorization, body=None, headers=()):
        """One request on a connection of its own. `authorization` is the field's text, or a list for several fields."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for value in authorization if isinstance(authorization, list) else [authorization]:
                if value is not None:
                    connection.putheader("Authorization", value)
            for name, value in headers:
                connection.putheader(name, value)
            data = None
            if body is not None:
                data = json.dumps(body).encode()
                connection.putheader("Content-Type", "application/json")
            if body is not None or method in ("POST", "PATCH", "PUT"):
                connection.putheader("Content-Length", str(len(data or b"")))
            connection.endheaders(data)
            return Answer(connection.getresponse())
        finally:
            connection.close()


def bearer(token):
    return f"Bearer {token}"


# --- the table

class Case:
    """How to call one operation on something of the owner's, and what strangers get.

    body: what is sent, or a function that makes it of what is called on.
    producers_body: the same for a producer, where a user may call too. Who else gets what there: `not_theirs` and `theirs`.
    owner, stranger, other_app, other_name: a function of the answer that says whether it is right. None: there is no such cell,
    because a producer acts for all users of its app, its keys' names don't matter, or the operation is open to anyone; of the owner
    only the status is looked at then.
    """

    def __init__(self, path, body=None, *, producers_body=None, owner=None, stranger=None, other_app=None, other_name=None):
        self.path, self.body, self.producers_body = path, body, producers_body
        self.owner, self.stranger, self.other_app, self.other_name = owner, stranger, other_app, other_name


def status(*expected):
    def check(answer):
        return answer.status in expected
    check.wanted = "/".join(map(str, expected))
    return check


def answers(expected, holds, wanted):
    def check(answer):
        return answer.status == expected and holds(answer.json())
    check.wanted = f"{expected} with {wanted}"
    return check


def stream(holds, wanted):
    def check(answer):
        name, data = answer.event() if answer.status == 200 else ("", {})
        return name == "badge" and holds(data)
    check.wanted = f"a stream that begins with {wanted}"
    return check


NOT_THERE = status(404)
EMPTY_INBOX = answers(200, lambda page: page["notifications"] == [] and page["badge"]["unread_count"] == 0, "nothing in it")
NOTHING_MARKED = answers(200, lambda marked: marked["updated"] == 0, "nothing marked")
ZEROS = answers(200, lambda badge: badge["count"] == badge["unread_count"] == 0, "zeros")
HEARS_ZEROS = stream(lambda badge: badge["count"] == 0, "zeros")
NO_DEVICES = answers(200, lambda answer: answer["device_tokens"] == [], "no devices")
NO_PUSHES = answers(200, lambda answer: answer["pushes"] == [], "no pushes")
NO_DELIVERIES = answers(200, lambda page: page["deliveries"] == [] and page["next_cursor"] is None, "no deliveries")
OWN_OVERVIEW = answers(
    200, lambda seen: seen["app"] == "fourth" and not any(seen["last_hour"]["created"]), "an app in which nothing happened")
CREATED = status(201)
NOTHING_BROADCAST = answers(200, lambda place: place["epoch"] and place["offset"] in (0, 1), "its own series")
ACCEPTED = answers(202, lambda answer: answer == {"accepted": 1}, "one taken")
GIVEN = answers(200, lambda badge: badge["count"] == 7, "the number")
NOTHING_READ = answers(200, lambda answer: answer["read"] == 0, "nothing read")
ONE_READ = answers(200, lambda answer: answer["read"] == 1, "one read")
NOTHING_WITHDRAWN = answers(200, lambda answer: answer == {"withdrawn": 0, "more": False}, "nothing withdrawn")
ONE_WITHDRAWN = answers(200, lambda answer: answer == {"withdrawn": 1, "more": False}, "one withdrawn")
ALL_HANDLED = answers(
    200, lambda answer: len(answer["handled"]) == 2 and answer["handled"][1] == "no id" and answer["badge"]["count"] == 0,
    "both ids handled and no number")
OWN_STAYS = answers(
    200, lambda answer: answer["handled"] == ["no id"] and answer["badge"]["unread_count"] > 0, "what is no id handled, and the number")
# A device token belongs to one user of an app: who registers it again takes it over; in another app it is another one.
TAKES_OVER = status(200, 201)

# Where a stream's token may stand.
LISTENERS = {"userToken", "accessToken", "streamCookie"}
# The credentials of what a user and a producer may both call.
EITHER = {"userToken", "producerKey"}
COOKIE = "matrix_token"

EXPECTATIONS = {
    "listNotifications": Case("/notifications", stranger=EMPTY_INBOX, other_app=EMPTY_INBOX),
    "createNotification": Case("/notifications", {"user_id": OWNER, "title": "Matrix"}, other_app=CREATED),
    "markAllRead": Case("/notifications/mark_all_read", {}, stranger=NOTHING_MARKED, other_app=NOTHING_MARKED),
    "getNotification": Case("/notifications/{id}", stranger=NOT_THERE, other_app=NOT_THERE),
    "withdrawNotifications": Case(
        "/notifications?external_id={external_id}", owner=ONE_WITHDRAWN, other_app=NOTHING_WITHDRAWN, other_name=NOTHING_WITHDRAWN),
    "reconcileNotifications": Case(
        "/notifications/reconcile", lambda things: {"ids": [things["id"], "no id", things["id"], "no id"]},
        owner=OWN_STAYS, stranger=ALL_HANDLED, other_app=ALL_HANDLED),
    "updateNotification": Case("/notifications/{id}", {"read": True}, producers_body={"title": "Edited"}),
    "deleteNotification": Case("/notifications/{id}"),
    "listDeliveries": Case("/notifications/{id}/deliveries", other_app=NOT_THERE),
    "listDeviceTokens": Case("/device_tokens", stranger=NO_DEVICES, other_app=NO_DEVICES),
    "registerDeviceToken": Case(
        "/device_tokens", {"token": "ab" * 32, "platform": "ios"}, stranger=TAKES_OVER, other_app=TAKES_OVER),
    "deleteDeviceToken": Case("/device_tokens/{token}", stranger=NOT_THERE, other_app=NOT_THERE),
    # One app's broadcasts count in its own series alone.
    "broadcast": Case("/broadcasts", {"stream": "matrix", "data": "hello"}, other_app=ACCEPTED),
    "getBroadcastPosition": Case("/broadcasts/position", other_app=NOTHING_BROADCAST),
    "broadcastInAnyCablesForm": Case("/_broadcast", {"stream": "matrix", "data": '"hello"'}, other_app=CREATED),
    "getBadge": Case("/badge", stranger=ZEROS, other_app=ZEROS),
    # The owner's app counts by itself, and refuses. The other app's number is given: its producer reaches its own user of the owner's name.
    "giveBadge": Case(f"/users/{OWNER}/badge", {"count": 7, "sequence": 1}, owner=status(409), other_app=GIVEN),
    "markReadOfUser": Case(
        f"/users/{OWNER}/reads", lambda things: {"ids": [things["id"]]}, owner=ONE_READ, other_app=NOTHING_READ),
    "clearBadge": Case("/badge", stranger=ZEROS, other_app=ZEROS),
    "streamBadge": Case("/badge/stream", stranger=HEARS_ZEROS, other_app=HEARS_ZEROS),
    "streamNotifications": Case("/notifications/stream", stranger=HEARS_ZEROS, other_app=HEARS_ZEROS),
    "openCable": Case("/cable"),
    "createStreamToken": Case("/stream_tokens", stranger=CREATED, other_app=CREATED),
    "listSandboxPushes": Case("/sandbox/pushes?user_id=" + OWNER, other_app=NO_PUSHES),
    "listDeepLinks": Case("/deep_links"),
    "getPathConfiguration": Case("/configurations/ios_v1.json"),
    "getClient": Case("/client"),
    "getAsset": Case("/assets/campanile-badge.js"),
    "getRoot": Case("/"),
    "getConsole": Case("/console"),
    "getReference": Case("/docs"),
    "getHealth": Case("/healthz"),
    "getReadiness": Case("/readyz"),
    "getMetrics": Case("/metrics"),
    "getOverview": Case("/operate/overview", other_app=OWN_OVERVIEW),
    "searchDeliveries": Case("/operate/deliveries", other_app=NO_DELIVERIES),
    "getUser": Case(f"/operate/users/{OWNER}", other_app=NOT_THERE),
    "listNotificationsOfUser": Case(f"/operate/users/{OWNER}/notifications", other_app=NOT_THERE),
    "getContract": Case("/openapi.yaml"),
}


class Operation:
    """One operation of openapi.yaml."""

    def __init__(self, method, path, raw, shared_security):
        self.method, self.path, self.id = method.upper(), path, raw["operationId"]
        security = raw.get("security", shared_security)
        schemes, self.is_open = {name for choice in security for name in choice}, {} in security
        self.is_stream = schemes == LISTENERS
        if self.is_stream:
            schemes = {"userToken"}
        self.is_for_either = schemes == EITHER
        self.kind = schemes.pop() if len(schemes) == 1 else None if not schemes else "?"
        self.success = sorted(int(code) for code in raw["responses"] if code.startswith("2"))

    @property
    def label(self):
        return f"{self.method} {self.path}"


def operations():
    document = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
    return [
        Operation(method, path, item[method], document.get("security", []))
        for path, item in document["paths"].items() for method in METHODS if method in item]


# --- the run

class Matrix:
    def __init__(self, server):
        self.server, self.client = server, Client(server.port)
        self.credentials = Credentials(server)
        self.tokens, self.forms = malformed_tokens(), malformed_headers()
        self.checked, self.wrong = 0, []

    def check(self, cell, holds, what):
        self.checked += 1
        if not holds:
            self.wrong.append(f"{cell}: {what}")

    def notification(self, key):
        """A notification of the owner's, made with the key: its id, and its name."""
        name = uuid.uuid4().hex
        created = self.client.send("POST", "/notifications", bearer(key), {"user_id": OWNER, "title": "Fixture", "external_id": name})
        if created.status != 201:
            raise HarnessError(f"a fixture got {created.status} {created.body!r}")
        return {"id": created.json()["id"], "external_id": name}

    def fixtures(self):
        """A notification and a device of the owner's, new for every operation."""
        self.things = self.notification(self.credentials.producer)
        token = hashlib.sha256(uuid.uuid4().bytes).hexdigest()
        registered = self.client.send(
            "POST", "/device_tokens", bearer(self.credentials.owner), {"token": token, "platform": "ios"})
        if registered.status != 201:
            raise HarnessError(f"a fixture got {registered.status} {registered.body!r}")
        self.things["token"] = token
        return self.things

    def owners_things(self):
        """What a refused call must not have changed. The list is read as a browser, which changes nothing."""
        seen = [self.client.send("GET", path, bearer(self.credentials.owner)) for path in ("/notifications", "/badge", "/device_tokens")]
        if any(answer.status != 200 for answer in seen):
            raise HarnessError(f"the owner got {[answer.status for answer in seen]}")
        page, badge, devices = (answer.json() for answer in seen)
        return {"inbox": page["notifications"], "badge": badge, "devices": [device["token"] for device in devices["device_tokens"]]}

    def call(self, operation, path, authorization, method=None, headers=(), as_producer=False):
        case = EXPECTATIONS[operation.id]
        body = case.producers_body if as_producer else case.body
        return self.client.send(method or operation.method, path, authorization, body(self.things) if callable(body) else body, headers)

    def refused(self, operation, path, cell, authorization, expected):
        """A refusal is a problem with its status; a 401 says how to authenticate. HEAD is refused as GET is."""
        for method in (["GET", "HEAD"] if operation.method == "GET" else [operation.method]):
            answer = self.call(operation, path, authorization, method)
            holds = answer.status == expected
            what = f"{method} got {answer.status}, expected {expected}"
            if holds and expected == 401 and not answer.headers.get("WWW-Authenticate", "").startswith("Bearer"):
                holds, what = False, f"{method} got 401 without WWW-Authenticate: Bearer"
            if holds and method != "HEAD" and answer.headers.get("Content-Type", "") != "application/problem+json":
                holds, what = False, f"{method} got {expected} as {answer.headers.get('Content-Type')}"
            if holds and method == "HEAD" and answer.body:
                holds, what = False, "HEAD got a body"
            self.check(cell, holds, what)

    def refusals(self, operation, path):
        """Credentials that open nothing."""
        self.refused(operation, path, "none", None, 401)
        for name, token in self.tokens.items():
            self.refused(operation, path, f"malformed ({name})", bearer(token), 401)
        for name, field in self.forms.items():
            self.refused(operation, path, f"malformed ({name})", field, 401)
        self.refused(operation, path, "expired", bearer(self.credentials.expired), 401)
        self.refused(operation, path, "revoked", bearer(self.credentials.revoked), 401)
        if not operation.is_for_either:
            wrong = self.credentials.producer if operation.kind == "userToken" else self.credentials.owner
            self.refused(operation, path, "wrong kind", bearer(wrong), 403)
        self.refused(operation, path, "operate key", bearer(self.credentials.operate), 403)
        if operation.kind == "broadcastKey":
            self.refused(operation, path, "a producer's key", bearer(self.credentials.producer), 403)
        else:
            self.refused(operation, path, "broadcast key", bearer(self.credentials.broadcast), 403)
        self.refused(operation, path, "metrics.token", bearer(METRICS_TOKEN), 401)

    def owner(self, operation, path):
        right = self.credentials.right(operation.kind)
        # The scheme's letter case means nothing (RFC 9110 section 11.1).
        answer, expected = self.call(operation, path, f"bearer {right}"), EXPECTATIONS[operation.id].owner
        self.check("the owner", answer.status in operation.success if expected is None else expected(answer),
                   f"got {answer.status} {answer.body[:200]!r}")
        # Two fields: which one counts would be a guess, and a proxy in front may guess otherwise.
        for fields in ([bearer(right), bearer("garbage")], [bearer("garbage"), bearer(right)]):
            answer = self.call(operation, path, fields)
            self.check("two Authorization fields", answer.status in (400, 401), f"got {answer.status}, expected 400 or 401")

    def strangers(self, operation, path):
        case, credentials = EXPECTATIONS[operation.id], self.credentials
        cells = (
            ("other user", credentials.stranger, case.stranger),
            ("other app", credentials.of_other_app(operation.kind), case.other_app),
            ("other name", credentials.other_name, case.other_name))
        for cell, token, expected in cells:
            if expected is not None:
                answer = self.call(operation, path, bearer(token))
                self.check(cell, expected(answer), f"got {answer.status} {answer.body[:200]!r}, expected {expected.wanted}")

    def run_closed(self, operation):
        fixtures = self.fixtures()
        path = EXPECTATIONS[operation.id].path.format(**{name: quote(value, safe="") for name, value in fixtures.items()})
        before = self.owners_things()
        self.refusals(operation, path)
        self.strangers(operation, path)
        after = self.owners_things()
        for name in after:
            self.check("nothing changed", before[name] == after[name],
                       f"the owner's {name} changed after refusals: {len(before[name])} and {len(after[name])} entries, "
                       f"now {json.dumps(after[name])[:300]}")
        self.owner(operation, path)

    def run_for_either(self, operation):
        """A user's and a producer's call of one operation: each on what is theirs, and by its own rules."""
        credentials, route = self.credentials, EXPECTATIONS[operation.id].path
        path = route.format(id=self.fixtures()["id"])
        replaced, moved = self.replaced_keys()
        before = self.owners_things()
        self.refusals(operation, path)
        self.not_theirs(operation, path)
        # A key of the same name in another app.
        answer = self.call(operation, route.format(id=moved["id"]), bearer(moved["key"]), as_producer=True)
        self.check("the name in another app", NOT_THERE(answer), f"got {answer.status}, expected 404")
        if operation.method == "PATCH":
            for cell, token, as_producer in (("a user's edit", credentials.owner, True), ("a producer's read", credentials.producer, False)):
                answer = self.call(operation, path, bearer(token), as_producer=as_producer)
                self.check(cell, answer.status == 422, f"got {answer.status}, expected 422")
        after = self.owners_things()
        for name in after:
            self.check("nothing changed", before[name] == after[name], f"the owner's {name} changed after refusals: {json.dumps(after[name])[:300]}")
        self.theirs(operation, route, path, replaced)

    def not_theirs(self, operation, path):
        """Credentials that are good, for something else; `user_id` makes none of them better."""
        credentials, nowhere = self.credentials, path.rsplit("/", 1)[0]
        cells = [
            ("other user", credentials.stranger, False, path), ("other user, user_id", credentials.stranger, False, f"{path}?user_id={OWNER}"),
            ("other app's user", credentials.other_app_user, False, path),
            ("other app's key", credentials.other_app_producer, True, path),
            ("other app's key, user_id", credentials.other_app_producer, True, f"{path}?user_id={OWNER}"),
            ("other name", credentials.other_name, True, path), ("other name, user_id", credentials.other_name, True, f"{path}?user_id={OWNER}"),
            ("another user's", credentials.producer, True, f"{path}?user_id={STRANGER}"),
            ("nobody's", credentials.producer, True, f"{path}?user_id=nobody-at-all")]
        for given in ("no-id", "0193f8a2-7c1e-7b52-9d3a-5f0c2e8b1a47", "9" * 36):
            for token, as_producer in ((credentials.owner, False), (credentials.producer, True)):
                cells += [(f"the id {given}", token, as_producer, f"{nowhere}/{given}{query}") for query in ("", f"?user_id={OWNER}")]
        for cell, token, as_producer, where in cells:
            answer = self.call(operation, where, bearer(token), as_producer=as_producer)
            self.check(cell, NOT_THERE(answer), f"got {answer.status} {answer.body[:200]!r}, expected 404")

    def theirs(self, operation, route, path, replaced):
        """Those who may: the user, a key of the maker's name, also one that replaced it, and any key where no key made it."""
        credentials = self.credentials
        cells = [
            ("the maker", credentials.producer, True, self.notification(credentials.producer)["id"], ""),
            ("the maker, user_id", credentials.producer, True, self.notification(credentials.producer)["id"], f"?user_id={OWNER}"),
            ("a key that replaced the maker's", replaced["key"], True, replaced["id"], ""),
            ("a key, what the command made", credentials.other_name, True, self.noted(), ""),
            ("a key, what the command made, user_id", credentials.producer, True, self.noted(), f"?user_id={OWNER}"),
            ("the user, who gives a user_id", credentials.owner, False, self.notification(credentials.producer)["id"], f"?user_id={STRANGER}")]
        for cell, token, as_producer, identifier, query in cells:
            answer = self.call(operation, route.format(id=identifier) + query, bearer(token), as_producer=as_producer)
            self.check(cell, answer.status in operation.success, f"got {answer.status} {answer.body[:200]!r}")
        answer = self.call(operation, route.format(id=self.noted()), bearer(credentials.other_app_producer), as_producer=True)
        self.check("other app's key, what the command made", NOT_THERE(answer), f"got {answer.status}, expected 404")
        self.owner(operation, path)

    def replaced_keys(self):
        """A notification with the key that replaced its maker's, and one with a key that took the maker's name in another app."""
        found = []
        for more in ((), ("--app", "third")):
            name = f"matrix-{uuid.uuid4().hex}"
            made = self.notification(self.server.producer_key(name))
            self.server.command("keys", "revoke", name)
            found.append({**made, "key": self.server.command("keys", "create", name, *more)[1]})
        return found

    def noted(self):
        """The id of a notification of the owner's that no key made."""
        title = uuid.uuid4().hex
        self.server.command("notify", OWNER, title, "By the command")
        return next(one["id"] for one in self.owners_things()["inbox"] if one["title"] == title)

    def run_open(self, operation):
        """Whatever is presented, it is not looked at."""
        cells = {"none": None, "malformed": bearer("garbage"), "expired": bearer(self.credentials.expired),
                 "revoked": bearer(self.credentials.revoked), "user": bearer(self.credentials.owner),
                 "producer": bearer(self.credentials.producer), "operate": bearer(self.credentials.operate),
                 "broadcast": bearer(self.credentials.broadcast)}
        for cell, authorization in cells.items():
            for method in ("GET", "HEAD"):
                answer = self.call(operation, EXPECTATIONS[operation.id].path, authorization, method)
                self.check(cell, answer.status in (200, 302), f"{method} got {answer.status}, expected 200 or 302")

    def told_more(self, operation):
        """Open to anyone, and more is told to metrics.token and to an operate key."""
        credentials = self.credentials
        cells = {"none": None, "expired": bearer(credentials.expired), "revoked": bearer(credentials.revoked), "user": bearer(credentials.owner),
                 "producer": bearer(credentials.producer), "broadcast key": bearer(credentials.broadcast),
                 "revoked operate key": bearer(credentials.revoked_operate),
                 "two fields": [bearer(METRICS_TOKEN), bearer(METRICS_TOKEN)], "Basic": f"Basic {METRICS_TOKEN}",
                 "a longer metrics.token": bearer(METRICS_TOKEN + "x"), "a shorter metrics.token": bearer(METRICS_TOKEN[:-1])}
        cells |= {f"malformed ({name})": bearer(token) for name, token in self.tokens.items() if "\n" not in token}
        cells |= {f"malformed ({name})": field for name, field in self.forms.items()}
        for cell, authorization in cells.items():
            self.told(operation, cell, authorization, {"status", "reason_count"})
        for cell, token in (("operate key", credentials.operate), ("metrics.token", METRICS_TOKEN)):
            self.told(operation, cell, bearer(token), {"status", "reason_count", "reasons", "details"})

    def watched(self, operation):
        """For those who watch the server, or are an app's operators, alone. What they see of whom: the Swift tests."""
        case, credentials = EXPECTATIONS[operation.id], self.credentials
        path, is_operators = case.path, case.path.startswith("/operate/")
        self.fixtures()
        before = self.owners_things()
        self.refused(operation, path, "none", None, 401)
        for name, token in self.tokens.items():
            self.refused(operation, path, f"malformed ({name})", bearer(token), 401)
        for name, field in self.forms.items():
            self.refused(operation, path, f"malformed ({name})", field, 401)
        for name, token in (("expired", credentials.expired), ("revoked", credentials.revoked_operate),
                            ("a longer metrics.token", METRICS_TOKEN + "x"), ("a shorter metrics.token", METRICS_TOKEN[:-1])):
            self.refused(operation, path, name, bearer(token), 401)
        for name, token in (("user", credentials.owner), ("producer", credentials.producer), ("broadcast key", credentials.broadcast)):
            self.refused(operation, path, f"wrong kind ({name})", bearer(token), 403)
        right = {"operate key": credentials.operate}
        if is_operators:
            self.refused(operation, path, "metrics.token", bearer(METRICS_TOKEN), 401)
            answer = self.call(operation, path, bearer(credentials.other_app_operate))
            self.check("another app's operate key", case.other_app(answer), f"got {answer.status} {answer.body[:200]!r}, expected {case.other_app.wanted}")
        else:
            right["metrics.token"] = METRICS_TOKEN
        for name, token in right.items():
            answer, head = (self.call(operation, path, f"bearer {token}", method) for method in ("GET", "HEAD"))
            self.check(name, answer.status == head.status == 200 and answer.body and not head.body,
                       f"GET got {answer.status}, HEAD {head.status} {head.body!r}")
        token = next(reversed(right.values()))
        for fields in ([bearer(token), bearer("garbage")], [bearer("garbage"), bearer(token)]):
            answer = self.call(operation, path, fields)
            self.check("two Authorization fields", answer.status in (400, 401), f"got {answer.status}, expected 400 or 401")
        self.check("nothing changed", before == self.owners_things(), "the owner's things changed")

    def told(self, operation, cell, authorization, names):
        path = EXPECTATIONS[operation.id].path
        answer, head = (self.call(operation, path, authorization, method) for method in ("GET", "HEAD"))
        seen = set(answer.json()) if answer.status == 200 else answer.body
        self.check(cell, seen == names, f"got {answer.status} with {seen}, expected 200 with {names}")
        self.check(cell, head.status == 200 and not head.body, f"HEAD got {head.status} {head.body!r}")

    def elsewhere(self, operation):
        """A stream's token in its address or in the cookie: held to the same; and every other operation takes neither."""
        path, credentials = EXPECTATIONS[operation.id].path, self.credentials
        tokens = {"expired": (credentials.expired, 401), "a revoked key": (credentials.revoked, 401), "a key": (credentials.producer, 403),
                  "an operate key": (credentials.operate, 403), "a broadcast key": (credentials.broadcast, 403), "metrics.token": (METRICS_TOKEN, 401)}
        tokens |= {f"malformed ({name})": (token, 401) for name, token in self.tokens.items()}
        for name, (token, expected) in tokens.items():
            for place, answer in (
                    ("access_token", self.call(operation, f"{path}?access_token={quote(token, safe='')}", None)),
                    ("cookie", self.call(operation, path, None, headers=[("Cookie", f"{COOKIE}={token}")]))):
                self.check(f"{name} in {place}", answer.status == expected, f"got {answer.status}, expected {expected}")
        for place, headers, query in (("access_token", (), f"access_token={credentials.owner}"), ("cookie", [("Cookie", f"{COOKIE}={credentials.owner}")], "")):
            answer = self.call(operation, f"{path}?{query}", None, headers=headers)
            self.check(f"the owner in {place}", answer.status == 200, f"got {answer.status}")
            for other in ("/badge", "/notifications", "/device_tokens"):
                refused = self.client.send("GET", f"{other}?{query}", None, headers=headers).status
                self.check(f"{place} at {other}", refused == 401, f"got {refused}, expected 401")

    def cable(self, operation):
        """The connection is accepted, so that a browser can be told: nobody is welcome but who is known."""
        credentials = self.credentials
        cells = {f"malformed ({name})": bearer(token) for name, token in self.tokens.items() if "\n" not in token}
        cells |= {"none": None, "expired": bearer(credentials.expired), "revoked": bearer(credentials.revoked), "wrong kind": bearer(credentials.producer),
                  "operate key": bearer(credentials.operate)}
        for cell, authorization in cells.items():
            said = self.first_words(authorization)
            self.check(cell, said == {"type": "disconnect", "reason": "unauthorized", "reconnect": False}, f"it was told {said}")
        said = self.first_words(bearer(credentials.owner))
        self.check("the owner", said == {"type": "welcome"}, f"it was told {said}")
        plain = self.call(operation, "/cable", bearer(credentials.owner)).status
        self.check("no WebSocket", plain == 426, f"got {plain}, expected 426")

    def first_words(self, authorization):
        """The first text of a cable connection (RFC 6455: a frame of the server is not masked)."""
        head = ["GET /cable HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: actioncable-v1-json"]
        head += [f"Authorization: {authorization}"] if authorization else []
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as connection:
            connection.sendall("\r\n".join([*head, "", ""]).encode())
            stream = connection.makefile("rb")
            status = stream.readline()
            if b" 101 " not in status:
                return status.decode().strip()
            while stream.readline().strip():
                pass
            length = stream.read(2)[1]
            return json.loads(stream.read(length))

    def revoke(self):
        """The key works, is revoked by the command while the server runs, and soon doesn't work. Gives the two statuses."""
        def status():
            return self.client.send("GET", "/sandbox/pushes", bearer(self.credentials.revoked)).status
        before = status()
        self.server.command("keys", "revoke", "matrix-revoked")
        deadline = time.monotonic() + REVOCATION_SECONDS
        while (after := status()) == 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        return before, after

    def run(self, operation):
        """What is wrong."""
        self.checked, self.wrong = 0, []
        if operation.id == "openCable":
            self.cable(operation)
        elif operation.kind == "operateKey" and operation.is_open:
            self.told_more(operation)
        elif operation.kind == "operateKey":
            self.watched(operation)
        elif operation.kind is None:
            self.run_open(operation)
        elif operation.is_for_either:
            self.run_for_either(operation)
        elif operation.kind in ("userToken", "producerKey", "broadcastKey"):
            self.run_closed(operation)
            if operation.is_stream:
                self.elsewhere(operation)
        else:
            pytest.fail("its security is not one scheme")
        return self.wrong


OPERATIONS = operations()


@pytest.fixture(scope="module")
def matrix(binary):
    settings = {"CAMPANILE_STREAMS_COOKIE": COOKIE, "CAMPANILE_CONSOLE": "true"}
    with serving(binary, settings, "path_configuration: { ios: { v1: {} } }\napps: { third: { badge: { policy: given } } }\n") as server:
        matrix = Matrix(server)
        matrix.revocation = matrix.revoke()
        yield matrix


def test_the_table_has_each_operation_and_no_other():
    assert {operation.id for operation in OPERATIONS} == set(EXPECTATIONS)


def test_a_key_that_is_revoked_soon_opens_nothing(matrix):
    assert matrix.revocation == (200, 401)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_an_operation_opens_to_whom_it_should_alone(matrix, operation):
    wrong = matrix.run(operation)
    assert not wrong, f"{len(wrong)} of {matrix.checked} are wrong:\n" + "\n".join(wrong)
