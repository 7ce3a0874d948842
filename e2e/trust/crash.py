"""kill -9 under load, round after round on one database file: nothing acknowledged may be missing afterwards.

Each round several clients create, read, delete, clear and register at random (load.py); at a random moment the server
gets SIGKILL and is started again. Then, through the API alone:

- every acknowledged notification is there for its user, with its read state and its last title, and every deleted or withdrawn one is
  gone (GET);
- its Idempotency-Key with the same body gives the identical body and `Idempotency-Replayed: true`; another body: 422;
- its deliveries exist for every device its user had, and all reach a final state;
- every acknowledged device token is with its user, no badge version went back;
- the call that was in flight happened as a whole or not at all, and a retried create with its Idempotency-Key makes
  exactly one notification;
- `campanile badge audit` exits 0, before the restart (on the killed server's file) and after the load.

At the end the control: rows deleted and counts changed behind the server's back must make each check fail.
`--sabotage` does that in the run itself, which must then exit 1.
"""
import contextlib
import os
import random
import time

from e2e import harness
from e2e.trust import load, schema

SETTLE_SECONDS = 90      # a killed delivery worker's leases must expire first


class Round:
    """The checks after one restart."""

    def __init__(self, server, clients, report, rng):
        self.connection = server.connection()
        self.clients, self.report, self.random = clients, report, rng

    def request(self, *arguments, **more):
        return self.connection.request(*arguments, **more)

    def all(self, since):
        """`since`: client name → number of calls acknowledged before this round; older ones are checked by sample."""
        for client in self.clients:
            self.settle_in_flight(client)
            fresh = client.calls[since[client.name]:]
            older = client.calls[:since[client.name]]
            sample = self.random.sample(older, min(len(older), 10))
            self.notifications(client, {key for call in fresh + sample for key in call.effect})
            creates = [call for call in fresh + sample if call.kind == "create"]
            self.replays(client, creates)
            self.devices(client)
            self.badges(client)
        self.deliveries([client.calls[since[client.name]:] for client in self.clients])

    # --- the call that was in flight

    def settle_in_flight(self, client):
        """Finds out whether the call without an answer happened, and takes it into the ledger if it did."""
        call, client.in_flight = client.in_flight, None
        if call is None:
            return
        self.report.count("calls in flight")
        if call.kind in ("create", "replay"):
            answer = self.request(call.method, call.path, credential=call.credential, body=call.body,
                                  headers=call.headers)
            if not self.report.check("in flight", answer.status == 201, lambda: f"retry of {call!r}: {answer!r}"):
                return
            self.report.count("in-flight creates that had been committed",
                              answer.header("Idempotency-Replayed") == "true")
            if call.kind == "create":
                call.answer = answer
                client.learn(call)
                client.calls.append(call)
                self.exactly_one(client, call)
        elif call.is_write:
            self.read_back(client, call)

    def exactly_one(self, client, call):
        for user in call.users:
            titles = [one["title"] for one in self.whole_list(client, user)]
            self.report.check("in flight", titles.count(call.body["title"]) == 1,
                              lambda: f"{call!r} retried: {titles.count(call.body['title'])} notifications")

    def read_back(self, client, call):
        """Each call's outcome is in what its user can see; a half done one differs from both ledgers."""
        user = call.users[0]
        rows = self.whole_list(client, user)
        listed = {one["id"]: one["read_at"] is not None for one in rows}
        titles = {one["id"]: one["title"] for one in rows}
        before = {one: client.state[("notification", one)][1] for one in client.notifications(user)}
        after = dict(before)
        if call.kind == "patch":
            after[call.target] = call.body["read"]
        elif call.kind in ("delete", "withdraw"):
            after.pop(call.target)
        elif call.kind == "edit":
            known = ("title", call.target)
            possible = (client.state[known], call.body["title"])
            self.report.check("in flight", titles.get(call.target) in possible, lambda: f"{call!r}: {titles.get(call.target)}")
            client.state[known] = titles.get(call.target)
        elif call.kind == "mark_all_read":
            after.update({one: True for one in before if call.target is None or one <= call.target})
        if self.report.check("in flight", listed in (before, after), lambda: f"{call!r} is half done for {user}"):
            for one in before:
                if one in listed:
                    client.state[("notification", one)] = (user, listed[one])
                else:
                    del client.state[("notification", one)]
                    del client.state[("title", one)]
        if call.kind in ("register", "unregister"):
            owner = next((one for one in client.users if call.target in self.device_list(client, one)), None)
            possible = (client.state.get(("device", call.target)), user if call.kind == "register" else None)
            if self.report.check("in flight", owner in possible, lambda: f"{call!r}: now with {owner}"):
                client.state.pop(("device", call.target), None)
                if owner:
                    client.state[("device", call.target)] = owner

    # --- what was acknowledged

    def whole_list(self, client, user):
        found, cursor = [], None
        while True:
            path = "/notifications?limit=100" + (f"&cursor={cursor}" if cursor else "")
            answer = self.request("GET", path, credential=client.tokens[user], headers={"User-Agent": load.BROWSER})
            page = answer.json()
            found += page["notifications"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def device_list(self, client, user):
        answer = self.request("GET", "/device_tokens", credential=client.tokens[user])
        return {one["token"] for one in answer.json()["device_tokens"]}

    def notifications(self, client, keys):
        for _, one in sorted(key for key in keys if key[0] == "notification"):
            expected = client.state.get(("notification", one))
            owner = expected[0] if expected else None
            for user in client.users:
                if owner is not None and user != owner:
                    continue
                answer = self.request("GET", f"/notifications/{one}", credential=client.tokens[user])
                if expected is None:
                    self.report.check("deleted", answer.status == 404, lambda: f"deleted {one} is back: {answer!r}")
                elif self.report.check("notification", answer.status == 200, lambda: f"{one} of {user}: {answer!r}"):
                    read = answer.json()["read_at"] is not None
                    self.report.check("read state", read == expected[1], lambda: f"{one}: read {read}, was {expected}")
                    title = client.state[("title", one)]
                    self.report.check("title", answer.json()["title"] == title, lambda: f"{one}: {answer!r}, not {title}")

    def replays(self, client, creates):
        for call in creates:
            answer = self.request(call.method, call.path, credential=call.credential, body=call.body,
                                  headers={**call.headers, "X-Request-Id": call.request_id + "-again"})
            self.report.check(
                "idempotency", answer.status == 201 and answer.header("Idempotency-Replayed") == "true"
                and answer.body == call.answer.body, lambda: f"{call!r} replayed: {answer!r}")
        for call in creates[:1]:
            answer = self.request(call.method, call.path, credential=call.credential, body=load.rebody(call),
                                  headers=call.headers)
            self.report.check("idempotency", answer.status == 422, lambda: f"{call!r} with another body: {answer!r}")

    def devices(self, client):
        for user in client.users:
            expected, found = set(client.devices(user)), self.device_list(client, user)
            self.report.check("devices", found == expected, lambda: f"{user}: {found ^ expected}")

    def badges(self, client):
        for user in client.users:
            badge = self.request("GET", "/badge", credential=client.tokens[user]).json()
            unread = sum(not client.state[("notification", one)][1] for one in client.notifications(user))
            self.report.check("badge", badge["unread_count"] == unread, lambda: f"{user}: {badge}, {unread} unread")
            self.report.check("badge version", badge["version"] >= client.versions.get(user, 0),
                              lambda: f"{user}: {badge} after version {client.versions[user]}")

    def deliveries(self, calls):
        """Every owed delivery exists, and all reach a final state."""
        alive = {key[1] for client in self.clients for key in client.state if key[0] == "notification"}
        owed = {}
        for call in (call for made in calls for call in made if call.kind == "create"):
            for key in call.effect:
                if key[0] == "notification" and key[1] in alive:
                    owed[key[1]] = (call.credential, {k[2] for k in call.effect if k[:2] == ("delivery", key[1])})
        deadline = time.monotonic() + SETTLE_SECONDS
        while owed:
            for one, (credential, tokens) in list(owed.items()):
                answer = self.request("GET", f"/notifications/{one}/deliveries", credential=credential)
                found = answer.json()["deliveries"] if answer.status == 200 else []
                missing = tokens - {delivery["token"] for delivery in found}
                if len(missing) <= sum(delivery["token"] is None for delivery in found):
                    missing = set()     # settled, and their devices left since: the answer no longer says which
                unsettled = [(delivery["token"], delivery["state"]) for delivery in found
                             if delivery["state"] not in schema.STATES_SETTLED]
                if not missing and unsettled and time.monotonic() < deadline:
                    continue
                del owed[one]
                self.report.count("deliveries", len(tokens))
                self.report.check("deliveries exist", not missing, lambda: f"{one} has none for {missing}: {answer!r}")
                self.report.check("deliveries settle", not unsettled, lambda: f"{one}: {unsettled}")
            if owed:
                time.sleep(0.3)


def sabotage(server, clients, rng, since):
    """Deletes one row of each kind, acknowledged in this round, from the file while the server is down."""
    creates = [call for client in clients for call in client.calls[since[client.name]:] if call.kind == "create"]
    states = {key[1]: value[1] for client in clients for key, value in client.state.items() if key[0] == "notification"}
    made = [(key[1], call) for call in creates for key in call.effect if key[0] == "notification" and key[1] in states]
    rng.shuffle(made)
    with contextlib.closing(schema.connect(server.database)) as file:
        lost = next((call for one, call in made if not states[one] and schema.plant_lost_notification(file, one)), None)
        others = [(one, call) for one, call in made if call is not lost]
        undelivered = any(schema.plant_lost_delivery(file, one) for one, _ in others[:len(others) // 2])
        forgotten = any(schema.plant_lost_idempotency_key(file, call.idempotency_key.strip('"'))
                        for _, call in others[len(others) // 2:][:1])
    if not (lost and undelivered and forgotten):
        raise harness.HarnessError(f"the sabotage found no row to delete: {bool(lost)}, {undelivered}, {forgotten}")


def one_round(server, clients, report, rng, planted=False, seconds=(0.3, 1.6)):
    """Load, SIGKILL, restart, checks. Gives the clients for the next round."""
    since = {client.name: len(client.calls) for client in clients}
    for client in clients:
        client.start()
    time.sleep(rng.uniform(*seconds))
    while planted and not all(enough_for_sabotage(client, since[client.name]) for client in clients):
        time.sleep(0.05)
    server.kill()
    for client in clients:
        client.join()
        for what in client.unexpected:
            report.check("answers under load", False, what)
        client.unexpected.clear()
    report.count("acknowledged", sum(len(client.calls) - since[client.name] for client in clients))
    if planted:
        sabotage(server, clients, rng, since)
    else:
        clean, said = server.badge_audit()
        report.check("badge audit", clean, lambda: f"on the killed server's file: {said}")
    server.start()
    Round(server, clients, report, rng).all(since)
    clean, said = server.badge_audit()
    report.check("badge audit", clean, said)
    return [client.again(server.port) for client in clients]


def enough_for_sabotage(client, since):
    """Several notifications that are still there, unread and with deliveries, so that each fault finds its own row."""
    state = dict(client.state)
    unread = {key[1] for key, value in state.items() if key[0] == "notification" and not value[1]}
    owed = {key[1] for call in client.calls[since:] for key in call.effect if key[0] == "delivery"}
    return len(unread & owed) >= 3 or not client.is_alive()


def control(options, rng):
    """A run with planted faults; gives the checks that should have failed and didn't."""
    report = harness.Report()
    with harness.temporary_folder("campanile-crash-control-") as folder:
        server = harness.Campanile(options.binary, os.path.join(folder, "campanile.sqlite"), folder)
        clients = first_clients(server, options, rng)
        one_round(server, clients, report, rng, planted=True, seconds=(0.2, 0.5))
        server.stop()
        with contextlib.closing(schema.connect(server.database)) as file:
            # The planted loss is put right, then one count is made wrong: the audit must see a single wrong number.
            file.execute("UPDATE inboxes SET unread_count = (SELECT count(*) FROM notifications n WHERE "
                         "n.inbox_id = inboxes.id AND n.read_at IS NULL), unread_since_cleared = (SELECT count(*) FROM "
                         "notifications n WHERE n.inbox_id = inboxes.id AND n.read_at IS NULL "
                         "AND (cleared_id IS NULL OR n.id > cleared_id))")
            right, said = server.badge_audit()
            if not right:
                raise harness.HarnessError(f"the audit finds fault with repaired badges: {said}")
            schema.plant_wrong_badge(file)
        wrong, _ = server.badge_audit()
    must = {"notification", "deliveries exist", "idempotency", "badge audit"}
    return sorted((must - report.kinds()) | ({"badge audit of one count"} if wrong else set()))


def first_clients(server, options, rng):
    clients = load.make_clients(server, [f"c{number}" for number in range(options.clients)], 3, rng.random())
    server.start()
    for client in clients:
        client.connect(server.port)
    return clients


def main():
    parser = harness.arguments(__doc__, short="2 rounds and the control, for `make test`")
    parser.add_argument("--rounds", type=int, default=None, help="25")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--sabotage", action="store_true", help="delete acknowledged rows in the last round: must fail")
    options = harness.begin(parser)
    rounds = options.rounds or (2 if options.short else 25)
    rng, report, started = random.Random(options.seed), harness.Report(), time.monotonic()
    with harness.temporary_folder("campanile-crash-") as folder:
        server = harness.Campanile(options.binary, os.path.join(folder, "campanile.sqlite"), folder)
        clients = first_clients(server, options, rng)
        for number in range(rounds):
            clients = one_round(server, clients, report, rng, planted=options.sabotage and number == rounds - 1)
        server.stop()
        with contextlib.closing(schema.connect(server.database)) as file:
            damage = schema.integrity(file)
            report.check("integrity", damage is None, str(damage))
    unseen = [] if options.sabotage else control(options, rng)
    c = report.checked
    print(f"crash: {rounds} rounds of SIGKILL, {c['acknowledged']} acknowledged writes, "
          f"{c.get('notification', 0)} notifications found, {c.get('idempotency', 0)} replays identical, "
          f"{c.get('deliveries', 0)} deliveries settled, {c.get('calls in flight', 0)} calls in flight "
          f"({c.get('in-flight creates that had been committed', 0)} creates of them committed), "
          f"{c['badge audit']} audits: {len(report.wrong)} wrong ({time.monotonic() - started:.0f} s)")
    status = report.verdict(unseen)
    if not options.sabotage and not unseen:
        print("crash control: a deleted notification, delivery and idempotency key and a wrong count were each seen")
    return status


if __name__ == "__main__":
    harness.run(main)
