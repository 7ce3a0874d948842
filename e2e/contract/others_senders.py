"""Senders that nobody here wrote, against `campanile simulator` as it is by default: what Apple and Google take, it takes.

aioapns (which names no protocol in TLS), a client of h2 that signs as Apple's sample and apnotic do, firebase-admin over
HTTP/1.1 and over HTTP/2, and google-auth by itself. Then the same at `--strict`, which turns away what Campanile never
does.
"""
import asyncio
import base64
import contextlib
import datetime
import json
import os
import pathlib
import socket
import ssl
import time
import uuid
from unittest import mock

import firebase_admin
import h2.config
import h2.connection
import h2.events
import pytest
from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsDevelopmentClientProtocol, APNsProductionClientProtocol
from aioapns.exceptions import MaxAttemptsExceeded
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from firebase_admin import credentials, exceptions, messaging
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from google.oauth2 import service_account

from e2e.harness import Simulator, temporary_folder

ONE, OTHER, SHORT = "a1" * 32, "b2" * 32, "a1" * 16
ALERT = {"aps": {"alert": {"title": "Hello", "body": "World"}, "badge": 3, "sound": "default"}}
AT_ONCE = 200
SECONDS = 120
GOOGLE = "https://www.googleapis.com/auth/"

# firebase-admin would rather have `fid` than `token`.
pytestmark = pytest.mark.filterwarnings("ignore")


class World:
    """A simulator, and its files as Apple and Google would have handed them out."""

    def __init__(self, simulator):
        self.simulator = simulator
        keys = pathlib.Path(self.simulator.folder)
        self.names = json.loads((keys / "simulator.json").read_text())
        self.key = (keys / f"AuthKey_{self.names['key_id']}.p8").read_text()
        self.account = json.loads((keys / "service-account.json").read_text())
        self.authority = str(keys / "simulator-ca.pem")
        self.url = f"https://127.0.0.1:{self.simulator.port}"
        self.send_url = f"{self.url}/v1/projects/{self.account['project_id']}/messages:send"

    def phone(self, token):
        return self.simulator.call("GET", f"/devices/{token}")

    def gone(self, token):
        self.simulator.call("POST", f"/devices/{token}", {"state": "gone", "gone_since_ms": 1_700_000_000_123})

    def newest(self):
        return self.simulator.call("GET", "/requests?limit=1")["requests"][0]

    def faults(self, *rules):
        self.simulator.set_faults(list(rules))


@contextlib.contextmanager
def simulating(binary, strict):
    with temporary_folder("campanile-senders-") as folder:
        simulator = Simulator(binary, folder, 1, strict=strict)
        world = World(simulator)
        try:
            # requests and httpx trust these instead of the system's authorities.
            with mock.patch.dict(os.environ, REQUESTS_CA_BUNDLE=world.authority, SSL_CERT_FILE=world.authority):
                yield world
        finally:
            simulator.process.kill()
            simulator.process.wait()


@pytest.fixture
def world(binary):
    with simulating(binary, strict=False) as world:
        yield world


@pytest.fixture
def strict_world(binary):
    with simulating(binary, strict=True) as world:
        yield world


# --- aioapns

@contextlib.contextmanager
def apple_is_here(simulator):
    """Every name is this machine, and aioapns' port the simulator's."""
    real = socket.getaddrinfo
    socket.getaddrinfo = lambda host, *rest, **more: real("127.0.0.1", *rest, **more)
    for protocol in (APNsProductionClientProtocol, APNsDevelopmentClientProtocol):
        protocol.APNS_PORT = simulator.port
    try:
        yield
    finally:
        socket.getaddrinfo = real


def aioapns(world, *requests, sandbox=False, first=1, attempts=5):
    """Sends the first by itself, as Apple asks for, and the others at once. Gives the results."""
    trust = ssl.create_default_context(cafile=world.authority)
    trust.check_hostname = False    # the name is Apple's, and the certificate is not

    async def send():
        client = APNs(key=world.key, key_id=world.names["key_id"], team_id=world.names["team_id"],
                      topic=world.names["topic"], use_sandbox=sandbox, max_connections=1, ssl_context=trust,
                      max_connection_attempts=attempts)
        found = [await client.send_notification(one) for one in requests[:first]]
        await asyncio.sleep(0.2)    # the new stream limit arrives
        found += await asyncio.gather(*(client.send_notification(one) for one in requests[first:]))
        client.pool.close()
        return found

    with apple_is_here(world.simulator):
        return asyncio.run(asyncio.wait_for(send(), SECONDS))


def test_aioapns_pushes_with_and_without_a_push_type(world):
    results = aioapns(
        world, NotificationRequest(ONE, ALERT),
        NotificationRequest(ONE, {"aps": {"badge": 4}}, push_type=PushType.ALERT, collapse_key="c", time_to_live=60),
        NotificationRequest(OTHER, {"aps": {"content-available": 1}}, push_type=PushType.BACKGROUND, priority=5))
    assert [one.status for one in results] == ["200"] * 3, [vars(one) for one in results]
    phone = world.phone(ONE)
    assert (phone["badge"], phone["environment"]) == (4, "production"), phone
    assert [one["title"] for one in phone["notifications"]] == ["Hello"], phone
    assert world.phone(OTHER)["wakes"] == 1


def test_aioapns_sends_many_at_once(world):
    requests = [NotificationRequest(f"{number:064x}", ALERT, priority=10) for number in range(AT_ONCE)]
    results = aioapns(world, *requests)
    assert all(one.is_successful for one in results), {one.description for one in results}
    counters = world.simulator.counters()
    assert (counters["accepted"], counters["stream_limit_violations"]) == (AT_ONCE, 0), counters


def test_aioapns_hears_why_a_push_is_refused(world):
    world.gone(OTHER)
    results = aioapns(world, NotificationRequest(SHORT, ALERT), NotificationRequest(OTHER, ALERT),
                      NotificationRequest(ONE, {"aps": {"alert": "x" * 4096}}), first=3)
    said = [(one.status, one.description) for one in results]
    assert said == [("400", "BadDeviceToken"), ("410", "Unregistered"), ("413", "PayloadTooLarge")], said
    assert results[1].timestamp == 1_700_000_000_123, results[1].timestamp


def test_aioapns_reaches_the_sandbox_by_apples_name(world):
    assert aioapns(world, NotificationRequest(ONE, ALERT), sandbox=True)[0].is_successful
    assert world.phone(ONE)["environment"] == "sandbox"


# --- h2 without ALPN, with a token signed as Apple's sample signs it

def der_token(world):
    def encoded(raw):
        return base64.urlsafe_b64encode(raw).rstrip(b"=")
    signed = encoded(json.dumps({"alg": "ES256", "kid": world.names["key_id"]}).encode()) + b"." + encoded(
        json.dumps({"iss": world.names["team_id"], "iat": int(time.time())}).encode())
    key = serialization.load_pem_private_key(world.key.encode(), None)
    return (signed + b"." + encoded(key.sign(signed, ec.ECDSA(hashes.SHA256())))).decode()


def over_h2(world, authority):
    """One push; gives the answer's fields. HTTP/2 is known beforehand, and TLS isn't asked for it."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    trust = ssl.create_default_context(cafile=world.authority)
    body = json.dumps(ALERT).encode()
    plain = socket.create_connection(("127.0.0.1", world.simulator.port), SECONDS)
    with trust.wrap_socket(plain, server_hostname="127.0.0.1") as wire:
        assert wire.selected_alpn_protocol() is None
        connection.initiate_connection()
        connection.send_headers(1, [
            (":method", "POST"), (":scheme", "https"), (":authority", authority), (":path", f"/3/device/{ONE}"),
            ("authorization", f"Bearer {der_token(world)}"), ("apns-topic", world.names["topic"]),
            ("apns-id", str(uuid.uuid4()))])
        connection.send_data(1, body, end_stream=True)
        fields = None
        while fields is None:
            wire.sendall(connection.data_to_send())
            received = wire.recv(65_536)
            if not received:
                raise ConnectionError("the simulator closed the connection")
            for event in connection.receive_data(received):
                if isinstance(event, h2.events.ResponseReceived):
                    fields = dict(event.headers)
    return fields


def test_h2_without_alpn_and_a_der_signature_is_served(world):
    fields = over_h2(world, "api.push.apple.com")
    assert fields[":status"] == "200" and "apns-unique-id" not in fields, fields


def test_h2_hears_the_sandboxes_unique_id(world):
    fields = over_h2(world, "api.sandbox.push.apple.com")
    assert fields[":status"] == "200" and uuid.UUID(fields["apns-unique-id"]), fields


# --- firebase-admin

@contextlib.contextmanager
def firebase(world):
    messaging._MessagingService.FCM_URL = world.url + "/v1/projects/{0}/messages:send"
    app = firebase_admin.initialize_app(credentials.Certificate(world.account), name=str(uuid.uuid4()))
    try:
        yield app
    finally:
        # It wants to close in a new event loop what another one opened.
        with contextlib.suppress(RuntimeError):
            firebase_admin.delete_app(app)


def android(token, title="Hello", **more):
    return messaging.Message(token=token, notification=messaging.Notification(title=title, body="World"), **more)


def test_firebase_admin_pushes_over_http1(world):
    config = messaging.AndroidConfig(
        collapse_key="c", priority="high", ttl=3600, direct_boot_ok=True,
        notification=messaging.AndroidNotification(
            tag="t", channel_id="news", notification_count=4, color="#aabbcc", vibrate_timings_millis=[100, 200],
            visibility="private", priority="high", event_timestamp=datetime.datetime.now(datetime.UTC),
            light_settings=messaging.LightSettings("#aabbccdd", 100, 200)))
    with firebase(world) as app:
        name = messaging.send(android("device-1", data={"id": "n1"}, android=config), app=app)
        assert name.startswith(f"projects/{world.account['project_id']}/messages/"), name
        messaging.send(messaging.Message(token="device-2", apns=messaging.APNSConfig(
            headers={"apns-priority": "5"}, payload=messaging.APNSPayload(messaging.Aps(badge=7)))), app=app)
        messaging.send(messaging.Message(fid="device-3", data={"type": "badge", "count": "2"}), app=app)
        messaging.send(android("device-4"), dry_run=True, app=app)
    phone = world.phone("device-1")
    assert (phone["platform"], phone["badge"], phone["notifications"][0]["title"]) == ("android", 4, "Hello"), phone
    assert (world.phone("device-2")["platform"], world.phone("device-2")["badge"]) == ("ios", 7)
    assert world.phone("device-3")["badge"] == 2
    assert len(world.simulator.phones()) == 3
    assert world.simulator.counters()["requests_by_service"] == {"fcm": 4, "token": 1}, world.simulator.counters()
    assert dict(world.newest()["headers"])["host"] == f"127.0.0.1:{world.simulator.port}", "this was not HTTP/1.1"


def test_firebase_admin_sends_many_at_once_over_both_protocols(world):
    messages = [android(f"device-{number}") for number in range(AT_ONCE)]
    with firebase(world) as app:
        assert messaging.send_each(messages, app=app).success_count == AT_ONCE
        http1 = world.newest()
        answer = asyncio.run(asyncio.wait_for(messaging.send_each_async(messages, app=app), SECONDS))
        assert answer.success_count == AT_ONCE, [str(one.exception) for one in answer.responses if one.exception][:3]
    assert "host" in dict(http1["headers"]) and "host" not in dict(world.newest()["headers"])
    counters = world.simulator.counters()
    assert (list(counters["answers"]), counters["accepted"], counters["stream_limit_violations"]) == (
        ["200"], 2 * AT_ONCE, 0), counters


def test_firebase_admin_hears_why_a_push_is_refused(world):
    wanted = [("QUOTA_EXCEEDED", messaging.QuotaExceededError), ("SENDER_ID_MISMATCH", messaging.SenderIdMismatchError),
              ("THIRD_PARTY_AUTH_ERROR", messaging.ThirdPartyAuthError),
              ("INVALID_ARGUMENT", exceptions.InvalidArgumentError)]
    with firebase(world) as app:
        messaging.send(android("device-1"), app=app)
        for reason, kind in wanted:
            world.faults({"match": {"service": "fcm"}, "action": {"type": "status", "reason": reason}})
            with pytest.raises(kind):
                messaging.send(android("device-1"), app=app)
        world.faults({"match": {"service": "fcm"}, "times": 1, "action": {"type": "close"}})
        messaging.send(android("device-1"), app=app)    # it tries again by itself
        world.gone("device-1")
        with pytest.raises(messaging.UnregisteredError):
            messaging.send(android("device-1"), app=app)


# --- google-auth by itself, as a client made from Google's own description of FCM writes JSON

def google_auth(world, scopes, message):
    account = service_account.Credentials.from_service_account_info(world.account, scopes=scopes)
    return AuthorizedSession(account).post(world.send_url, json={"message": message}, timeout=SECONDS)


def test_google_auth_pushes_with_either_scope_and_camel_case(world):
    for scopes in ([GOOGLE + "cloud-platform"], [GOOGLE + "firebase.messaging"]):
        answer = google_auth(world, scopes, {"token": "device-1", "notification": {"title": "Hello"}, "android": {
            "collapseKey": "c", "notification": {"notificationCount": 5, "channelId": "news"}}})
        assert answer.status_code == 200, answer.text
        assert answer.raw.version == 11, answer.raw.version
    assert world.phone("device-1")["badge"] == 5
    with pytest.raises(GoogleAuthError):
        google_auth(world, [GOOGLE + "userinfo.email"], {"token": "device-1"})


# --- the strict simulator

def test_strict_turns_away_what_campanile_never_does(strict_world):
    with pytest.raises((MaxAttemptsExceeded, asyncio.TimeoutError, OSError)):
        aioapns(strict_world, NotificationRequest(ONE, ALERT), attempts=1)
    with pytest.raises((ConnectionError, ssl.SSLError)):
        over_h2(strict_world, "api.push.apple.com")
    with firebase(strict_world) as app, pytest.raises((GoogleAuthError, exceptions.FirebaseError)):
        messaging.send(android("device-1"), app=app)
    assert strict_world.simulator.counters()["requests"] == 0, strict_world.simulator.counters()
