"""The payload's fields of POST /notifications, from openapi.yaml's schema to the strict simulator of Apple and Google.

  requests   made at random of the schema (payload_requests.py), most of them valid: what the schema allows is refused only for its size or by
             a rule of docs/payload.md; what is wrong in one place is 422 and that place is named. Each that is taken comes to four devices
             (APNs; an iPhone, Android by its token and by its installation ID through FCM), none is refused there, all that the request says
             stands where docs/payload.md says, and Android's part is as Google's discovery document wants it (fcm_discovery.json). Every key
             of the schema is in so many of them
  sizes      pushes of 4,096 bytes, which stay whole, and of one more, which lose the end of their body; what doesn't fit without its body
             is refused when it is created, at the byte where it must be
  dry runs   ?dry_run=true shows, byte for byte, what is sent then, but for ids, times, versions and tokens

At the end the controls: what each check is there for is planted, and must be seen.
"""
import copy
import json
import random
import time
from collections import Counter

import yaml

from e2e import harness
from e2e.contract.openapi_document import tighten
from e2e.contract.payload_pushes import (
    ANDROID,
    APNS,
    DEVICES,
    ELLIPSIS,
    FCM_IOS,
    INSTALLATION,
    LIMIT,
    Arrivals,
    android_complaints,
    differences,
    plain,
    plain_headers,
    pushes_of,
)
from e2e.contract.payload_requests import ABSENT, PAST, Mutation, broken_rules, get, keep_rules, seeded
from e2e.trust.push_world import Device, User, world

USERS = 24
BATCH = 600
LATE_SECONDS = 2         # for a push that may have expired before it went
ROUND = 50               # dry runs, each of another user
WRONG_SHARE = 0.15       # of the requests have a mistake
TAKEN_SHARE = 0.5        # of all are taken, at least
EACH_KEY = 100 / 20_000  # of the requests that have it and are taken, at least, by the number of all
SMALL = 1_200            # bytes of a request that no push is too small for
SHOWN = 700              # characters of a request in a finding
SOON_SECONDS = 120       # a push that lives shorter may be late


def short(request):
    return json.dumps(request, ensure_ascii=False)[:SHOWN]


class World:
    """Users with a device of each kind, the calls, and what arrives."""

    def __init__(self, here, options, document):
        self.here, self.document = here, document
        self.key = here.keys["default"]
        self.arrivals = Arrivals(here.simulator)
        self.rng = random.Random(f"{options.seed} world")
        self.number = 0

    def user(self, devices=DEVICES):
        self.number += 1
        name = f"user-{self.number}"
        user = User(name, "default", harness.user_token(harness.JWT_SECRET, name))
        for provider, platform, kind in devices:
            token = "".join(self.rng.choices("0123456789abcdef", k=64 if provider == "apns" else 150))
            token = "c" + token[:21] if kind == "fid" else token
            user.devices.append(Device(token, platform, provider))
            self.here.ask("POST", "/device_tokens", credential=user.credential,
                          body={"token": token, "platform": platform, "provider": provider, "kind": kind})
        return user

    def create(self, request, dry=False):
        path = "/notifications?dry_run=true" if dry else "/notifications"
        # Half of them with escapes for all that isn't ASCII.
        body = json.dumps(request, ensure_ascii=len(json.dumps(request)) % 2 == 0).encode()
        return self.here.request("POST", path, credential=self.key, body=body)

    def delivered(self, request):
        """Creates it, and gives its push of each device."""
        answer = self.create(request)
        if answer.status != 201:
            raise harness.HarnessError(f"{request}: {answer!r}")
        identifier = answer.json()["id"]
        count = len(self.devices_of(request["user_id"]))
        self.arrivals.wait_for({identifier: count})
        return {push.device: push for push in self.arrivals.take(identifier)}

    def devices_of(self, name):
        return next(user.devices for user in self.here.users if user.name == name)

    def shown(self, request):
        """The pushes of a dry run, as (device, headers, text of the payload)."""
        answer = self.create(request, dry=True)
        return pushes_of(answer.body.decode()) if answer.status == 200 else answer


# --- requests at random

def fields_of(answer):
    return [(one["field"], one["code"]) for one in answer.json().get("errors", [])]


def is_near(one, other):
    """Whether a field is the other, above it or below it."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and long[len(short):len(short) + 1] in ("", ".", "[")


def judge(report, request, mutation, answer):
    """Whether it had to be answered so."""
    def text():
        said = answer.body.decode()
        return f"{answer.status} {said[said.find('errors'):][:400]} to a request {mutation or 'as the schema has it'}: {short(request)}"
    if not report.check("status", answer.status in (201, 422), text) or answer.status == 201:
        report.check("mistakes are refused", answer.status == 422 or not mutation and not broken_rules(request), text)
        return
    named = fields_of(answer)
    if not report.check("problem", answer.header("Content-Type") == "application/problem+json" and bool(named), text):
        return
    if mutation:
        report.check("mistakes are named", any(is_near(field, one) for field, _ in named for one in mutation.fields), text)
        return
    rules = broken_rules(request)
    report.check("rules are named", all(any(field in rule for field, _ in named) for rule in rules), text)
    others = [(field, code) for field, code in named if not any(field in rule for rule in rules) or code not in ("exclusive", "reserved")]
    report.check("the schema is held", all(code == "too_long" for _, code in others), text)
    report.check("small ones are taken", not others or len(json.dumps(request, ensure_ascii=False).encode()) > SMALL, text)


def is_pushed(request):
    """Whether its pushes must come: True, False, or None for what may be late."""
    if request.get("push") is False:
        return False
    if request.get("expires_at"):
        return request["expires_at"] not in PAST
    return None if (request.get("ttl") or SOON_SECONDS) < SOON_SECONDS else True


def judge_pushes(report, request, pushes):
    expected = is_pushed(request)
    devices = Counter(push.device for push in pushes)

    def text():
        return f"{short(request)} came to {devices}"
    if expected is not None:
        report.check("delivery", devices == Counter(DEVICES if expected else []), text)
    for push in pushes:
        wrong = list(differences(request, push))
        report.check("what arrives", not wrong, lambda: f"{wrong}: {short(request)}: {push.text}")
        if push.ios is None:
            said = android_complaints(push.message["android"])
            report.check("discovery document", not said, lambda: f"{said}: {push.text}")


def random_requests(world, options, report):
    """Gives the line that says what was sent."""
    made, users = seeded(world.document, options.seed, "requests"), [world.user() for _ in range(USERS)]
    world.here.users += users
    keys, taken, refused, sent, began = Counter(), 0, Counter(), 0, time.monotonic()
    cut, later = 0, {}   # what must not come, or may be late
    while sent < options.requests:
        jobs = []
        while len(jobs) < min(BATCH, options.requests - sent):
            request, mutation = made.request(made.rng.choice(users).name), None
            if made.rng.random() < WRONG_SHARE:
                keep_rules(request, made.rng)
                mutation = made.mistaken(request)
            jobs.append((request, mutation))
        sent += len(jobs)
        answers = world.here.each(lambda job: world.create(job[0]), jobs)
        created = {}
        for (request, mutation), answer in zip(jobs, answers):
            judge(report, request, mutation, answer)
            if answer.status == 201:
                created[answer.json()["id"]] = request
            else:
                kind = mutation.kind if mutation else "rule" if broken_rules(request) else "size"
                refused[kind] += 1
        taken += len(created)
        keys.update(key for request in created.values() for key in made.keys if holds_key(request, key))
        sure = {identifier: request for identifier, request in created.items() if is_pushed(request)}
        later |= {identifier: request for identifier, request in created.items() if identifier not in sure}
        world.arrivals.wait_for(dict.fromkeys(sure, len(DEVICES)))
        for identifier, request in sure.items():
            pushes = world.arrivals.take(identifier)
            cut += any(push.body.endswith(ELLIPSIS) for push in pushes)
            judge_pushes(report, request, pushes)
        refused_there(world, report)
        if sent % (8 * BATCH) == 0 and sent < options.requests:
            print(f"requests: {sent:,} so far, {len(report.wrong)} wrong", flush=True)
    settled(world)
    for identifier, request in later.items():
        judge_pushes(report, request, world.arrivals.take(identifier))
    report.check("delivery", not world.arrivals.pushes, lambda: f"more than once came {list(world.arrivals.pushes)[:5]}")
    report.check("share", taken >= TAKEN_SHARE * options.requests, f"{taken} of {options.requests} were taken")
    rarest, count = min(((key, keys[key]) for key in made.keys), key=lambda one: one[1])
    for key in made.keys:
        report.check("keys", keys[key] >= EACH_KEY * options.requests, f"{key} is in {keys[key]} requests that were taken")
    return (f"requests: {options.requests:,}, {taken:,} taken, {cut} of them cut, refused: {dict(refused)}; "
            f"{len(made.keys)} keys, the rarest, {rarest}, in {count}; {time.monotonic() - began:.0f} s")


def holds_key(request, key):
    """Whether the request says something with the key."""
    return get(request, key) not in (ABSENT, None)


def settled(world):
    """Waits until nothing is owed, and takes in what came."""
    if not world.here.wait_until_quiet():
        raise harness.HarnessError(world.here.unsettled())
    world.arrivals.read()


def refused_there(world, report):
    """The simulator refused nothing."""
    refused = world.arrivals.refused
    report.count("the simulator takes it")
    for row in refused[:5]:
        report.check("the simulator takes it", False, f"{row['status']} {row['reason']} {row['explanation']}: {row['payload'][:3000]}")
    refused.clear()


# --- sizes

def fillers(rng):
    """What a push can't do without, in several ways, and the character that the body is made of."""
    korean, emoji = "값을 읽었다 " * 20, "👩‍👩‍👧‍👦🇰🇷😀"
    return [
        ("plain data", {"data": {"a": "x" * 1_500}}, "x"),
        ("Korean", {"data": {"a": korean[:100]}, "subtitle": "부제목" * 20, "category": "주문"}, "가"),
        ("emoji", {"loc": {"body_key": "K", "body_args": [emoji * 4] * 8}}, "👩‍👩‍👧‍👦"),
        ("localised arguments", {"loc": {"title_key": "T", "title_args": ["y" * 200] * 5, "body_key": "B", "body_args": ["값" * 60] * 5}}, "b"),
        ("an overlay of iOS", {"apns": {"aps": {"target-content-id": "t" * 900}, "mine": {"한": "글" * 300}}, "data": {"a": "x" * 900}}, "한"),
        ("an overlay of Android", {"fcm": {"restricted_package_name": "p" * 900}, "data": {"a": "x" * 900}}, "한"),
        ("escapes", {"data": {"a": '"\\\n' * 200}}, '"'),
    ]


def sizes(world, options, report):
    rng = random.Random(f"{options.seed} sizes")
    users = {device: world.user([device]) for device in DEVICES}
    world.here.users += users.values()
    cases = [(device, display) for device in DEVICES for display in ("system", "app") if display == "system" or device in (ANDROID, INSTALLATION)]
    met = Counter()
    for device, display in cases:
        for name, filler, letter in fillers(rng):
            if ("fcm" if device[1] == "ios" else "apns") in filler:
                continue   # nothing of it is in this push, and the other system's is the larger
            base = {"user_id": users[device].name, "title": "제목 " + letter, "android": {"display": display}, **copy.deepcopy(filler)}
            met.update(around_the_limit(world, report, base, device, letter, f"{name} to {device}, {display}"))
    everyone = world.user()
    world.here.users.append(everyone)
    for display in ("system", "app"):
        for name, filler, _ in fillers(rng):
            met.update(at_the_refusal(world, report, everyone, display, name, filler))
    refused_there(world, report)
    return f"sizes: {dict(met)}"


def size_of(world, request, device):
    shown = world.shown(request)
    if isinstance(shown, harness.Answer):
        raise harness.HarnessError(f"{short(request)}: {shown!r}")
    return next(counted(text, one) for one, _, text in shown if one == device)


def counted(text, device):
    """The bytes of a payload of a dry run that count, without FCM's token."""
    token = "" if device == APNS else next(iter(json.loads(text)["message"].items()))[1]
    return len(text.encode()) - len(token.encode())


def around_the_limit(world, report, base, device, letter, what):
    """A body that makes the push exactly 4,096 bytes large, and one more byte. The body ends in several of the letter."""
    ending = {**base, "body": letter * 20, "deep_link": "/"}
    # The link fills what the body, which has a limit of its own, can't.
    base["deep_link"] = "/" + "l" * min(2_040, max(0, LIMIT - 500 - size_of(world, ending, device)))
    room = LIMIT - size_of(world, {**ending, **base}, device)
    if not 0 < room < 1_900:
        raise harness.HarnessError(f"{what}: {room} bytes are left for the body")
    whole = {**base, "body": "x" * room + letter * 20}
    for request, is_whole in ((whole, True), ({**whole, "body": "x" + whole["body"]}, False)):
        push = world.delivered(request).get(device)
        if not report.check("size delivered", push is not None and push.status == 200, f"{what}: nothing came"):
            continue
        title = push.seen["aps"]["alert"]["title"] if push.ios is not None else (push.seen["alert"] or push.message.get("notification"))["title"]
        report.check("the title stays", title == request["title"], lambda: f"{what}: {push.text}")
        wrong = size_mistakes(request["body"], push.body, push.size, is_whole, letter)
        report.check("whole" if is_whole else "cut", not wrong, lambda: f"{what}: {wrong}: {push.text}")
    return ["whole", "cut"]


def size_mistakes(body, sent, size, is_whole, letter):
    if is_whole:
        return [] if (sent, size) == (body, LIMIT) else [f"{size} bytes, body of {len(sent)} instead of {len(body)}"]
    wrong = [] if size <= LIMIT else [f"{size} bytes"]
    if not sent.endswith(ELLIPSIS) or not body.startswith(sent[:-1]) or len(sent[:-1]) >= len(body):
        wrong.append("the body isn't its beginning and an ellipsis")
    # Of escapes within escapes more is cut than need be.
    if letter not in '"' and size + len(letter.encode()) + len(ELLIPSIS.encode()) <= LIMIT - 3:
        wrong.append(f"cut down to {size} bytes, which is too much")
    if letter not in sent or set(sent[sent.index(letter):-1]) - set(letter):
        wrong.append("a character was cut in two")
    return wrong


def at_the_refusal(world, report, user, display, name, filler):
    """The largest push that is taken: one byte more is refused at its creation."""
    base = {"user_id": user.name, "title": "T", "android": {"display": display}, **copy.deepcopy(filler)}
    data = base.setdefault("data", {})
    data["pad"] = "p" * min(1_950 - len(json.dumps(data).encode()), max(0, 2_600 - len(json.dumps(filler, ensure_ascii=False).encode())))

    def sized(count):
        # Not in `data`, which has a limit of its own.
        link = "/" + "l" * count
        return {**base, "deep_link": link}
    low, high = 0, 2_040
    if isinstance(world.shown(sized(low)), harness.Answer) or not isinstance(world.shown(sized(high)), harness.Answer):
        raise harness.HarnessError(f"{name}, {display}: there is no edge")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if isinstance(world.shown(sized(middle)), harness.Answer) else (middle, high)
    answer = world.create(sized(high))
    report.check("too_long", answer.status == 422 and {code for _, code in fields_of(answer)} == {"too_long"}, lambda: f"{name}: {answer!r}")
    pushes = world.delivered(sized(low))
    report.check("the largest is delivered", set(pushes) == set(DEVICES), f"{name}, {display}: it came to {list(pushes)}")
    # It is judged by the longest badge and version that there are.
    spare = [len(str(999_999_999)) - len(str(badge)) + 16 - len(str(version)) for badge, version in map(badge_of, pushes.values())]
    largest = max(push.size + more for push, more in zip(pushes.values(), spare))
    report.check("the edge", largest == LIMIT, f"{name}, {display}: {largest} bytes with the longest badge: {[push.size for push in pushes.values()]}")
    return ["taken at the edge", "refused"]


def badge_of(push):
    if push.ios is not None:
        return push.ios["aps"]["badge"], push.ios["badgeVersion"]
    alert = push.seen["alert"]
    return alert["count"] if alert else push.message["android"]["notification"]["notification_count"], push.message["data"]["badgeVersion"]


# --- dry runs

def compare(report, shown, sent, request):
    """`shown` is what the dry run says of a device, `sent` what came."""
    device, headers, payload = shown
    report.check("dry run", plain(payload) == plain(sent.text),
                 lambda: f"{device}: {short(request)}\n    shown {plain(payload)}\n    sent  {plain(sent.text)}")
    if device == APNS:
        report.check("dry run's headers", plain_headers(headers) == plain_headers(sent.headers),
                     lambda: f"{short(request)}: shown {headers}, sent {sent.headers}")


def compare_all(report, request, shown, pushes):
    """How many were compared."""
    sent = {push.device: push for push in pushes}
    if isinstance(shown, harness.Answer):
        return 0
    report.check("dry run's devices", {one[0] for one in shown} == set(sent), lambda: f"{short(request)}: shown {shown}, sent {list(sent)}")
    both = [one for one in shown if one[0] in sent]
    for one in both:
        compare(report, one, sent[one[0]], request)
    return len(both)


def shown_and_created(world, request):
    """A request, what is shown of it, and the answer to its creation. Nothing else may be owed to its user: a push has the number of the
    moment at which it is sent."""
    return request, world.shown(request), world.create(request)


def dry_runs(world, options, report):
    made = seeded(world.document, options.seed, "dry runs")
    users, began = [world.user() for _ in range(ROUND)], time.monotonic()
    world.here.users += users
    looked = world.user()
    compared, left, later = 0, options.dry_runs, {}
    while left > 0:
        requests = []
        for user in users[:left]:
            request = made.request(user.name)
            if made.rng.random() < 0.15:
                # So large that its body may be cut.
                request["body"] = made.words(2_048)
                keep_rules(request, made.rng)
            requests.append(request)
        left -= len(requests)
        done = world.here.each(lambda request: shown_and_created(world, request), requests)
        created = {answer.json()["id"]: (request, shown) for request, shown, answer in done if answer.status == 201}
        for request, shown, answer in done:
            if answer.status == 201:
                report.check("dry run taken", not isinstance(shown, harness.Answer), lambda: f"{request}: {shown!r}, and then {answer!r}")
            else:
                report.check("dry run refused", isinstance(shown, harness.Answer) and fields_of(shown) == fields_of(answer),
                             lambda: f"{request}: {shown!r}, and then {answer!r}")
        sure = {identifier for identifier, (request, _) in created.items() if is_pushed(request)}
        world.arrivals.wait_for(dict.fromkeys(sure, len(DEVICES)))
        world.arrivals.wait_for({one: len(DEVICES) for one, (request, _) in created.items() if is_pushed(request) is None}, LATE_SECONDS)
        for identifier in sure:
            compared += compare_all(report, *created.pop(identifier), world.arrivals.take(identifier))
        later |= created
        refused_there(world, report)
    settled(world)
    for identifier, (request, shown) in later.items():
        pushes = world.arrivals.take(identifier)
        if is_pushed(request) is False or pushes:
            compared += compare_all(report, request, shown, pushes)
    for _ in range(5):
        world.shown({**made.request(looked.name), "push": True})
    kept = world.here.ask("GET", "/notifications", credential=looked.credential).json()["notifications"]
    report.check("a dry run creates nothing", not kept, f"{len(kept)} notifications after dry runs")
    return f"dry runs: {options.dry_runs:,}, {compared:,} pushes byte for byte, {time.monotonic() - began:.0f} s"


# --- controls

def controls(world, seed):
    """The checks that don't see what is planted for them."""
    user = world.user()
    world.here.users.append(user)
    request = {"user_id": user.name, "title": "Control", "body": "값", "fcm": {"direct_boot_ok": True}, "data": {"a": "b"}}
    shown = {one[0]: one for one in world.shown(request)}
    pushes, report = world.delivered(request), harness.Report()
    honest = harness.Report()
    for device in DEVICES:
        compare(honest, shown[device], pushes[device], request)
    judge_pushes(honest, request, list(pushes.values()))
    if honest.wrong:
        honest.print_wrong()
        return ["without anything planted"]
    compare(report, (*shown[APNS][:2], shown[APNS][2].replace("값", "것")), pushes[APNS], request)
    compare(report, (APNS, {**shown[APNS][1], "apns-priority": "5"}, shown[APNS][2]), pushes[APNS], request)
    judge_pushes(report, request, [push for push in pushes.values() if push.device != FCM_IOS])
    judge_pushes(report, {**request, "subtitle": "another"}, list(pushes.values()))
    pushes[ANDROID].message["android"]["notification"]["light_settings"] = {"color": {"red": 2}}
    judge_pushes(report, request, list(pushes.values()))
    answer = world.create({**request, "title": 1})
    judge(report, request, None, answer)
    judge(report, {**request, "title": 1}, Mutation("range", ["body"]), answer)
    judge(report, request, Mutation("unknown", ["x"]), world.create(request))
    for is_whole, sent in ((True, "a…"), (False, "ab")):
        wrong = size_mistakes("abc", sent, LIMIT + 1, is_whole, "b")
        report.check("whole" if is_whole else "cut", not wrong, "planted")
    wanted = {"dry run", "dry run's headers", "delivery", "what arrives", "discovery document", "the schema is held", "mistakes are named",
              "mistakes are refused", "whole", "cut"}
    return sorted(wanted - report.kinds())


def main():
    parser = harness.arguments(__doc__, short="1,500 requests and 200 dry runs")
    parser.add_argument("--simulator", help="the program whose `simulator` is used; --binary's unless given")
    parser.add_argument("--requests", type=int, help="made at random")
    parser.add_argument("--dry-runs", type=int, help="compared with what is sent")
    parser.add_argument("--document", default="openapi.yaml")
    options = harness.begin(parser)
    options.requests = options.requests or (1_500 if options.short else 20_000)
    options.dry_runs = options.dry_runs or (200 if options.short else 2_000)
    with open(options.document, encoding="utf-8") as file:
        document = yaml.load(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    tighten(document)
    report = harness.Report()
    began = time.monotonic()
    with world(options, "payloads") as here:
        bench = World(here, options, document)
        for part in (random_requests, sizes, dry_runs):
            print(part(bench, options, report), flush=True)
        unseen = controls(bench, options.seed)
    status = report.verdict(unseen)
    print(f"payloads: {sum(report.checked.values()):,} things compared, {len(report.wrong) + len(unseen)} wrong, {time.monotonic() - began:.0f} s")
    return status


if __name__ == "__main__":
    harness.run(main)
