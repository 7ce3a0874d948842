"""The questions that the scripts ask a database file directly, in SQL; they follow migrations/sqlite/*.sql.

Only for files that no server has open, or with a read-only connection.
"""
import sqlite3
import uuid

RECOUNT = """
    SELECT i.app || '/' || i.user_id, i.unread_count, i.unread_since_cleared, i.version,
           count(n.id) FILTER (WHERE n.read_at IS NULL),
           count(n.id) FILTER (WHERE n.read_at IS NULL AND (i.cleared_id IS NULL OR n.id > i.cleared_id)),
           max(n.id) IS NULL OR ifnull(max(n.id) <= i.newest_id, 0)
    FROM inboxes i LEFT JOIN notifications n ON n.inbox_id = i.id GROUP BY i.id
"""
# What apps have broadcast and is kept, oldest first. PostgreSQL's are the same.
BROADCASTS = "SELECT stream, message FROM broadcasts WHERE stream <> '' ORDER BY app, sequence"
STATES_SETTLED = ("accepted", "superseded", "withheld", "gone", "rejected", "failed")


def connect(path):
    """A connection that creates no file and waits for nobody. What it writes is never synced: the disk is a copy."""
    connection = sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=5, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def identifier(text):
    """A notification's id as the file holds it: 16 bytes."""
    return uuid.UUID(text).bytes


def integrity(connection):
    """None, or what `PRAGMA integrity_check` and `foreign_key_check` found."""
    found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        return "; ".join(found)[:500]
    dangling = connection.execute("PRAGMA foreign_key_check").fetchall()
    return f"{len(dangling)} dangling references: {dangling[:3]}" if dangling else None


def contents(connection):
    """Everything a ledger (load.py) makes claims about, in the ledger's words."""
    found = {}
    for user, one, read, title in connection.execute(
            "SELECT i.user_id, n.id, n.read_at IS NOT NULL, n.title FROM notifications n JOIN inboxes i ON i.id = n.inbox_id"):
        found[("notification", one)] = (user, bool(read))
        found[("title", one)] = title
    for token, user in connection.execute(
            "SELECT d.token, i.user_id FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id"):
        found[("device", token)] = user
    for (key,) in connection.execute("SELECT key FROM idempotency_keys"):
        found[("idempotency", key)] = True
    for one, token in connection.execute(
            "SELECT n.notification_id, coalesce(n.token, d.token) FROM deliveries n "
            "LEFT JOIN device_tokens d ON d.id = n.device_id WHERE n.device_id <> 0"):
        if token is None:     # settled, and its device has left since: the row no longer says which it was
            found[("unnamed deliveries", one)] = found.get(("unnamed deliveries", one), 0) + 1
        else:
            found[("delivery", one, token)] = True
    for (name,) in connection.execute("SELECT name FROM api_keys WHERE revoked_at IS NULL"):
        found[("key", name)] = True
    return found


def badge_mismatches(connection):
    """Inboxes whose counts differ from a recount; and {user: version}."""
    wrong, versions = [], {}
    for name, unread, since, version, real, real_since, newest in connection.execute(RECOUNT):
        versions[name.split("/", 1)[1]] = version
        if (unread, since) != (real, real_since) or not newest:
            wrong.append(f"{name}: says {unread}/{since}, recount {real}/{real_since}, newest_id right: {bool(newest)}")
    return wrong, versions


# --- planted faults: what each check must see

def plant_lost_notification(connection, one):
    """Only an unread one, so that the counts are wrong afterwards as well."""
    connection.execute("DELETE FROM notifications WHERE id = ? AND read_at IS NULL", (identifier(one),))
    return connection.execute("SELECT changes()").fetchone()[0] == 1


def plant_lost_idempotency_key(connection, key):
    connection.execute("DELETE FROM idempotency_keys WHERE key = ?", (key,))
    return connection.execute("SELECT changes()").fetchone()[0] == 1


def plant_lost_delivery(connection, one):
    connection.execute("DELETE FROM deliveries WHERE notification_id = ? AND device_id <> 0", (identifier(one),))
    return connection.execute("SELECT changes()").fetchone()[0] >= 1


def plant_wrong_badge(connection):
    connection.execute("UPDATE inboxes SET unread_count = unread_count + 1 WHERE id = (SELECT max(id) FROM inboxes)")
    return connection.execute("SELECT changes()").fetchone()[0] == 1
