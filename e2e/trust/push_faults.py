"""The faults of the simulator, each with what has to come of a push that meets it.

Every fault has a group of devices to itself, told by the first two digits of their tokens, so that a request's fault
says which it was. All groups share the connections: what breaks one meets the others' pushes as well.
"""
from dataclasses import dataclass

KINDS = ("alert", "clearing")

AGAIN = "accepted"       # comes again until it is accepted
REFUSED = "rejected"     # refused for good
DEAD = "gone"            # the device token is dead


@dataclass(frozen=True)
class Fault:
    """`apns`, `fcm`: the simulator's action at each service; None: there is no such fault there."""
    name: str
    apns: dict | None
    fcm: dict | None
    ends: str = AGAIN
    applied: bool = False    # the phone gets the push all the same
    answered: bool = True    # the sender learns what became of it
    share: int = 5           # per cent of the group's pushes
    times: int | None = None  # for each service and kind, whatever the length of the run
    short: int | None = None  # the same in the short form
    kinds: tuple = KINDS
    short_service: str | None = None   # the only one that has it in the short form: two such faults in a row take 40 s

    def action(self, service):
        return self.apns if service == "apns" else self.fcm


def status(reason, code=None, **more):
    return {"type": "status", "reason": reason, **({"status": code} if code else {}), **more}


def both(kind, **more):
    return {"apns": {"type": kind, **more}, "fcm": {"type": kind, **more}}


def one(name, apns, fcm, **more):
    return Fault(name, apns, fcm, **more)


def alike(name, kind, action=None, **more):
    return Fault(name, **both(kind, **(action or {})), **more)


FAULTS = [
    # --- answers of the tables
    one("429, with Retry-After", status("TooManyRequests", retry_after=1), status("QUOTA_EXCEEDED", retry_after=1)),
    one("500", status("InternalServerError"), status("INTERNAL")),
    one("503, with Retry-After", status("ServiceUnavailable", retry_after=1), status("UNAVAILABLE", retry_after=1)),
    one("503 Shutdown", status("Shutdown"), None, share=1, short=2),
    one("500 to a push that arrived", status("InternalServerError", applied=True), status("INTERNAL", applied=True),
        applied=True, answered=False),
    one("400 IdleTimeout", status("IdleTimeout"), None, share=1, short=2),
    one("the credential refused", status("InvalidProviderToken"), status("UNAUTHENTICATED", 401), share=1),
    one("the credential expired", status("ExpiredProviderToken"), None, share=1),
    one("403 UnrelatedKeyIdInToken", status("UnrelatedKeyIdInToken"), None, share=1, short=2),
    one("403 of the app", status("BadEnvironmentKeyInToken"), status("PERMISSION_DENIED", 403), share=1),
    one("topic or project wrong", status("BadTopic"), status("NOT_FOUND", 404), share=1),
    one("third-party credential", None, status("THIRD_PARTY_AUTH_ERROR"), share=1),
    one("refused for good", status("PayloadTooLarge"), status("INVALID_ARGUMENT"), ends=REFUSED),
    one("refused for good, another", status("BadCollapseId"), None, ends=REFUSED),
    one("410 older than the registration", status("Unregistered", timestamp_ms=1_000_000_000), None),
    # So few that the app's tokens are not believed to die in masses.
    one("the token dead", status("Unregistered"), status("UNREGISTERED"), ends=DEAD, times=1, short=1),
    one("400 BadDeviceToken", status("BadDeviceToken"), None, ends=DEAD, times=1, short=1),
    one("token of another app", status("DeviceTokenNotForTopic"), status("SENDER_ID_MISMATCH"), ends=DEAD, times=1,
        short=1, kinds=("alert",)),
    alike("answer 503 of an outage", "outage"),
    # --- connections and streams
    alike("GOAWAY, all processed", "goaway", {"last": "all"}, applied=True, share=1, short=2),
    alike("GOAWAY, this one processed", "goaway", {"last": "present"}, applied=True, share=1, short=2),
    alike("GOAWAY, the last three not processed", "goaway", {"last": "older", "by": 3}, share=1, short=2),
    alike("REFUSED_STREAM", "refused_stream"),
    alike("SETTINGS: one stream for 20 requests", "settings", {"max_concurrent_streams": 1, "requests": 20},
          applied=True, share=1, short=2),
    alike("silence, not arrived", "silence", {"applied": False}, answered=False, share=1, times=20, short=1,
          short_service="apns"),
    alike("silence, arrived", "silence", {"applied": True}, applied=True, answered=False, share=1, times=20, short=1,
          short_service="fcm"),
    alike("half-open, not arrived", "half_open", {"applied": False}, answered=False, share=1, times=3, short=1,
          kinds=("alert",), short_service="apns"),
    alike("half-open, arrived", "half_open", {"applied": True}, applied=True, answered=False, share=1, times=3, short=1,
          kinds=("clearing",), short_service="fcm"),
    alike("closed, not arrived", "close", {"applied": False}, answered=False, share=1, short=1),
    alike("closed, arrived", "close", {"applied": True}, applied=True, answered=False, share=1, short=1),
    alike("RST_STREAM, not arrived", "reset_stream", {"code": 2, "applied": False}, answered=False),
    alike("RST_STREAM, arrived", "reset_stream", {"code": 8, "applied": True}, applied=True, answered=False),
    alike("certificate changed", "certificate", {"change": "leaf"}, applied=True, share=1, times=5, short=1),
    # --- answers that are odd or slow
    alike("trickle", "trickle", {"gap_ms": 5}, applied=True),
    alike("broken JSON, 200", "broken_json", applied=True),
    alike("broken JSON, 500", "broken_json", {"status": 500}),
    alike("1 MB in the body, 200", "oversized_body", {"bytes": 1 << 20, "status": 200}, applied=True, share=1),
    alike("1 MB in the body, 500", "oversized_body", {"bytes": 1 << 20, "status": 500}, share=1),
    alike("latency 100–400 ms", "latency", {"from_ms": 100, "to_ms": 400}, applied=True),
]


def prefix(number):
    return f"{number:02x}"


NOTHING = Fault("nothing", None, None)


def group(token):
    """The fault that a token may meet."""
    number = int(token[:2], 16)
    return FAULTS[number] if number < len(FAULTS) else NOTHING


def for_service(service):
    """Numbers of the faults that there are at a service."""
    return [number for number, fault in enumerate(FAULTS) if fault.action(service) is not None]


def rules(is_short):
    """For POST /faults. In the short form there are few pushes, so every third of a group meets its fault."""
    found = []
    for number, fault in enumerate(FAULTS):
        for service in ("apns", "fcm"):
            if fault.action(service) is None or is_short and fault.short_service not in (None, service):
                continue
            for kind in fault.kinds:
                times = fault.short if is_short else fault.times
                found.append({
                    "match": {"service": service, "token_prefix": prefix(number), "kind": kind},
                    "every": 3 if is_short else 100 // fault.share, "action": fault.action(service),
                    **({"times": times} if times else {})})
    return found
