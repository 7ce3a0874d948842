"""A small load of several clients and the ledger of what the server acknowledged to each.

A client owns its users and their device tokens and does one call after the other, so the state that it may find later
is known exactly: the state after its acknowledged calls, or that and the one call that was in flight.
"""
import http.client
import json
import random
import threading

NATIVE = "Campanile Demo iOS/17.4 Hotwire Native iOS; Turbo Native iOS;"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"

# How often each call is made, relative to the others.
WEIGHTS = {
    "create": 48, "create_many": 5, "replay": 4, "read": 12, "unread": 4, "delete": 6, "mark_all_read": 4,
    "clear": 4, "edit": 6, "withdraw": 3, "register": 6, "unregister": 2, "list_native": 4, "list_browser": 1, "badge": 3,
}


class Call:
    """One call. `effect`: what it changes, as {key: value or None for gone}; known once it was answered.

    Keys: ("notification", id) → (user, is read); ("title", notification id) → its title; ("device", token) → user;
    ("idempotency", key) → True; ("delivery", notification id, token) → True.
    """
    __slots__ = ("kind", "request_id", "method", "path", "credential", "body", "headers", "users", "answer", "effect",
                 "versions", "target", "devices")

    def __init__(self, kind, request_id, method, path, credential, body=None, headers=None, users=(), target=None):
        self.kind, self.request_id, self.method, self.path = kind, request_id, method, path
        self.credential, self.body, self.users, self.target = credential, body, users, target
        self.headers = {"X-Request-Id": request_id, **(headers or {})}
        self.answer, self.effect, self.versions, self.devices = None, {}, {}, {}

    @property
    def idempotency_key(self):
        return self.headers.get("Idempotency-Key")

    @property
    def is_write(self):
        return self.method != "GET"

    def __repr__(self):
        return f"{self.request_id} {self.kind} {self.method} {self.path} → {self.answer}"


class Client(threading.Thread):
    """One client: calls until told to stop, until `limit` acknowledged writes, or until the server is gone."""

    def __init__(self, name, seed, port, producer_key, tokens, limit=None):
        super().__init__(daemon=True, name=name)
        self.random = random.Random(f"{seed}/{name}")
        self.producer_key, self.tokens, self.limit = producer_key, tokens, limit
        self.users = list(tokens)
        self.state = {}           # key → value after all acknowledged calls
        self.versions = {}        # user → newest badge version that an answer to a write told
        self.calls = []           # acknowledged, in order
        self.in_flight = None     # the call whose answer never came whole
        self.unexpected = []      # answers that aren't 2xx, exceptions
        self.stopping = threading.Event()
        self.connect(port)

    def connect(self, port):
        from e2e.harness import Connection
        self.connection = Connection(port)

    def again(self, port, limit=None):
        """A client that goes on with this one's state: a thread can't be started twice."""
        other = Client(self.name, f"{self.random.random()}", port, self.producer_key, self.tokens, limit)
        other.state, other.versions, other.calls = self.state, self.versions, self.calls
        other.in_flight, other.unexpected = self.in_flight, self.unexpected
        return other

    # --- the state

    def notifications(self, user=None):
        return [key[1] for key, value in self.state.items()
                if key[0] == "notification" and (user is None or value[0] == user)]

    def devices(self, user=None):
        return [key[1] for key, value in self.state.items() if key[0] == "device" and (user is None or value == user)]

    # --- the loop

    def run(self):
        acknowledged = 0
        while not self.stopping.is_set() and (self.limit is None or acknowledged < self.limit):
            call = self.next_call()
            if call is None:
                continue
            try:
                self.in_flight = call
                call.answer = self.connection.request(
                    call.method, call.path, credential=call.credential, body=call.body, headers=call.headers)
            except (OSError, http.client.HTTPException):
                return  # the server is gone; the call stays in flight
            self.in_flight = None
            if not 200 <= call.answer.status < 300:
                self.unexpected.append(repr(call))
                return
            try:
                self.learn(call)
            except (KeyError, TypeError, ValueError) as error:
                self.unexpected.append(f"{call!r}: {type(error).__name__} {error}")
                return
            if call.is_write:
                self.calls.append(call)
                acknowledged += 1
        self.connection.close()

    def next_call(self):
        kind = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        user = self.random.choice(self.users)
        return getattr(self, "make_" + kind)(user)

    def call(self, kind, method, path, user=None, **more):
        number = sum(self.random.getrandbits(1) << i for i in range(64))
        credential = self.tokens[user] if user else self.producer_key
        return Call(kind, f"{self.name}-{number:016x}", method, path, credential, **more)

    # --- the calls. Each gives None if there is nothing to do it to

    def make_create(self, user, users=None):
        number = self.random.getrandbits(48)
        size = self.random.choice((10, 100, 400, 1500))
        body = {"title": f"Title {number:x}", "body": "abcdefghij" * (size // 10),
                "category": "NOTICE", "deep_link": f"/items/{number % 1000}", "data": {"number": number},
                "push": self.random.random() < 0.85}
        body.update({"user_ids": users} if users else {"user_id": user})
        call = self.call("create", "POST", "/notifications", body=body, users=tuple(users or [user]),
                         headers={"Idempotency-Key": f'"{self.name}-{number:012x}"'})
        if body["push"]:
            call.devices = {one: self.devices(one) for one in call.users}
        return call

    def make_create_many(self, user):
        return self.make_create(user, users=self.random.sample(self.users, min(3, len(self.users))))

    def make_replay(self, _user):
        creates = [call for call in self.calls[-60:] if call.kind == "create"]
        if not creates:
            return None
        first = self.random.choice(creates)
        return self.call("replay", "POST", "/notifications", body=first.body, target=first,
                         headers={"Idempotency-Key": first.idempotency_key})

    def _one(self, user):
        known = self.notifications(user)
        return self.random.choice(known[-40:]) if known else None

    def make_read(self, user, read=True):
        chosen = self._one(user)
        return chosen and self.call("patch", "PATCH", f"/notifications/{chosen}", user, body={"read": read},
                                    users=(user,), target=chosen)

    def make_unread(self, user):
        return self.make_read(user, read=False)

    def make_delete(self, user):
        chosen = self._one(user)
        return chosen and self.call("delete", "DELETE", f"/notifications/{chosen}", user, users=(user,), target=chosen)

    def make_edit(self, user):
        chosen = self._one(user)
        body = {"title": f"Edited {self.random.getrandbits(48):x}", "push": self.random.random() < 0.5}
        return chosen and self.call("edit", "PATCH", f"/notifications/{chosen}?user_id={user}", body=body, users=(user,), target=chosen)

    def make_withdraw(self, user):
        chosen = self._one(user)
        return chosen and self.call("withdraw", "DELETE", f"/notifications/{chosen}?user_id={user}", users=(user,), target=chosen)

    def make_mark_all_read(self, user):
        up_to = self._one(user) if self.random.random() < 0.3 else None
        return self.call("mark_all_read", "POST", "/notifications/mark_all_read", user,
                         body={"up_to": up_to} if up_to else {}, users=(user,), target=up_to)

    def make_clear(self, user):
        return self.call("clear", "DELETE", "/badge", user, users=(user,))

    def make_register(self, user):
        known = self.devices()
        if known and self.random.random() < 0.4:
            token = self.random.choice(known)           # again, or under another user of this client
        else:
            token = "".join(self.random.choice("0123456789abcdef") for _ in range(64))
            if len(known) > 4 * len(self.users):
                return None
        platform = "ios" if token[0] < "8" else "android"
        return self.call("register", "POST", "/device_tokens", user,
                         body={"token": token, "platform": platform}, users=(user,), target=token)

    def make_unregister(self, user):
        known = self.devices(user)
        if not known:
            return None
        token = self.random.choice(known)
        return self.call("unregister", "DELETE", f"/device_tokens/{token}", user, users=(user,), target=token)

    def make_list_native(self, user):
        return self.call("list", "GET", "/notifications", user, headers={"User-Agent": NATIVE}, users=(user,))

    def make_list_browser(self, user):
        return self.call("list", "GET", "/notifications?limit=5", user, headers={"User-Agent": BROWSER}, users=(user,))

    def make_badge(self, user):
        known = self.devices(user)
        headers = {"X-Device-Token": self.random.choice(known)} if known else {}
        return self.call("badge", "GET", "/badge", user, headers=headers, users=(user,))

    # --- what an answer means

    def learn(self, call):
        getattr(self, "learn_" + call.kind)(call, call.users[0] if call.users else None)
        for key, value in call.effect.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.versions.update(call.versions)

    def learn_create(self, call, user):
        answer = call.answer.json()
        made = ([(one["id"], one["user_id"]) for one in answer["notifications"]] if "user_ids" in call.body
                else [(answer["id"], user)])
        if sorted(one for _, one in made) != sorted(call.users):
            raise ValueError("the answer names other users than the request")
        call.effect[("idempotency", call.idempotency_key.strip('"'))] = True
        for identifier, owner in made:
            call.effect[("notification", identifier)] = (owner, False)
            call.effect[("title", identifier)] = call.body["title"]
            for token in call.devices.get(owner, ()):
                call.effect[("delivery", identifier, token)] = True

    def learn_replay(self, call, _user):
        if call.answer.body != call.target.answer.body or call.answer.header("Idempotency-Replayed") != "true":
            raise ValueError(f"the replay differs from the first answer {call.target!r}")

    def learn_patch(self, call, user):
        call.effect[("notification", call.target)] = (user, call.body["read"])

    def learn_edit(self, call, _user):
        answer = call.answer.json()
        if answer["title"] != call.body["title"] or answer["edited_at"] is None:
            raise ValueError("the answer isn't the edit")
        call.effect[("title", call.target)] = call.body["title"]

    def learn_delete(self, call, _user):
        call.effect[("notification", call.target)] = None
        call.effect[("title", call.target)] = None

    learn_withdraw = learn_delete

    def learn_mark_all_read(self, call, user):
        answer = call.answer.json()
        unread = [one for one in self.notifications(user) if not self.state[("notification", one)][1]
                  and (call.target is None or one <= call.target)]
        if answer["updated"] != len(unread):
            raise ValueError(f"{len(unread)} were unread")
        for one in unread:
            call.effect[("notification", one)] = (user, True)
        call.versions[user] = answer["badge"]["version"]

    def learn_clear(self, call, user):
        answer = call.answer.json()
        if answer["count"] != 0:
            raise ValueError("a cleared badge isn't 0")
        call.versions[user] = answer["version"]

    def learn_register(self, call, user):
        call.effect[("device", call.target)] = user

    def learn_unregister(self, call, _user):
        call.effect[("device", call.target)] = None

    def learn_list(self, call, _user):
        call.answer.json()

    def learn_badge(self, call, user):
        unread = sum(not self.state[("notification", one)][1] for one in self.notifications(user))
        if call.answer.json()["unread_count"] != unread:
            raise ValueError(f"{unread} are unread")


def make_clients(server, names, users_each, seed, limit=None):
    """Clients with users of their own; tokens by `campanile token`, one producer key by `campanile keys create`."""
    key = server.producer_key("trust")
    clients = []
    for name in names:
        tokens = {f"{name}-user{i}": server.user_token(f"{name}-user{i}") for i in range(users_each)}
        clients.append(Client(name, seed, server.port, key, tokens, limit))
    return clients


def rebody(call):
    """The same request with another body, for the 422 of a used Idempotency-Key."""
    return json.loads(json.dumps({**call.body, "title": call.body["title"] + " changed"}))
