"""What schemathesis can't read off openapi.yaml: lengths in bytes, whose inbox is looked at, and rules over two requests.

Loaded by schemathesis (schemathesis.toml). The environment names the fixtures that run_schemathesis.py made.
"""
import copy
import json
import os
import re
import threading
import uuid

import requests
import schemathesis
from schemathesis.openapi.checks import UseAfterFree

from e2e import ROOT
from e2e.contract.openapi_document import resolve, responses, tighten

USER = os.environ["CONTRACT_USER"]
USER_TOKEN, PRODUCER_KEY = os.environ["CONTRACT_USER_TOKEN"], os.environ["CONTRACT_PRODUCER_KEY"]
OWN_INBOX_KEY = os.environ["CONTRACT_OWN_INBOX_KEY"]   # of an app whose badge is given
DEVICE_TOKEN = os.environ["CONTRACT_DEVICE_TOKEN"]
NATIVE_USER_AGENT = "Hotwire Native iOS; Turbo Native iOS; Mozilla/5.0"
DATA_JSON_MARGIN = 128   # the server's JSON may be longer than Python's: it escapes and writes numbers differently
PATH_ESCAPES = ["%25", "%20", "%C3%A9", "%3F", "%23", "%3a", "%EF%BF%BD", "%41"]   # whole, and no mark that a path can't have
QUERY_ESCAPES = ["%2F", "%5C", "%E9", "%FF", "%0A", "%00"]
# The operations with a cursor, and the parameters that go with it.
PAGED = {"listNotifications": ("limit", "status", "category"), "searchDeliveries": ("state", "reason", "notification_id"), "listNotificationsOfUser": ()}
# Parameters that schemathesis takes, by their names, for things that another call must make first: they are the producer's own
# words, and what an app shows.
OWN_WORDS = {
    "POST /notifications": {"user_id", "user_ids", "external_id", "thread_id"}, "DELETE /notifications": {"external_id"},
    "PUT /users/{user_id}/badge": {"user_id"}, "POST /users/{user_id}/reads": {"user_id", "ids", "external_ids"},
    "PATCH /notifications/{id}": {"user_id"}, "DELETE /notifications/{id}": {"user_id"}, "POST /notifications/reconcile": {"ids"},
}
GIVING = ("giveBadge", "markReadOfUser", "createNotification")   # operations that may carry a given number
BROADCASTING = ("broadcast", "broadcastInAnyCablesForm")
BROADCAST_BYTES = {"stream": 1_024, "data": 65_536, "id": 64}
EDITED = ("title", "subtitle", "body", "deep_link", "data", "category")
PROBES_PER_OPERATION = 25  # requests that a check of this file adds; more would only repeat themselves

# The fields of a push's payload, and the overlays' keys that fields become: a request gives the one or the other.
PAYLOAD = ("subtitle", "image_url", "interruption_level", "relevance_score", "priority", "buttons", "loc", "android", "apns", "fcm")
OVERLAY_KEYS = re.findall(r'\("([\w.]+)", "((?:apns|fcm)\.[\w.-]+)"\)', (ROOT / "Sources/Push/Payload/PayloadOverlay.swift").read_text(encoding="utf-8"))
ARGUMENTS = {
    "loc.title_args": ["loc.title_key"], "loc.body_args": ["loc.body_key"],
    "apns.aps.alert.title-loc-args": ["apns.aps.alert.title-loc-key", "loc.title_key"],
    "apns.aps.alert.subtitle-loc-args": ["apns.aps.alert.subtitle-loc-key"],
    "apns.aps.alert.loc-args": ["apns.aps.alert.loc-key", "loc.body_key"],
    "fcm.notification.title_loc_args": ["fcm.notification.title_loc_key", "loc.title_key"],
    "fcm.notification.body_loc_args": ["fcm.notification.body_loc_key", "loc.body_key"],
}
PAYLOAD_JSON = 1_000  # with data and a link beside it: a push has 4,096 bytes, and what an app draws is escaped twice

_byte_limits = {}
_payload_schemas = {}  # field -> its schema, without references
_pages = {}  # operation -> a query that leads to a next page
_probed = {}
_session = threading.local()


# --- the document

def _walk(schema, document, seen):
    """Every schema below `schema`, each once."""
    schema = resolve(schema, document)
    if id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    below = [*schema.get("properties", {}).values(), *schema.get("oneOf", []), *schema.get("allOf", [])]
    below += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    for child in below:
        yield from _walk(child, document, seen)


def _operations(document):
    for item in document["paths"].values():
        for method, operation in item.items():
            if method != "parameters":
                yield operation


def _whole(schema, document):
    """`schema` with what its references lead to in their place."""
    schema = resolve(schema, document)
    if isinstance(schema, dict):
        return {key: _whole(value, document) for key, value in schema.items()}
    return [_whole(one, document) for one in schema] if isinstance(schema, list) else schema


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Answers may gain keys, and readers must bear it; but here a key that openapi.yaml doesn't know is a failure."""
    tighten(raw_schema)
    seen = set()
    for _, response in responses(raw_schema):
        for media in response.get("content", {}).values():
            for schema in _walk(media["schema"], raw_schema, seen):
                if "properties" in schema and schema.get("type") == "object":
                    schema.setdefault("additionalProperties", False)
    for operation in _operations(raw_schema):
        if operation["operationId"] in BROADCASTING:
            continue
        for media in operation.get("requestBody", {}).get("content", {}).values():
            whole = resolve(media["schema"], raw_schema)
            for schema in [whole, *(resolve(one, raw_schema) for one in whole.get("oneOf", []))]:
                for name, value in schema.get("properties", {}).items():
                    value = resolve(value, raw_schema)
                    if name in PAYLOAD:
                        _payload_schemas[name] = _whole(value, raw_schema)
                    value = resolve(value["items"], raw_schema) if "items" in value else value
                    if "x-max-bytes" in value:
                        _byte_limits[name] = value["x-max-bytes"]


@schemathesis.hook
def after_load_schema(context, schema):
    """Otherwise no chain of links would begin with a new notification: nothing makes a user, or a thread, first; and the
    `external_id` of another notification is taken."""
    for label, names in OWN_WORDS.items():
        node = schema.analysis.dependency_graph.operations[label]
        node.inputs[:] = [slot for slot in node.inputs if slot.parameter_name not in names]


# --- valid requests

def _fit_text(text, limit):
    return text.encode()[:limit].decode(errors="ignore") or "x"


def _fit_data(data, limit):
    """`data` within its limit as JSON, which JSON Schema can't say."""
    fitted = {}
    for key, value in data.items():
        more = {**fitted, _fit_text(key, 64): value}
        if len(json.dumps(more).encode()) <= limit - DATA_JSON_MARGIN:
            fitted = more
    return fitted


def _fit_body(body):
    for name, value in body.items():
        limit = _byte_limits.get(name)
        if limit is None:
            continue
        if isinstance(value, str) and len(value.encode()) > limit:
            body[name] = _fit_text(value, limit)
        elif isinstance(value, list):
            body[name] = [_fit_text(text, limit) for text in value]
        elif isinstance(value, dict):
            body[name] = _fit_data(value, limit)
    if isinstance(body.get("title"), str) and not body["title"].strip():
        body["title"] = "x"
    if isinstance(body.get("deep_link"), str):
        body["deep_link"] = _fit_deep_link(body["deep_link"])
    if "title" in body:
        _fit_payload(body)


# --- the payload of a push: docs/payload.md has its rules

def _at(body, path):
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


def _drop(body, path):
    parent, _, name = path.rpartition(".")
    place = _at(body, parent) if parent else body
    if isinstance(place, dict):
        place.pop(name, None)


def _fit_texts(value, schema):
    """`value` with texts of as many bytes as they may have."""
    if isinstance(value, str):
        limits = [one["x-max-bytes"] for one in [schema, *schema.get("oneOf", [])] if "x-max-bytes" in one]
        return _fit_text(value, limits[0]) if limits and len(value.encode()) > limits[0] else value
    if isinstance(value, list):
        return [_fit_texts(one, schema.get("items", {})) for one in value]
    if isinstance(value, dict):
        members = schema.get("properties", {})
        for choice in schema.get("oneOf", []):
            members = {**members, **choice.get("properties", {})}
        return {name: _fit_texts(one, members.get(name, {})) for name, one in value.items()}
    return value


def _fit_host(address):
    """`address` with a host that is one (RFC 3986 section 3.2.2), which is more than its pattern says."""
    scheme, mark, rest = address.partition("://")
    host = re.match(r"[^/?#]*", rest)[0]
    return address if re.fullmatch(r"[A-Za-z0-9.-]+", host) else f"{scheme}{mark}h{rest[len(host):]}"


def _fit_payload(body):
    """`body` without what contradicts another field of it, and small enough for a push."""
    for name in PAYLOAD:
        if name in body:
            body[name] = _fit_texts(body[name], _payload_schemas[name])
    for place in [body] + ([body["android"]] if isinstance(body.get("android"), dict) else []):
        if isinstance(place.get("image_url"), str):
            place["image_url"] = _fit_host(place["image_url"])
    if body.get("expires_at") is not None:
        body.pop("ttl", None)
    for field, key in OVERLAY_KEYS:
        if field in body or _at(body, field) is not None:
            _drop(body, key)
    if _at(body, "android.display") == "app":
        _drop(body, "fcm.notification")
    data = body.get("data") or {}
    if body.get("image_url") is not None:
        data.pop("imageURL", None)
    for name in list(body.get("apns") or {}):
        if name in data:
            del body["apns"][name]
    for arguments, keys in ARGUMENTS.items():
        if _at(body, arguments) is not None and all(_at(body, key) is None for key in keys):
            _drop(body, arguments)
    while len(json.dumps({name: body[name] for name in PAYLOAD if name in body})) > PAYLOAD_JSON:
        largest = max((name for name in PAYLOAD if name in body), key=lambda name: len(json.dumps(body[name])))
        del body[largest]
        _fit_payload(body)  # arguments may have lost their key


def _fit_deep_link(link):
    """`link` with escapes that are whole, and without segments of dots. What an escape is depends on where it stands, so that a
    case can be made again; in the query it may also be no UTF-8."""
    escaped, room, is_path = [], _byte_limits["deep_link"] - len(link.encode()), True
    for place, character in enumerate(link):
        is_path = is_path and character not in "?#"
        if character == "%":
            escapes = PATH_ESCAPES if is_path else PATH_ESCAPES + QUERY_ESCAPES
            character = escapes[place % len(escapes)]
            room -= len(character) - 1
            if room < 0:
                continue
        escaped.append(character)
    path, mark, rest = re.match(r"([^?#]*)([?#]?)(.*)", "".join(escaped), re.DOTALL).groups()
    path = "/".join("x" * len(segment) if segment in (".", "..") else segment for segment in path.split("/"))
    link = path + mark + rest
    return "x" + link[1:] if not link or link.startswith("//") else link


def _unused(name):
    """`name`, or what fits of it, and something that no other has."""
    more = f"-{uuid.uuid4()}"
    return _fit_text(name, _byte_limits["external_id"] - len(more)) + more


def _is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _fit_broadcasts(body):
    """Messages of as many bytes as they may have, to streams that are the app's own."""
    for one in body if isinstance(body, list) else [body]:
        for name, limit in BROADCAST_BYTES.items():
            if isinstance(one.get(name), str) and len(one[name].encode()) > limit:
                one[name] = _fit_text(one[name], limit)
        # What begins as JSON has to be JSON in AnyCable's form, which the schema can't say.
        if one["data"].lstrip(" \t\r\n")[:1] in ("{", "[", '"') and not _is_json(one["data"]):
            one["data"] = "x" + one["data"][1:]
        if one["stream"].startswith("notifications:"):
            one["stream"] = "x" + one["stream"][1:]


def _choose_credential(case):
    """schemathesis takes the first that an operation's `security` names, a user's. Where a producer may call too the body says who
    does, or chance."""
    if (case.headers or {}).get("Authorization") != f"Bearer {USER_TOKEN}":
        return
    if _operation_id(case) == "updateNotification":
        is_producers = isinstance(case.body, dict) and "read" not in case.body
    else:
        is_producers = _operation_id(case) == "deleteNotification" and len(str(case.headers.get("X-Device-Token", ""))) % 2 == 0
    if is_producers:
        case.headers["Authorization"] = f"Bearer {PRODUCER_KEY}"


def _is_positive(case):
    return case.meta is None or case.meta.generation.mode.is_positive


def _is_stateful(case):
    return case.meta is not None and case.meta.phase.name.value == "stateful"


def _give(case, operation):
    """Gives a number in the app whose badge is given. A chain's links lead on in the other app, whose badge isn't."""
    if operation == "createNotification" and _is_stateful(case):
        case.body.pop("badge", None)
    given = case.body if operation == "giveBadge" else case.body.get("badge")
    if not isinstance(given, dict):
        return
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {OWN_INBOX_KEY}"}
    if isinstance(given.get("tenant"), str):
        # A user has 100 tenants, which the schema can't say.
        given["tenant"] = _fit_text(given["tenant"], 64) if len(given["tenant"].encode()) > 64 else given["tenant"]
        if operation == "createNotification":
            case.body["user_id"] = str(uuid.uuid4())
        else:
            case.path_parameters = {**case.path_parameters, "user_id": str(uuid.uuid4())}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Makes a case that is meant to be valid really so, in every phase. Cases that are meant to be invalid pass unchanged, but for
    who sends them."""
    if case.operation is None:
        return
    _choose_credential(case)
    if not _is_positive(case):
        return
    operation = _operation_id(case)
    if operation in BROADCASTING:
        case.body = copy.deepcopy(case.body)
        _fit_broadcasts(case.body)
    elif isinstance(case.body, dict):
        case.body = copy.deepcopy(case.body)
        _fit_body(case.body)
    if operation == "createNotification" and isinstance(case.body, dict):
        # Links lead on from one notification, as the one user whose token this run holds.
        if _is_stateful(case):
            case.body = {**case.body, "user_id": USER}
            # What an overlay says a later edit may not say again.
            for name in ("user_ids", "apns", "fcm"):
                case.body.pop(name, None)
            # Nothing is there after a dry run for a link to lead to.
            case.query = {name: value for name, value in (case.query or {}).items() if name != "dry_run"}
        # A dry run is for one user, and has no key.
        if str((case.query or {}).get("dry_run")).lower() == "true":
            if "user_ids" in case.body:
                case.query = {name: value for name, value in case.query.items() if name != "dry_run"}
            elif case.headers:
                case.headers = {name: value for name, value in case.headers.items() if name != "Idempotency-Key"}
        # A second notification with the same name is an error by design; external_id_is_taken below makes one on purpose.
        if isinstance(case.body.get("external_id"), str):
            case.body["external_id"] = _unused(case.body["external_id"])
        # The same key with another body is an error by design; idempotent_replay below repeats requests on purpose.
        # So many users need one, which the schema can't say.
        if case.headers and "Idempotency-Key" in case.headers or len(case.body.get("user_ids") or []) > 100:
            case.headers = {**(case.headers or {}), "Idempotency-Key": str(uuid.uuid4())}
    if operation in GIVING and isinstance(case.body, dict):
        _give(case, operation)
    if operation == "updateNotification" and isinstance(case.body, dict) and not case.body.keys() & {"read", *EDITED}:
        # `push` alone edits nothing, which the schema can't say.
        case.body["title"] = "x"
    if operation in ("updateNotification", "deleteNotification") and _is_stateful(case) and "user_id" in (case.query or {}):
        case.query = {**case.query, "user_id": USER}
    if operation == "withdrawNotifications" and isinstance((case.query or {}).get("external_id"), str):
        case.query = {**case.query, "external_id": _fit_text(case.query["external_id"], _byte_limits["external_id"])}
    if operation in PAGED and case.query and "cursor" in case.query:
        # A cursor is opaque: only one that the server gave is valid, with the filters it was given for.
        case.query = dict(_pages.get(operation, {}))
    if operation == "deleteDeviceToken" and "\0" in (case.path_parameters or {}).get("token", ""):
        # Once in some ten thousand chains schemathesis puts a NUL into the path, whatever the pattern says.
        case.path_parameters = {**case.path_parameters, "token": case.path_parameters["token"].replace("\0", "0")}
    for name, value in (("X-Device-Token", DEVICE_TOKEN), ("User-Agent", NATIVE_USER_AGENT)):
        # Half of the cases name a real device, or say that they are the native app.
        if case.headers and len(str(case.headers.get(name, ""))) % 2:
            case.headers[name] = value


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Deliveries outlive a notification that is deleted or withdrawn: a producer may still ask what became of the pushes."""
    return not (isinstance(failure, UseAfterFree) and _operation_id(case) == "listDeliveries")


@schemathesis.hook
def after_call(context, case, response):
    operation = _operation_id(case)
    if operation not in PAGED or response.status_code != 200:
        return
    page = response.json()
    if isinstance(page, dict) and page.get("next_cursor"):
        kept = {key: value for key, value in (case.query or {}).items() if key in PAGED[operation]}
        _pages[operation] = {**kept, "cursor": page["next_cursor"]}


# --- rules over two requests

def _again(response, **changes):
    """Sends the request of `response` once more, with changed parts."""
    if not hasattr(_session, "value"):
        _session.value = requests.Session()
    request = response.request.copy()
    request.method = changes.get("method", request.method)
    request.headers.update(changes.get("headers", {}))
    return _session.value.send(request, timeout=20, allow_redirects=False)


def _may_probe(check, case):
    key = (check, case.operation.label)
    _probed[key] = _probed.get(key, 0) + 1
    return _probed[key] <= PROBES_PER_OPERATION


def _is_plain(case):
    """Whether the request used the operation's own method; coverage also sends others."""
    return case.method.upper() == case.operation.method.upper()


def _operation_id(case):
    return case.operation.definition.raw.get("operationId")


@schemathesis.check
def head_answers_like_get(ctx, response, case):
    """RFC 9110 section 9.3.2: the same status and media type, no body."""
    if case.operation.method.upper() != "GET" or not _is_plain(case) or not _may_probe("head", case):
        return
    head = _again(response, method="HEAD")
    assert head.status_code == response.status_code, f"HEAD answered {head.status_code}, GET {response.status_code}"
    assert head.headers.get("Content-Type") == _header(response, "content-type"), "HEAD has another Content-Type than GET"
    assert not head.content, "HEAD has a body"


@schemathesis.check
def options_is_answered(ctx, response, case):
    """Every known path answers OPTIONS with 204 and Allow."""
    if not _is_plain(case) or response.status_code in (404, 414, 431, 400) or not _may_probe("options", case):
        return
    options = _again(response, method="OPTIONS")
    assert options.status_code == 204, f"OPTIONS answered {options.status_code}"
    allowed = {method.strip() for method in options.headers.get("Allow", "").split(",")}
    expected = {case.operation.method.upper(), "OPTIONS"} | ({"HEAD"} if case.operation.method.upper() == "GET" else set())
    assert expected <= allowed, f"Allow is {sorted(allowed)}, without {sorted(expected - allowed)}"


@schemathesis.check
def problem_fits_its_answer(ctx, response, case):
    """A problem says the status and the request id that the answer's head says, and no answer mixes the two forms."""
    is_problem = (_header(response, "content-type") or "").startswith("application/problem+json")
    # /readyz says in its own form why it isn't.
    expected = response.status_code >= 400 and not (_operation_id(case) == "getReadiness" and response.status_code == 503)
    assert is_problem == expected, f"{response.status_code} with Content-Type {_header(response, 'content-type')}"
    if is_problem:
        problem = response.json()
        assert problem["status"] == response.status_code, f"status {problem['status']} in a {response.status_code}"
        assert problem["request_id"] == _header(response, "x-request-id"), "request_id differs from X-Request-Id"


@schemathesis.check
def location_leads_to_the_notification(ctx, response, case):
    """A created notification says where it is; several at once don't."""
    if _operation_id(case) != "createNotification" or response.status_code != 201:
        return
    created = response.json()
    expected = f"/notifications/{created['id']}" if "id" in created else None
    assert _header(response, "location") == expected, f"Location is {_header(response, 'location')}, not {expected}"


@schemathesis.check
def idempotent_replay(ctx, response, case):
    """The same key and body get the first answer again; the same key with another body gets 422."""
    key = response.request.headers.get("Idempotency-Key")
    if _operation_id(case) != "createNotification" or response.status_code != 201 or not key:
        return
    if not _may_probe("idempotency", case):
        return
    replay = _again(response)
    assert replay.status_code == 201, f"the repeated request got {replay.status_code}"
    assert replay.content == response.content, "the repeated request got another body"
    assert replay.headers.get("Idempotency-Replayed") == "true", "the repeated request lacks Idempotency-Replayed"
    assert replay.headers.get("Location") == _header(response, "location"), "the repeated request got another Location"
    other = _again_with_body(response, b'{"user_id":"nobody","title":"another body"}')
    assert other.status_code == 422, f"another body under the same Idempotency-Key got {other.status_code}"


@schemathesis.check
def external_id_is_taken(ctx, response, case):
    """The same creation again, without an Idempotency-Key, is refused and told which notification has the name."""
    if _operation_id(case) != "createNotification" or response.status_code != 201 or not _may_probe("external_id", case):
        return
    if not isinstance(case.body, dict) or case.body.get("external_id") is None or len(case.body.get("user_ids") or []) > 100:
        return
    again = _again(response, headers={"Idempotency-Key": str(uuid.uuid4())})
    assert again.status_code == 409, f"the same external_id again got {again.status_code}"
    created, problem = response.json(), again.json()
    ids = [created["id"]] if "id" in created else [one["id"] for one in created["notifications"]]
    assert problem["code"] == "external_id_taken", f"the same external_id again is {problem['code']}"
    assert problem["notification_id"] in ids, f"{problem['notification_id']} has the external_id, not {ids}"


@schemathesis.check
def badge_is_conditional(ctx, response, case):
    """RFC 9110 section 13.1.2: the badge's own ETag gets 304 while the badge is the same."""
    if _operation_id(case) != "getBadge" or response.status_code != 200 or not _may_probe("etag", case):
        return
    etag = _header(response, "etag")
    for condition in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        again = _again(response, headers={"If-None-Match": condition})
        assert again.status_code == 304, f"If-None-Match: {condition} got {again.status_code}"
        assert not again.content and again.headers.get("ETag") == etag, "304 with a body or without its ETag"


def _again_with_body(response, body):
    request = response.request.copy()
    request.prepare_body(body, None)
    request.headers["Content-Type"] = "application/json"
    return requests.Session().send(request, timeout=20)


def _header(response, name):
    values = response.headers.get(name)
    return values[0] if values else None
