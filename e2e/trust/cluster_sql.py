"""The questions that cluster.py asks PostgreSQL; they follow migrations/postgres/*.sql. Ids come as 32 hexadecimal digits."""
from e2e.trust.push_world import Delivery

# Inboxes whose counts differ from a recount, as (user, what it says, what a recount says).
WRONG_BADGES = """
    SELECT i.app || '/' || i.user_id, i.unread_count || '/' || i.unread_since_cleared, n.unread || '/' || n.since_cleared
    FROM inboxes i, LATERAL (
        SELECT count(*) AS unread, count(*) FILTER (WHERE i.cleared_id IS NULL OR id > i.cleared_id) AS since_cleared
        FROM notifications WHERE inbox_id = i.id AND read_at IS NULL) n
    WHERE i.unread_count <> n.unread OR i.unread_since_cleared <> n.since_cleared
"""
NOTIFICATIONS = """
    SELECT i.user_id, replace(n.id::text, '-', ''), n.read_at IS NOT NULL
    FROM notifications n JOIN inboxes i ON i.id = n.inbox_id
"""
TITLES = "SELECT replace(id::text, '-', ''), title FROM notifications"
# Device 0 says why nothing was owed; whatever type the ids have.
NO_DEVICE = "('0', '00000000-0000-0000-0000-000000000000')"
DELIVERIES = f"""
    SELECT replace(d.notification_id::text, '-', ''), coalesce(d.token, t.token), replace(d.id::text, '-', ''), d.state, d.attempts, d.answers
    FROM deliveries d LEFT JOIN device_tokens t ON t.id = d.device_id WHERE d.device_id::text NOT IN {NO_DEVICE}
"""
# What may have been sent without anybody having written down the answer.
IN_FLIGHT = f"""
    SELECT coalesce(d.token, t.token), replace(d.notification_id::text, '-', '')
    FROM deliveries d LEFT JOIN device_tokens t ON t.id = d.device_id
    WHERE d.state = 'sending' AND d.device_id::text NOT IN {NO_DEVICE}
"""
# That of the node with an address.
SENDING = """
    SELECT t.token, replace(d.notification_id::text, '-', '')
    FROM deliveries d JOIN device_tokens t ON t.id = d.device_id JOIN shards s ON s.shard = t.shard JOIN nodes n ON n.id = s.node_id
    WHERE d.state = 'sending' AND n.address = '{address}'
"""
# Devices that a node has claimed a push for and not settled it.
BUSY = "SELECT token FROM device_tokens WHERE lease <> 0"
# How many nodes have about a third of the 256 shards.
OWNERS = "SELECT count(*) FROM (SELECT node_id FROM shards GROUP BY node_id HAVING count(*) >= 80) AS owners"
OWED = """
    SELECT (SELECT count(*) FROM deliveries WHERE state IN ('owed', 'sending'))
         + (SELECT count(*) FROM device_tokens WHERE badge_due_at IS NOT NULL)
"""
# Numbers of an inbox's events that are missing between the first and the last that it keeps, or there twice. Those of each timeline of the
# database begin anew.
GAPS = """
    SELECT inbox_id, min(sequence), max(sequence), count(*), count(DISTINCT sequence) FROM events GROUP BY inbox_id, sequence >> 32
    HAVING count(*) <> max(sequence) - min(sequence) + 1 OR count(*) <> count(DISTINCT sequence)
"""
# Inboxes whose events tell of an id after they told of a greater one.
DISORDER = """
    SELECT inbox_id, count(*) FROM (
        SELECT inbox_id, notification_id, lag(notification_id) OVER (PARTITION BY inbox_id ORDER BY sequence) AS before
        FROM events WHERE type = 'created') e
    WHERE before >= notification_id GROUP BY inbox_id
"""
# One inbox's events, of which there are several.
SEVERAL = "(SELECT inbox_id FROM events WHERE type = 'created' GROUP BY inbox_id ORDER BY count(*) DESC LIMIT 1)"
PLANT_BADGE = "UPDATE inboxes SET unread_count = unread_count + 1 WHERE id = (SELECT min(inbox_id) FROM notifications)"
# Between two others: the last event of a timeline leaves no gap.
PLANT_GAP = """DELETE FROM events WHERE (inbox_id, sequence) = (
    SELECT e.inbox_id, e.sequence FROM events e JOIN events b ON b.inbox_id = e.inbox_id AND b.sequence = e.sequence - 1
    JOIN events a ON a.inbox_id = e.inbox_id AND a.sequence = e.sequence + 1 LIMIT 1)"""
PLANT_DISORDER = f"""UPDATE events SET notification_id = 'ffffffff-ffff-7fff-bfff-ffffffffffff' WHERE (inbox_id, sequence) =
    (SELECT inbox_id, min(sequence) FROM events WHERE type = 'created' AND inbox_id = {SEVERAL} GROUP BY inbox_id)"""


def deliveries(rows):
    return [Delivery(one, token or None, identifier, state, int(attempts), answers or None)
            for one, token, identifier, state, attempts, answers in rows]


def notifications(rows):
    """User → {id: is read}."""
    found = {}
    for user, one, read in rows:
        found.setdefault(user, {})[one] = read == "t"
    return found
