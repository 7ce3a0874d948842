"""The calls that generated clients make: those of a producer, of an app and of whoever runs the server, and the problems that
such clients meet. generated_calls.rb makes the same calls in Ruby.

`--generator openapi-generator` tries that generator's clients instead of openapi-python-client's, and `--document FILE` shows
what another document than the server's own breaks.
"""
import concurrent.futures
import contextlib
import datetime
import pathlib
import re
import shutil
import time
import uuid

import pytest

from e2e.contract.generated_clients import KINDS, Refused, World, ruby
from e2e.harness import serving, stores

PUSH_SECONDS = 30   # until a push is out; a debug binary on a busy machine is slow
IOS_TOKEN, PUSHED_TOKEN, LOOKED_AT_TOKEN, ANDROID_TOKEN = "0f" * 32, "a1" * 32, "b2" * 29 + "91de8f", "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx"
UNKNOWN = uuid.UUID("0193f8a2-7c1e-7b52-9d3a-5f0c2e8b1a47")
NATIVE = "Hotwire Native iOS; Turbo Native iOS; Mozilla/5.0"
DATA = {"order": 42, "express": True, "carrier": "Post", "weight": 1.5}


@contextlib.contextmanager
def served(request, binary):
    """A server with an empty database, clients of the kind that is tried, and where they get the document."""
    with pytest.MonkeyPatch.context() as patch, serving(binary) as server:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("no_proxy", "127.0.0.1")
        world = World(server, KINDS[request.config.getoption("generator")])
        yield world, request.config.getoption("document") or f"{world.address}/openapi.yaml"


@pytest.fixture(scope="module")
def world(request, binary):
    with served(request, binary) as (world, source):
        world.kind.generate(source)
        yield world


def check_problem(refused, status, code, operation):
    """It must be of the generated type and say what the head says."""
    problem = refused.problem
    assert type(problem).__name__ == "Problem", f"{operation}: a {refused.status} came as {problem!r}"
    said = (refused.status, problem.status, problem.code, problem.to_dict()["type"])
    assert said == (status, status, code, f"urn:campanile:problem:{code}"), f"{operation}: {said}, not {status} {code}"
    assert problem.request_id == refused.headers["X-Request-Id"], f"{operation}: request_id is {problem.request_id}"


def refusal(status, code, client, operation, **arguments):
    """Makes a call that must be refused."""
    try:
        answer = client.call(operation, **arguments)
    except Refused as refused:
        check_problem(refused, status, code, operation)
        return refused
    raise AssertionError(f"{operation}: {answer.status}, not {status}")


def is_time(value):
    return isinstance(value, datetime.datetime) and value.utcoffset() == datetime.timedelta(0)


def create(world, user, **members):
    body = world.producer.model("NotificationForUser", user_id=user, **{"title": "Hello", **members})
    return world.producer.call("createNotification", body=body).data


def settled(world, made):
    """The notification, when its only push is out."""
    deadline = time.monotonic() + PUSH_SECONDS
    while (found := world.producer.call("listDeliveries", id=made.id).data).deliveries[0].state in ("owed", "sending"):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return made


# --- what a producer does

def test_creating_with_everything_that_can_be_said(world):
    def order(**changes):
        return world.producer.model("NotificationForUser", **{
            "user_id": "alice", "title": "Your order is on its way", "body": "Parcel 2 of 2.", "category": "ORDER_UPDATE",
            "deep_link": "/orders/42?tab=parcels", "data": DATA, "push": True, "sound": None, "collapse_key": "order-42",
            "thread_id": "orders", "expires_at": datetime.datetime(2040, 1, 15, 12, tzinfo=datetime.UTC), **changes})

    first = world.producer.call("createNotification", body=order(), idempotency_key="order-42-shipped")
    made = first.data
    assert (first.status, type(made).__name__) == (201, "CreatedNotification"), first
    assert first.headers["Location"] == f"/notifications/{made.id}", first.headers
    assert (made.title, made.body, made.category) == ("Your order is on its way", "Parcel 2 of 2.", "ORDER_UPDATE"), made
    assert (made.deep_link, made.read_at) == ("/orders/42?tab=parcels", None) and is_time(made.created_at), made
    assert world.producer.plain(made.data) == DATA, made.data

    again = world.producer.call("createNotification", body=order(), idempotency_key="order-42-shipped")
    assert (again.status, again.data) == (201, made) and again.headers["Idempotency-Replayed"] == "true", again
    refusal(422, "idempotency_mismatch", world.producer, "createNotification",
            body=order(title="Another text"), idempotency_key="order-42-shipped")


def test_creating_for_several_users(world):
    body = world.producer.model("NotificationForUsers", user_ids=["bob", "carol", "bob"], title="Maintenance tonight")
    made = world.producer.call("createNotification", body=body).data
    assert type(made).__name__ == "CreatedNotifications", made
    assert [one.user_id for one in made.notifications] == ["bob", "carol"], made
    seen = world.reader("bob").call("getNotification", id=made.notifications[0].id).data
    assert (seen.title, seen.body, seen.data) == ("Maintenance tonight", "", None), seen


def test_following_pushes(world):
    """The body's time and silence arrive: they stand in what Apple would have been sent."""
    nobody = world.producer.call("listDeliveries", id=create(world, "nobody").id).data
    assert (nobody.reason, nobody.deliveries) == ("no_devices", []), nobody
    reader = world.reader("dora")
    reader.call("registerDeviceToken", body=reader.model("IOSRegistration", token=PUSHED_TOKEN, platform="ios"))
    expires = datetime.datetime(2040, 1, 15, 12, tzinfo=datetime.UTC)
    made = settled(world, create(world, "dora", sound=None, data=DATA, expires_at=expires))
    found = world.producer.call("listDeliveries", id=made.id).data
    delivery = found.deliveries[0]
    assert (found.notification_id, found.reason, delivery.token) == (made.id, None, PUSHED_TOKEN), found
    assert (delivery.platform, delivery.provider, delivery.environment) == ("ios", "apns", "production"), found
    assert delivery.state == "accepted", found
    assert is_time(delivery.settled_at) and delivery.next_attempt_at is None and delivery.attempts == 1, found
    assert [(one.outcome, one.status, is_time(one.at)) for one in delivery.answers] == [("accepted", 200, True)], found
    push = world.producer.call("listSandboxPushes", user_id="dora").data.pushes[0]
    assert (push.notification_id, push.token, push.platform) == (made.id, PUSHED_TOKEN, "ios") and is_time(push.sent_at), push
    headers, payload = world.producer.plain(push.headers), world.producer.plain(push.payload)
    assert headers["apns-expiration"] == str(int(expires.timestamp())), headers
    assert "sound" not in payload["aps"] and payload["order"] == 42 and payload["express"] is True, payload


def test_editing_and_withdrawing(world):
    """What an edit says of nothing stays, and what is None is taken out."""
    reader, producer = world.reader("lena"), world.producer
    made, other, third = (
        create(world, "lena", body="Counter 3", deep_link="/orders/42", external_id=f"order-{number}") for number in range(3))
    assert (made.external_id, made.edited_at) == ("order-0", None), made
    again = producer.model("NotificationForUser", user_id="lena", title="Once more", external_id="order-0")
    taken = refusal(409, "external_id_taken", producer, "createNotification", body=again).problem
    assert taken.notification_id == made.id, taken

    edited = producer.call("updateNotification", id=made.id, body=producer.model("Edit", title="It is late", deep_link=None, data=DATA)).data
    assert (edited.title, edited.body, edited.deep_link, edited.external_id) == ("It is late", "Counter 3", None, "order-0"), edited
    assert is_time(edited.edited_at) and edited.read_at is None and producer.plain(edited.data) == DATA, edited
    assert reader.call("getNotification", id=made.id).data == edited
    refusal(422, "invalid", producer, "updateNotification", id=made.id, body=producer.model("Edit", push=True))

    gone = producer.call("deleteNotification", id=other.id, user_id="lena")
    assert (gone.status, gone.data) == (204, None), gone
    for number in (1, 0):
        withdrawn = producer.call("withdrawNotifications", external_id="order-2").data
        assert (withdrawn.withdrawn, withdrawn.more) == (number, False), withdrawn
    shown = reader.model("ShownNotifications", ids=[str(one.id) for one in (third, made, other)] + ["no id"])
    seen = reader.call("reconcileNotifications", body=shown).data
    assert (seen.handled, seen.badge.unread_count) == ([str(third.id), str(other.id), "no id"], 1), seen


def test_broadcasting(world):
    sender = world.connect(world.broadcast_key)
    before = sender.call("getBroadcastPosition").data
    message = sender.model("Broadcast", stream="room:7", data="<turbo-stream></turbo-stream>", id="message-1")
    for _ in range(2):
        assert sender.call("broadcast", body=message).data.accepted == 1
    after = sender.call("getBroadcastPosition").data
    assert (after.epoch, after.offset) == (before.epoch, before.offset + 1), (before, after)
    refusal(422, "invalid", sender, "broadcast", body=sender.model("Broadcast", stream="notifications:lena", data="x"))
    refusal(403, "forbidden", world.producer, "broadcast", body=message)


# --- what an app does

def test_reading_the_inbox_page_by_page(world):
    reader = world.reader("erin")
    made = [create(world, "erin", title=f"Number {number}", category="ODD" if number % 2 else "EVEN").id for number in range(5)]
    seen, cursor = [], {}
    while True:
        page = reader.call("listNotifications", limit=2, **cursor).data
        seen += [one.id for one in page.notifications]
        if page.next_cursor is None:
            break
        cursor = {"cursor": page.next_cursor}
    assert seen == made[::-1] and page.badge.unread_count == 5, (seen, page.badge)
    odd = reader.call("listNotifications", category="ODD").data.notifications
    assert [one.title for one in odd] == ["Number 3", "Number 1"], odd

    read = reader.call("updateNotification", id=made[2], body=reader.model("ReadChange", read=True)).data
    assert (read.id, is_time(read.read_at)) == (made[2], True), read
    assert reader.call("getNotification", id=made[2]).data == read
    assert [one.id for one in reader.call("listNotifications", status="read").data.notifications] == [made[2]]
    marked = reader.call("markAllRead", body=reader.model("MarkAllRead", up_to=made[3])).data
    assert (marked.updated, marked.badge.unread_count, marked.badge.count) == (3, 1, 0), marked
    assert [one.id for one in reader.call("listNotifications", status="unread").data.notifications] == [made[4]]
    assert reader.call("markAllRead", body=reader.model("MarkAllRead")).data.updated == 1
    gone = reader.call("deleteNotification", id=made[0])
    assert (gone.status, gone.data) == (204, None), gone
    refusal(404, "not_found", reader, "getNotification", id=made[0])


def test_reading_and_clearing_the_badge(world):
    reader = world.reader("frank")
    never = reader.call("getBadge").data
    assert (never.count, never.unread_count, never.version, never.updated_at) == (0, 0, 0, None), never
    create(world, "frank")
    first = reader.call("getBadge")
    assert (first.data.count, first.data.unread_count) == (1, 1) and is_time(first.data.updated_at), first
    same = reader.call("getBadge", if_none_match=first.headers["ETag"])
    assert (same.status, same.data) == (304, None), same
    cleared = reader.call("clearBadge").data
    assert (cleared.count, cleared.unread_count) == (0, 1) and cleared.version > first.data.version, cleared
    create(world, "frank")
    assert reader.call("listNotifications").data.badge.count > 0
    # Said by the client: openapi-generator's overwrites by it what a call says about the User-Agent.
    native = world.connect(world.token("frank"), user_agent=NATIVE)
    assert native.call("listNotifications").data.badge.count == 0


def test_registering_devices(world):
    reader = world.reader("grace")
    ios = reader.model("IOSRegistration", token=IOS_TOKEN.upper(), platform="ios", environment="sandbox",
                       app_version="2.4.1", locale="de-CH")
    first, again = (reader.call("registerDeviceToken", body=ios) for _ in range(2))
    assert (first.status, again.status) == (201, 200), (first, again)
    device = first.data
    assert (device.token, device.platform, device.provider, device.environment) == (IOS_TOKEN, "ios", "apns", "sandbox"), device
    assert (device.app_version, device.locale) == ("2.4.1", "de-CH") and is_time(device.last_registered_at), device
    android = reader.model("AndroidRegistration", token=ANDROID_TOKEN, platform="android")
    android = reader.call("registerDeviceToken", body=android).data
    assert (android.provider, android.environment, android.locale) == ("fcm", "production", None), android
    firebase = reader.model("IOSFirebaseRegistration", token=ANDROID_TOKEN + "-ios", platform="ios", provider="fcm")
    assert reader.call("registerDeviceToken", body=firebase).data.provider == "fcm"
    listed = reader.call("listDeviceTokens").data.device_tokens
    assert {one.token for one in listed} == {IOS_TOKEN, ANDROID_TOKEN, ANDROID_TOKEN + "-ios"}, listed
    assert reader.call("deleteDeviceToken", token=ANDROID_TOKEN).status == 204
    refusal(404, "not_found", reader, "deleteDeviceToken", token=ANDROID_TOKEN)


def test_making_a_stream_token(world):
    made = world.reader("heidi").call("createStreamToken")
    assert (made.status, is_time(made.data.expires_at)) == (201, True) and made.data.token.startswith("cms_"), made


def test_asking_what_apps_may_know(world):
    app = world.connect(world.token("ivan"), user_agent=NATIVE)
    seen = app.call("getClient").data
    assert (seen.native, seen.platform) == (True, "ios"), seen
    assert app.call("listDeepLinks").data.deep_links == []
    refusal(404, "not_found", app, "getPathConfiguration", name="ios_v1.json")


# --- what whoever runs the server does

def test_asking_for_health(world):
    anyone = world.connect("no token")
    assert anyone.call("getHealth").data.status == "ok"
    ready = anyone.call("getReadiness").data
    assert (ready.status, ready.reason_count) == ("ready", 0), ready
    told = world.connect(world.operate_key).call("getReadiness").data
    assert (told.status, told.reasons, told.details) == ("ready", [], []), told
    refusal(401, "unauthorized", anyone, "getMetrics")
    refusal(403, "forbidden", world.producer, "getMetrics")


def test_looking_as_an_operator(world):
    """The last hour has nulls before the server's start; a delivery has the same answers as its producer is told."""
    reader, operator = world.reader("kate"), world.connect(world.operate_key)
    reader.call("registerDeviceToken", body=reader.model("IOSRegistration", token=LOOKED_AT_TOKEN, platform="ios"))
    made = settled(world, create(world, "kate", category="SEEN", deep_link="/orders/42"))

    overview = operator.call("getOverview").data
    assert overview.app == "default" and is_time(overview.at) and is_time(overview.started_at), overview
    assert [one.provider for one in overview.providers] == ["apns", "fcm"], overview
    apple = overview.providers[0]
    assert (apple.condition, apple.reason, apple.since, apple.owed.count) == ("sandbox", None, None, 0), apple
    assert len(overview.last_hour.created) == 60 and overview.last_hour.created[0] is None and overview.last_hour.created[-1] is not None
    assert sum(count or 0 for count in apple.last_hour.accepted) >= 1, apple.last_hour
    assert (overview.dead_tokens.last_hour, overview.dead_tokens.latest) == (0, []), overview.dead_tokens

    found = operator.call("searchDeliveries", notification_id=made.id).data
    [delivery] = found.deliveries
    assert found.next_cursor is None and (delivery.notification_id, delivery.user_id) == (made.id, "kate"), found
    assert (delivery.token, delivery.state, delivery.reason, delivery.platform) == (LOOKED_AT_TOKEN[-6:], "accepted", None, "ios"), found
    assert is_time(delivery.created_at) and [(one.outcome, one.status) for one in delivery.answers] == [("accepted", 200)], found
    assert [one.user_id for one in operator.call("searchDeliveries", state="accepted").data.deliveries].count("kate") == 1
    assert operator.call("searchDeliveries", reason="NobodySaysSo").data.deliveries == []

    seen = operator.call("getUser", user_id="kate").data
    [device] = seen.device_tokens
    assert (seen.user_id, seen.badge.count, seen.badge.unread_count) == ("kate", 1, 1), seen
    assert (device.token, device.told_count, device.in_flight, device.next_push_at) == (LOOKED_AT_TOKEN[-6:], 1, False, None), device
    inbox = operator.call("listNotificationsOfUser", user_id="kate").data
    assert inbox.next_cursor is None and [(one.id, one.category, one.read_at) for one in inbox.notifications] == [(made.id, "SEEN", None)], inbox

    refusal(404, "not_found", operator, "getUser", user_id="nobody-at-all")
    refusal(403, "forbidden", world.producer, "getOverview")


# --- problems

def test_problems_are_typed(world):
    reader, producer = world.reader("ivan"), world.producer
    unauthorized = refusal(401, "unauthorized", world.connect("no token"), "getBadge")
    assert unauthorized.headers["WWW-Authenticate"].startswith("Bearer"), unauthorized.headers
    refusal(403, "forbidden", producer, "getBadge")
    refusal(404, "not_found", reader, "updateNotification", id=UNKNOWN, body=reader.model("ReadChange", read=True))
    refusal(404, "not_found", producer, "listDeliveries", id=UNKNOWN)
    refusal(414, "uri_too_long", reader, "listNotifications", category="x" * 5000)
    refusal(400, "malformed_request", world.connect(world.token("ivan"), access_token=world.token("ivan")), "streamBadge")
    # A quotation mark is two bytes of JSON, so this is within the schema and over 256 KiB.
    many = producer.model("NotificationForUsers", user_ids=['"' * 255] * 520, title="Hello")
    refusal(413, "body_too_large", producer, "createNotification", body=many)
    many = producer.model("NotificationForUsers", user_ids=[f"user-{number}" for number in range(101)], title="Hello")
    refusal(422, "idempotency_key_required", producer, "createNotification", body=many)
    reserved = producer.model("NotificationForUser", user_id="ivan", title="Hello", data={"aps": "mine"})
    invalid = refusal(422, "invalid", producer, "createNotification", body=reserved).problem
    [wrong] = invalid.to_dict()["errors"]
    assert (wrong["field"], wrong["code"], invalid.errors[0].code) == ("data.aps", "reserved", "reserved"), invalid
    assert wrong["message"] and invalid.detail and invalid.title, invalid


def two_at_once(world, key):
    """Two equal requests while another program keeps the server from writing, so that the first of them waits: the future that was done
    meanwhile, and the other."""
    def send():
        producer = world.connect(world.key)
        body = producer.model("NotificationForUser", user_id="judy", title="Hello")
        return producer.call("createNotification", body=body, idempotency_key=key)

    with concurrent.futures.ThreadPoolExecutor() as pool, stores.held(world.database):
        both = [pool.submit(send) for _ in range(2)]
        done, _ = concurrent.futures.wait(both, return_when=concurrent.futures.FIRST_COMPLETED)
    return sorted(both, key=lambda one: one not in done)


def test_a_conflict_is_typed(world):
    for number in range(5):
        refused, other = two_at_once(world, f"judy-{number}")
        assert isinstance(refused.exception(), Refused), refused
        # On a machine so slow that the first was given up before the second came, they didn't meet.
        if 503 not in (refused.exception().status, getattr(other.exception(), "status", None)):
            break
    check_problem(refused.exception(), 409, "idempotency_conflict", "createNotification")
    assert other.result().status == 201, other.result()


def test_every_problem_has_its_type(world):
    if not hasattr(world.kind, "every_problem_has_its_type"):
        pytest.skip("what it shows is openapi-python-client's own")
    world.kind.every_problem_has_its_type(world)


def test_the_client_in_ruby_makes_the_same_calls(request, binary):
    if request.config.getoption("generator") != "openapi-generator":
        pytest.skip("openapi-python-client makes none")
    if not shutil.which("ruby"):
        pytest.exit("missing programs: apt-get install ruby", 2)
    with served(request, binary) as (world, source):
        printed, status = ruby(source, world)
    calls = re.findall('^calls "(.*)" do', pathlib.Path(__file__).with_suffix(".rb").read_text(encoding="utf-8"), re.MULTILINE)
    assert calls and re.findall("^passed  (.*)", printed, re.MULTILINE) == calls and status == 0, printed
