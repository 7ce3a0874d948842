"""What came of a notification at the strict simulator, for payloads.py: held to the request, and Android's part to what Google's discovery
document says (fcm_discovery.json).
"""
import json
import pathlib
import re
import time

from e2e.contract.payload_requests import ABSENT, get

ELLIPSIS = "…"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LIMIT = 4_096
# A push that isn't there when nothing has come for so long is missing.
PATIENCE_SECONDS = 30
# The device of a push: its service, its platform and how it is named.
APNS, FCM_IOS, ANDROID, INSTALLATION = DEVICES = [
    ("apns", "ios", "token"), ("fcm", "ios", "token"), ("fcm", "android", "token"), ("fcm", "android", "fid")]
# Field of the request: its place in iOS' payload (`headers.` for a header), in FCM's message, and in that of an app that draws by itself,
# whose `data.alert` stands here as `alert`.
PLACES = [
    ("title", "aps.alert.title", "notification.title", "alert.title"), ("subtitle", "aps.alert.subtitle", None, "alert.subtitle"),
    *((f"loc.{ours}", f"aps.alert.{ios}", f"android.notification.{android}", f"alert.loc.{ours}") for ours, ios, android in [
        ("title_key", "title-loc-key", "title_loc_key"), ("title_args", "title-loc-args", "title_loc_args"),
        ("body_key", "loc-key", "body_loc_key"), ("body_args", "loc-args", "body_loc_args")]),
    ("category", "category", "data.category", "data.category"), ("deep_link", "deepLink", "data.deepLink", "data.deepLink"),
    ("collapse_key", "headers.apns-collapse-id", "android.collapse_key", "android.collapse_key"),
    ("collapse_key", None, "android.notification.tag", "alert.collapse_key"),
    ("sound", "aps.sound", "android.notification.sound", "alert.sound"), ("thread_id", "aps.thread-id", None, "alert.thread_id"),
    ("image_url", "imageURL", None, None), ("interruption_level", "aps.interruption-level", None, None),
    ("relevance_score", "aps.relevance-score", None, None), ("buttons", "aps.category", None, "alert.buttons"),
    ("priority", None, "android.priority", "android.priority"),
    ("android.channel_id", None, "android.notification.channel_id", "alert.channel_id"),
    ("android.color", None, "android.notification.color", "alert.color"), ("android.icon", None, "android.notification.icon", "alert.icon"),
    ("android.image_url", None, "android.notification.image", "alert.image_url"),
    ("android.visibility", None, None, "alert.visibility"),
]
DISCOVERY = json.loads(pathlib.Path(__file__).with_name("fcm_discovery.json").read_text(encoding="utf-8"))["schemas"]
FORMATS = {
    "google-duration": re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?s"),
    "google-datetime": re.compile(r"(?!0000)\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)"),
}
TYPES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list, "object": dict}


# --- Google's discovery document

def complaints(value, schema, place):
    """What the discovery document says against a value."""
    schema = DISCOVERY[schema["$ref"]] if "$ref" in schema else schema
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or isinstance(value, bool) and kind != "boolean":
        return [f"{place} is no {kind}: {value!r}"]
    if kind == "array":
        return [one for number, item in enumerate(value) for one in complaints(item, schema["items"], f"{place}[{number}]")]
    if kind == "object":
        return _of_object(value, schema, place)
    said, wrong = schema.get("description", ""), []
    # Of the priority it says that the words are written small.
    if "enum" in schema and (value.upper() if '"normal"' in said else value) not in schema["enum"]:
        wrong.append(f"{place} is none of {schema['enum']}: {value!r}")
    if schema.get("format") in FORMATS and not FORMATS[schema["format"]].fullmatch(value):
        wrong.append(f"{place} is no {schema['format']}: {value!r}")
    if "#rrggbb" in said and not re.fullmatch("#[0-9a-fA-F]{6}", value):
        wrong.append(f"{place} is no #rrggbb: {value!r}")
    if "4 weeks" in said and not wrong and float(value[:-1]) > 4 * 7 * 24 * 3600:
        wrong.append(f"{place} is longer than four weeks: {value!r}")
    if "[0, 1]" in said and not 0 <= value <= 1:
        wrong.append(f"{place} isn't in [0, 1]: {value!r}")
    return wrong


def _of_object(value, schema, place):
    wrong, names = [], {re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name): one for name, one in schema.get("properties", {}).items()}
    for key, item in value.items():
        child = names.get(key) or schema.get("additionalProperties")
        wrong += complaints(item, child, f"{place}.{key}") if child else [f"{place}.{key} isn't known"]
    missing = [name for name, one in names.items() if one.get("description", "").startswith("Required.") and name not in value]
    return wrong + [f"{place}.{name} is missing" for name in missing]


def android_complaints(config):
    return complaints(config, {"$ref": "AndroidConfig"}, "android")


# --- pushes

class Push:
    """An alert as it arrived. `text` is its body to the letter."""

    def __init__(self, row):
        self.status, self.reason, self.text = row["status"], row["explanation"] or row["reason"], row["payload"]
        self.headers = {name: value for name, value in row["headers"] if name.startswith("apns-")}
        self.whole = json.loads(self.text)
        message = self.whole.get("message", {})
        named = "fid" if "fid" in message else "token"
        self.token = message.get(named) or row["path"].rpartition("/")[2]
        is_android = "android" in message or "apns" not in message
        self.device = ("apns", "ios", "token") if row["service"] == "apns" else ("fcm", "android" if is_android else "ios", named)
        apns = message.get("apns", {})
        self.ios = None if self.device[1] == "android" else self.whole if self.device == APNS else apns.get("payload", {})
        self.message = message if self.ios is None else None
        self.id = (message.get("data", {}) if self.ios is None else self.ios).get("id")
        if self.ios is not None:
            self.seen = {**self.ios, "headers": self.headers if self.device == APNS else apns.get("headers", {})}
        else:
            self.seen = {**message, "alert": json.loads(message.get("data", {}).get("alert", "null"))}

    @property
    def size(self):
        """The bytes that count: without FCM's token."""
        return len(self.text.encode()) - (len(self.token.encode()) if self.device != APNS else 0)

    @property
    def body(self):
        alert = self.ios["aps"]["alert"] if self.ios is not None else self.seen["alert"] or self.message.get("notification", {})
        return alert.get("body", "")


class Arrivals:
    """Reads along what the simulator adds to its file."""

    def __init__(self, simulator):
        self.simulator, self.rest, self.pushes, self.refused = simulator, b"", {}, []
        self.file = open(simulator.record, "rb")

    def read(self):
        """How many alerts came. What was refused is kept, and of badges nothing else."""
        lines = (self.rest + self.file.read()).split(b"\n")
        self.rest, count = lines.pop(), 0
        for line in lines:
            row = json.loads(line)
            if row["status"] != 200:
                self.refused.append(row)
            if row["service"] == "token":
                continue
            push = Push(row)
            if push.id:
                self.pushes.setdefault(push.id, []).append(push)
                count += 1
        return count

    def wait_for(self, wanted, patience=PATIENCE_SECONDS):
        """Until each of these came to so many devices: notification → count. What isn't there when nothing comes any more stays missing."""
        deadline = time.monotonic() + patience
        while any(len(self.pushes.get(one, [])) < count for one, count in wanted.items()) and time.monotonic() < deadline:
            if self.read():
                deadline = time.monotonic() + patience
            time.sleep(0.02)

    def take(self, identifier):
        return self.pushes.pop(identifier, [])


def holds(part, whole):
    """Whether all of the one is in the other."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and holds(value, whole[key]) for key, value in part.items())
    return part == whole and isinstance(part, bool) == isinstance(whole, bool)


def is_cut(body, sent):
    """Whether one is the other, or its beginning with an ellipsis."""
    return sent == body or sent == "" or sent.endswith(ELLIPSIS) and body.startswith(sent.removesuffix(ELLIPSIS))


def differences(request, push):
    """What of the request isn't in the push as it should be."""
    draws = get(request, "android.display") == "app"
    column = 1 if push.ios is not None else 3 if draws else 2
    for row in PLACES:
        value, place = get(request, row[0]), row[column]
        if value is ABSENT or value is None or place is None:
            continue
        if get(push.seen, place) != value:
            yield f"{row[0]} isn't at {place}"
    body = request.get("body") or ""
    if get(request, "apns.aps.alert.body") is ABSENT or push.ios is None:
        if not is_cut(body, push.body):
            yield "the body is another"
        if push.body != body and push.size < LIMIT - 1_000:
            yield f"the body is cut, and the push has {push.size} bytes"
    for key, value in (request.get("data") or {}).items():
        found = (push.ios if push.ios is not None else push.message["data"]).get(key, ABSENT)
        if found != value if push.ios is not None or isinstance(value, str) else not isinstance(found, str):
            yield f"data.{key} is {found!r}"
    overlay, under = (request.get("apns"), push.ios) if push.ios is not None else (request.get("fcm"), push.message["android"])
    if not holds(overlay or {}, under):
        yield "the overlay isn't in it"
    if push.ios is not None and push.seen["headers"]["apns-priority"] != ("5" if request.get("priority") == "normal" else "10"):
        yield "apns-priority is another"
    if push.size > LIMIT:
        yield f"it has {push.size} bytes"
    if (push.ios is None and draws) != bool(push.seen.get("alert")) and push.ios is None:
        yield "data.alert is there, or isn't, against android.display"


# --- dry runs

def pushes_of(text):
    """What a dry run shows: (device, headers, text of the payload to the letter)."""
    decoder, place, found = json.JSONDecoder(), text.index("[") + 1, []
    while text[place] != "]":
        begin, members = place, {}
        place += 1
        while text[place] != "}":
            name, place = decoder.raw_decode(text, place + (text[place] == ","))
            first = place + 1
            members[name], place = decoder.raw_decode(text, first)
            if name == "payload":
                payload = text[first:place]
        assert begin < place
        named = "fid" if "fid" in members["payload"].get("message", {}) else "token"
        found.append(((members["provider"], members["platform"], named), members["headers"], payload))
        place += 1
        place += text[place] == ","
    return found


def plain(text):
    """Without ids, times, versions and the token."""
    text = UUID.sub("<id>", text)
    text = re.sub(r'"badgeVersion":"?\d+"?', '"badgeVersion":0', text)
    text = re.sub(r'^\{"message":\{"(token|fid)":"[^"]*"', r'{"message":{"\1":""', text)
    text = re.sub(r'"apns-expiration":"\d+"', '"apns-expiration":""', text)
    return re.sub(r'"android":\{("priority":"(?:high|normal)",(?:"collapse_key":"(?:[^"\\]|\\.)*",)?)"ttl":"\d+s"', r'"android":{\1"ttl":""', text)


def plain_headers(headers):
    return {name: "" if name == "apns-expiration" else UUID.sub("<id>", value) for name, value in headers.items()}
