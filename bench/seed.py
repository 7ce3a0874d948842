"""The same inboxes for both programs: Campanile's through its own API, the floor's by SQL."""

import http.client
import json
import os
import secrets
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.load import BenchError
from bench.processes import Programs, Server
from e2e.harness import user_token

SENTENCE = "Paket 4711 ist unterwegs – voraussichtliche Ankunft „morgen“ zwischen 9 und 12 Uhr.\n"
RECIPIENTS = 1000  # the contract's limit of user_ids in one request


def users(count: int) -> list[str]:
    return [f"user-{number:06d}" for number in range(count)]


def notification(number: int, body_bytes: int) -> dict:
    """The notification that everybody gets as the `number`th: real text with umlauts, quotes and line ends."""
    text = (SENTENCE * (body_bytes // len(SENTENCE) + 1)).encode()[:body_bytes].decode(errors="ignore")
    return {"title": f"Sendung {number:05d} unterwegs", "body": text, "category": "PARCEL",
            "deep_link": f"/parcels/{number}", "data": {"parcel": number, "state": "in_transit", "express": True}}


def seed_campanile(programs: Programs, database: Path, names: list[str], rows: int, body_bytes: int) -> float:
    """`rows` notifications for every user, in the order of arrival as in life: one for everybody, then the next.
    Afterwards the program's own audit must find every badge equal to a recount. Returns seconds taken."""
    start = time.monotonic()
    server = programs.campanile(database)
    key = programs.producer_key(database)
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    for number in range(rows):
        for first in range(0, len(names), RECIPIENTS):
            content = {"user_ids": names[first:first + RECIPIENTS], **notification(number, body_bytes)}
            server.call("POST", "/notifications", key, json.dumps(content, ensure_ascii=False).encode(), link,
                        idempotency_key=f"seed-{number}-{first}")
    link.close()
    server.stop()
    programs.command("badge", "audit", "--database", str(database))
    return time.monotonic() - start


def seed_floor(programs: Programs, database: Path, names: list[str], rows: int, body_bytes: int) -> None:
    """The same notifications in the same order, as the floor would have stored them."""
    programs.init_floor(database)
    now = int(time.time() * 1000)
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("PRAGMA synchronous=OFF")
    db.execute("PRAGMA cache_size=-262144")
    db.execute("BEGIN")
    for number in range(rows):
        row = notification(number, body_bytes)
        data = json.dumps(row["data"], separators=(",", ":"))
        db.executemany(
            "INSERT INTO notifications(uuid, user_id, title, body, category, deep_link, data, created_at)"
            f" VALUES(?, ?, ?, ?, ?, ?, ?, {now + number})",
            ((_uuid(now + number), name, row["title"], row["body"], row["category"], row["deep_link"], data) for name in names))
    db.executemany(f"INSERT INTO users VALUES(?, {rows}, {now + rows}, {now + rows})", ((name,) for name in names))
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    _put_on_disk(database)


def identifier(milliseconds: int, number: int) -> bytes:
    """A UUIDv7 as 16 bytes (RFC 9562 section 5.7); larger numbers are later."""
    return ((milliseconds << 80) | 0x7 << 76 | 0b10 << 62 | number).to_bytes(16, "big")


def fill_inboxes(database: Path, inboxes: dict[str, tuple[int, int]], age: int = 0) -> None:
    """Inboxes by SQL, where the API would take too long: of each user so many rows, of which the oldest so many are unread; who
    has read them all has cleared the badge too. The schema must be there (`campanile migrate`); columns that aren't named keep
    their defaults. `age`: of the notifications, in milliseconds."""
    row, now = notification(4711, 100), int(time.time() * 1000)
    content = (row["title"], row["body"], row["category"], row["deep_link"], json.dumps(row["data"]))
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("PRAGMA synchronous=OFF")
    db.execute("PRAGMA cache_size=-262144")
    db.execute("BEGIN")
    for user, (rows, unread) in inboxes.items():
        first = now - age - rows   # a millisecond a row, all in the past: the server's own ids are later
        inbox = 1 + db.execute("SELECT coalesce(max(id), 0) FROM inboxes").fetchone()[0]
        newest = identifier(now - age - 1, inbox)
        db.execute("INSERT INTO inboxes (id, app, user_id, unread_count, unread_since_cleared, armed, cleared_id, newest_id, version,"
                   " updated_at) VALUES (?, 'default', ?, ?, ?, ?, ?, ?, ?, ?)",
                   (inbox, user, unread, unread, int(unread > 0), None if unread else newest, newest, now, now))
        db.executemany(
            "INSERT INTO notifications (inbox_id, id, created_at, read_at, title, body, category, deep_link, data)"
            f" VALUES ({inbox}, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((identifier(first + number, inbox), first + number, None if number < unread else now, *content)
             for number in range(rows)))
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    _put_on_disk(database)


def _put_on_disk(database: Path) -> None:
    """Else the first sync of the program that is measured pays for what was filled in without one."""
    with open(database, "rb") as file:
        os.fsync(file.fileno())


def _uuid(milliseconds: int) -> str:
    time_part, random = f"{milliseconds:012x}", secrets.token_hex(9)
    return f"{time_part[:8]}-{time_part[8:]}-7{random[:3]}-8{random[3:6]}-{random[6:18]}"


def register_devices(programs: Programs, server: Server, names: list[str], each: int = 1) -> None:
    """So many iOS devices for every user, through the API."""

    def register(part: list[str]) -> None:
        link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        for name in [name for name in part for _ in range(each)]:
            content = json.dumps({"token": secrets.token_hex(32), "platform": "ios"}).encode()
            server.call("POST", "/device_tokens", user_token(programs.secret, name), content, link)
        link.close()

    workers = 16
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(register, [names[number::workers] for number in range(workers)]))


def same_answers(programs: Programs, campanile: Server, floor: Server, names: list[str]) -> int:
    """Both programs must answer the same inbox with the same JSON, but for ids, versions, cursors and times.
    Returns the size of a list's body in bytes."""
    own = ("id", "created_at", "version", "updated_at", "next_cursor")
    size = 0
    for name in (names[0], names[len(names) // 2], names[-1]):
        token = user_token(programs.secret, name)
        for target in ("/badge", "/notifications?limit=50"):
            ours = campanile.call("GET", target, token)
            theirs = floor.call("GET", f"{target}{'&' if '?' in target else '?'}user={name}")
            size = len(ours)
            a, b = (json.loads(text, object_hook=lambda o: {k: v for k, v in o.items() if k not in own}) for text in (ours, theirs))
            if a != b:
                raise BenchError(f"the two programs answer {target} of {name} differently:\n{ours[:600]!r}\n{theirs[:600]!r}")
    return size
