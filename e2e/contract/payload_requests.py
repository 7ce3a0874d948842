"""Requests to POST /notifications at random, made of the schema that openapi.yaml has of their body, and the rules that no schema can say
(docs/payload.md). What payloads.py sends.
"""
import random
import re
from dataclasses import dataclass
from re import _constants as codes
from re import _parser

from e2e.contract.openapi_document import resolve

# Both can't be given: the field, and the overlay's key that it becomes.
EXCLUSIVE = [
    ("body", "apns.aps.alert.body"), ("body", "fcm.notification.body"), ("subtitle", "apns.aps.alert.subtitle"),
    ("loc.title_key", "apns.aps.alert.title-loc-key"), ("loc.title_key", "fcm.notification.title_loc_key"),
    ("loc.title_args", "apns.aps.alert.title-loc-args"), ("loc.title_args", "fcm.notification.title_loc_args"),
    ("loc.body_key", "apns.aps.alert.loc-key"), ("loc.body_key", "fcm.notification.body_loc_key"),
    ("loc.body_args", "apns.aps.alert.loc-args"), ("loc.body_args", "fcm.notification.body_loc_args"),
    ("sound", "apns.aps.sound"), ("sound", "fcm.notification.sound"), ("thread_id", "apns.aps.thread-id"),
    ("buttons", "apns.aps.category"), ("interruption_level", "apns.aps.interruption-level"),
    ("relevance_score", "apns.aps.relevance-score"), ("image_url", "apns.imageURL"), ("image_url", "apns.aps.mutable-content"),
    ("image_url", "fcm.notification.image"),
    ("android.image_url", "fcm.notification.image"), ("priority", "fcm.priority"), ("ttl", "fcm.ttl"), ("expires_at", "fcm.ttl"),
    ("collapse_key", "fcm.collapse_key"), ("android.channel_id", "fcm.notification.channel_id"),
    ("android.color", "fcm.notification.color"), ("android.icon", "fcm.notification.icon"),
    ("android.visibility", "fcm.notification.visibility"), ("expires_at", "ttl"),
]
# The first needs one of the others.
NEEDS = [
    ("loc.title_args", ["loc.title_key"]), ("loc.body_args", ["loc.body_key"]),
    ("apns.aps.alert.title-loc-args", ["apns.aps.alert.title-loc-key", "loc.title_key"]),
    ("apns.aps.alert.subtitle-loc-args", ["apns.aps.alert.subtitle-loc-key"]),
    ("apns.aps.alert.loc-args", ["apns.aps.alert.loc-key", "loc.body_key"]),
    ("fcm.notification.title_loc_args", ["fcm.notification.title_loc_key", "loc.title_key"]),
    ("fcm.notification.body_loc_args", ["fcm.notification.body_loc_key", "loc.body_key"]),
]
# What can't be given at all, of what an overlay's schema leaves out.
RESERVED = [
    *("apns." + key for key in ("headers", "token", "id", "deepLink", "badgeVersion", "alert", "dismiss", "campanileReceipt", "google.x", "gcm")),
    *("apns.aps." + key for key in ("badge", "content-available", "stale-date", "content-state", "timestamp", "event", "attributes")),
    *("fcm." + key for key in ("data", "token", "fid", "headers", "notification.tag", "notification.notification_count")),
]
# Given with null they are left out; in a provider's keys null is what the producer wrote.
OURS = re.compile(r"(?!apns\.|fcm\.|data\.)")
KOREAN = "주문하신 상품이 출발했습니다 곧 도착해요 안녕하세요 가나다라마바사아자차카타파하 값을 읽었다"
EMOJI = ["😀", "🎉", "👩‍👩‍👧‍👦", "🇰🇷", "👍🏽", "❤️", "🏳️‍🌈", "𝄞"]
ESCAPES = ['"', "\\", "/", "\n", "\t", "\r", "\b", "\x01", "\x1f", "\x7f", "\u2028", "\\u0041", "</script>", "e\u0301", "\u202e", "\ufeff"]
ALPHABETS = [list("abcdefghijklmnopqrstuvwxyzABC 0123456789.,-_"), list(KOREAN), EMOJI, ESCAPES, [*"ab ", *KOREAN, *EMOJI, *ESCAPES]]
TIMES = ["2030-01-15T12:00:00Z", "2031-12-31T23:59:59.999Z", "2030-06-01T00:00:00.123456789Z", "2032-02-29T08:00:00+09:00",
         "2030-01-01T00:00:00-11:30", "9999-12-31T23:59:59Z"]
# Google's reader of times takes fewer forms than RFC 3339 has.
RARE_TIMES = ["2030-01-15t12:00:00z", "2016-12-31T23:59:60Z", "2030-01-15T12:00:00.123456789012Z"]
PAST = ["1970-01-01T00:00:00Z", "2001-02-03T04:05:06.7-08:00"]
ADDRESSES = ["https://img.example.com/a.png", "https://x", "https://cdn.example.com:8443/하늘/그림.jpg?w=1&h=%20#x", "https://img.example.com?a=b",
             'https://img.example.com/"quoted"/\\', "https://img.example.com/😀"]
LINKS = ["/", "orders/42", "/orders/42?tab=parcels", "/주문/42?q=%EA%B0%80#끝", "/a/" + "b" * 700, "/x?y=%2F", "?only=query"]
ABSENT = object()


def get(value, path):
    """What stands at the end of the path; ABSENT."""
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return ABSENT
        value = value[key]
    return value


def put(value, path, new):
    *above, last = path.split(".")
    for key in above:
        if not isinstance(value.get(key), dict):
            value[key] = {}
        value = value[key]
    value[last] = new


def drop(value, path):
    """Takes the key out, and objects that are empty without it."""
    key, _, rest = path.partition(".")
    if rest and isinstance(value.get(key), dict):
        drop(value[key], rest)
    if not rest or value.get(key) == {}:
        value.pop(key, None)


def given(request, path):
    """Whether the request gives it. `sound` null means silence, which is something."""
    value = get(request, path)
    return value is not ABSENT and (value is not None or path == "sound" or not OURS.match(path))


def broken_rules(request):
    """The rules that the request breaks: the keys that the server may name, of which it names one at least."""
    found = [{one, other} for one, other in EXCLUSIVE if given(request, one) and given(request, other)]
    found += [{one} for one, keys in NEEDS if given(request, one) and not any(given(request, key) for key in keys)]
    if get(request, "android.display") == "app" and given(request, "fcm.notification"):
        found.append({"fcm.notification"})
    for key in request.get("apns") or {}:
        if key != "aps" and key in (request.get("data") or {}):
            found.append({f"apns.{key}", f"data.{key}"})
    if given(request, "image_url") and get(request, "data.imageURL") is not ABSENT:
        found.append({"data.imageURL"})
    return found


def keep_rules(request, rng):
    """Takes out one of two keys that exclude each other, and what stands without what it needs."""
    while broken := broken_rules(request):
        drop(request, rng.choice(sorted(broken[0] - {"title"})))


@dataclass
class Mutation:
    """What was made wrong, and the fields of which the answer must name one, a field above it or one below it."""
    kind: str
    fields: list


class Requests:
    """`keys`: every key that the schema of a request for one user has."""

    def __init__(self, document, rng):
        self.document, self.rng = document, rng
        body = document["paths"]["/notifications"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        whole = next(one for one in map(self.resolved, body["oneOf"]) if "user_id" in one["required"])
        # A given number is no payload, and the server's app counts by itself: e2e/trust/given.py gives numbers.
        self.schema = {**whole, "properties": {key: one for key, one in whole["properties"].items() if key != "badge"}}
        self.keys = sorted({path for path, _ in self._below(self.schema, "")} - {"user_id", "user_ids"})
        self.patterns, self.names = {}, 0

    def resolved(self, schema):
        return resolve(schema, self.document)

    def _branches(self, schema):
        schema = self.resolved(schema)
        return [self.resolved(one) for one in schema["oneOf"]] if "oneOf" in schema else [schema]

    def _below(self, schema, path):
        """Every key, with its schema."""
        for branch in self._branches(schema):
            for key, child in branch.get("properties", {}).items():
                place = f"{path}.{key}" if path else key
                yield place, child
                yield from self._below(child, place)

    def _is_object(self, schema):
        return any("properties" in one for one in self._branches(schema))

    def schema_at(self, path):
        return dict(self._below(self.schema, "")).get(path)

    # --- values

    def request(self, user):
        """A request as the schema has it; now and then it breaks a rule that the schema can't say."""
        rng = self.rng
        found = self._object(self.schema, "", rng.choice([0.1, 0.25, 0.25, 0.5]))
        found["user_id"] = user
        found.pop("user_ids", None)
        if rng.random() < 0.04:
            # So large that the end of the body is cut, or too large.
            found |= {"body": self.words(2_048), "data": {"much": self.words(rng.randint(400, 1_900))}}
            if rng.random() < 0.3:
                found["apns"] = {**(found.get("apns") or {}), "more": self.words(rng.randint(400, 4_000))}
        if found.get("external_id") is not None:
            # No two notifications of a user have the same.
            self.names += 1
            found["external_id"] = fitted(f"{self.names} {found['external_id']}", min(255, len(found["external_id"].encode()) + 8))
        if rng.random() > 0.05:
            keep_rules(found, rng)
        return found

    def value(self, schema, path, share=0.3):
        rng = self.rng
        schema = rng.choice(self._branches(schema))
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "const" in schema:
            return schema["const"]
        if kinds == ["null"] or "null" in kinds and rng.random() < 0.04:
            return None
        if "enum" in schema:
            return rng.choice(schema["enum"])
        kind = rng.choice([one for one in kinds if one != "null"])
        if kind == "object":
            return self._object(schema, path, share)
        if kind == "array":
            most = schema.get("maxItems", 8)
            return [self.value(schema["items"], path) for _ in range(rng.choice([0, 1, 2, 3, most if rng.random() < 0.3 else 1]))]
        if kind == "boolean":
            return rng.random() < (0.95 if path == "push" else 0.5)
        if kind in ("number", "integer"):
            return self._number(schema, kind)
        return self._text(schema, path)

    def _object(self, schema, path, share):
        rng, required = self.rng, schema.get("required", [])
        found = {key: self.value(child, f"{path}.{key}" if path else key, share) for key, child in schema.get("properties", {}).items()
                 if key in required or rng.random() < (min(0.85, 2.5 * share) if self._is_object(child) else share)}
        more = schema.get("additionalProperties", True)
        if more is not False:
            names = schema.get("propertyNames", {})
            for _ in range(rng.choice([0, 1, 2, 5])):
                key = self._text({"type": "string", "minLength": 1, "maxLength": 20, "pattern": r"^[^\u0000]+$", **names, "x-max-bytes": 20}, "")
                taken = key in schema.get("properties", {}) or "not" in names and re.search(names["not"]["pattern"], key)
                if not taken and "." not in key:
                    found[key] = self.value(more if isinstance(more, dict) else {"type": ["string", "boolean", "integer", "null"]}, "")
        return found

    def _number(self, schema, kind):
        rng, low, high = self.rng, schema.get("minimum", -1e9), schema.get("maximum", 1e9)
        if kind == "integer":
            return rng.choice([int(low), int(high), rng.randint(int(low), int(high)), min(max(3600, int(low)), int(high))])
        if high > 1e9:
            return rng.choice([0, -1, 1.5, 1e-7, 12345678901234567, rng.uniform(-1e9, 1e9), 1e22])
        return rng.choice([low, high, round(rng.uniform(low, high), rng.choice([1, 3, 12])), (low + high) / 2])

    # --- texts

    def _matches(self, pattern, text):
        if pattern not in self.patterns:
            # `$` of JSON Schema is the end, and not what stands before a newline there.
            self.patterns[pattern] = re.compile(re.sub(r"\$$", r"\\Z", pattern))
        return self.patterns[pattern].search(text) is not None

    def _text(self, schema, path):
        rng, pattern = self.rng, schema.get("pattern", schema.get("x-pattern", ""))
        low, high = schema.get("minLength", 0), min(schema.get("x-max-bytes", 64), schema.get("maxLength", 1 << 20))
        if schema.get("format") == "date-time":
            if path == "expires_at":
                return rng.choice(PAST if rng.random() < 0.1 else TIMES)
            return rng.choice([one for one in [*TIMES, *RARE_TIMES] if self._matches(pattern, one)])
        if path == "deep_link":
            return rng.choice(LINKS)
        if pattern.startswith("^https"):
            address = rng.choice([one for one in ADDRESSES if self._matches(pattern, one)])
            return fitted(address + "/" + "a" * high, high) if rng.random() < 0.03 else address
        for _ in range(4):
            length = rng.choice([low, low + 1, high, high - 1]) if rng.random() < (0.3 if high <= 128 else 0.06) else rng.randint(low, min(high, 24))
            text = self.words(length)
            if len(text.encode()) >= low and self._matches(pattern, text):
                return text
        for _ in range(50):
            text = self._made(_parser.parse(pattern))
            if len(text.encode()) <= high and self._matches(pattern, text):
                return text
        raise AssertionError(f"{path}: nothing is found that matches {pattern}")

    def words(self, size):
        """A text of so many bytes."""
        alphabet, text = self.rng.choice(ALPHABETS), ""
        while len(text.encode()) < size:
            text += self.rng.choice(alphabet)
        text = fitted(text, size)
        return text if text.strip() or not text else "x" + text[1:]

    def _made(self, pattern):
        """A text that a regular expression describes. What it must not be, or what must follow, is left to whoever looks at it."""
        rng, text = self.rng, ""
        for code, rest in pattern:
            if code is codes.LITERAL:
                text += chr(rest)
            elif code is codes.IN:
                text += self._character(rest)
            elif code in (codes.ANY, codes.NOT_LITERAL):
                text += rng.choice("abc가😀")
            elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
                low, high, inner = rest
                count = rng.choice([low, min(high, 64) if rng.random() < 0.3 else min(high, low + 2)])
                text += "".join(self._made(inner) for _ in range(count))
            elif code is codes.SUBPATTERN:
                text += self._made(rest[-1])
            elif code is codes.BRANCH:
                text += self._made(rng.choice(rest[1]))
        return text

    def _character(self, parts):
        if parts[0][0] is codes.NEGATE:
            return self.rng.choice("abc가😀")
        code, rest = self.rng.choice(parts)
        return chr(rest if code is codes.LITERAL else self.rng.randint(*rest)) if code is not codes.CATEGORY else "0"

    # --- mistakes

    def mistaken(self, request):
        """Makes one thing wrong in a request that keeps all rules. None: it has nothing to make wrong that way."""
        kind = self.rng.choice(["unknown", "missing", "type", "range", "range", "exclusive", "reserved"])
        return getattr(self, "_" + kind)(request)

    def _places(self, request):
        """The keys of the request that the schema has, with their schema."""
        return [(path, child) for path, child in self._below(self.schema, "")
                if path not in ("user_id", "user_ids") and get(request, path) not in (ABSENT, None)]

    def _unknown(self, request):
        objects = [path for path, child in self._places(request) for one in self._branches(child)
                   if one.get("additionalProperties") is False and isinstance(get(request, path), dict)]
        place = self.rng.choice([*objects, ""])
        key = self.rng.choice(["unknown", "Title", "channelId", "sub_title", "x" * 64, "값", ""])
        path = f"{place}.{key}" if place else key
        if not key:
            return None
        put(request, path, self.rng.choice([1, "x", None, {}]))
        return Mutation("unknown", [path])

    def _missing(self, request):
        places = [("", self.schema), *self._places(request)]
        keys = [f"{path}.{key}" if path else key for path, child in places for one in self._branches(child) for key in one.get("required", [])]
        path = self.rng.choice([key for key in keys if key != "user_id" and get(request, key) is not ABSENT])
        *above, last = path.split(".")
        (get(request, ".".join(above)) if above else request).pop(last)
        return Mutation("missing", [path])

    def _type(self, request):
        path, schema = self.rng.choice(self._places(request))
        kinds = set()
        for one in self._branches(schema):
            kinds |= {one["type"]} if isinstance(one["type"], str) else set(one["type"])
        values = {"string": "x", "boolean": True, "number": 0.5, "array": ["x"], "object": {"x": 1}, "null": None}
        wrong = [value for name, value in values.items() if name not in kinds and not (name == "number" and "integer" in kinds and path != "ttl")]
        put(request, path, self.rng.choice(wrong))
        # What needs it beside it may be named too, but it itself always.
        return Mutation("type", [path])

    def _range(self, request):
        path, schema = self.rng.choice(self._places(request))
        schema = self.rng.choice([one for one in self._branches(schema) if one.get("type") != "null"])
        kinds, wrong = schema.get("type"), []
        if "enum" in schema:
            wrong = [schema["enum"][0].swapcase(), "x", ""]
        elif "maximum" in schema:
            wrong = [schema["maximum"] + 1, schema["minimum"] - 1, -(1 << 63), *([1e300, -0.001, 1.0000001] if "number" in kinds else [])]
        elif "items" in schema:
            wrong = [["1s" if "vibrate" in path else "x"] * (schema["maxItems"] + 1)]
        elif "x-max-bytes" in schema and "string" in kinds:
            most = schema["x-max-bytes"]
            wrong = [fitted("x" * most, most) + "y", "값" * (most // 3 + 1), "x\0y"] + ([""] if schema.get("minLength") else [])
            wrong = ["http://x", "https://", "https://a b", "x"] if "https" in schema["pattern"] else wrong
            wrong = ["//x", "http://x", "/../x", "/a b", "/%zz"] if path == "deep_link" else wrong
        elif "pattern" in schema:
            wrong = ["", "x\n", " ", "#12345", "#12345g", "1", "-1s", "1.s", "99999999999s", "é", "y" * 51]
            wrong = [one for one in wrong if not self._matches(schema["pattern"], one)]
        elif "format" in schema:
            wrong = ["tomorrow", "2030-01-15", "2030-02-30T00:00:00Z", "2030-01-15T12:00:00", ""]
        if not wrong:
            return None
        put(request, path, self.rng.choice(wrong))
        return Mutation("range", [path])

    def _exclusive(self, request):
        one, other = self.rng.choice(EXCLUSIVE)
        if self.schema_at(other) is None:   # beside `aps`
            return None
        for path in (one, other):
            if not given(request, path):
                value = None
                while value is None:
                    value = self.value(self.schema_at(path), path)
                put(request, path, value)
        return Mutation("exclusive", [one, other])

    def _reserved(self, request):
        path = self.rng.choice(RESERVED)
        if "google.x" in path:
            request["apns"] = {**(request.get("apns") or {}), "google.x": 1}
        else:
            put(request, path, self.rng.choice([1, "x", {}]))
        return Mutation("reserved", [path])


def fitted(text, size):
    """The text cut to so many bytes, and filled up to them where a character was cut."""
    cut = text.encode()[:size].decode(errors="ignore")
    return cut + "x" * (size - len(cut.encode())) if len(text.encode()) > size else cut


def seeded(document, seed, purpose):
    return Requests(document, random.Random(f"{seed} {purpose}"))
