-- SQLite answers `x IN (…)` with more than two values out of a temporary table, which a CHECK builds anew for every row that
-- is written. The same said with OR is a few comparisons.
CREATE TABLE deliveries_new (
    notification_id BLOB    NOT NULL,
    device_id       INTEGER NOT NULL,
    id              BLOB    NOT NULL,
    inbox_id        INTEGER NOT NULL,
    state           TEXT    NOT NULL CHECK (state = 'sending' OR state = 'accepted' OR state = 'owed' OR state = 'superseded'
                                         OR state = 'gone' OR state = 'rejected' OR state = 'failed'),
    attempts        INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER,                 -- NULL once settled, and while it is in flight
    settled_at      INTEGER,
    token           TEXT,                    -- kept when the device token left, so that the delivery can still be explained
    answers         TEXT,                    -- JSON array of the provider's answers
    reason          TEXT,                    -- of device 0: 'push_false', 'expired' or 'no_devices'
    PRIMARY KEY (notification_id, device_id)
) STRICT, WITHOUT ROWID;

INSERT INTO deliveries_new
SELECT notification_id, device_id, id, inbox_id, state, attempts, due_at, settled_at, token, answers, reason FROM deliveries;
DROP TABLE deliveries;
ALTER TABLE deliveries_new RENAME TO deliveries;
CREATE INDEX deliveries_owed ON deliveries (device_id, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE events_new (
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
    inbox_id        INTEGER NOT NULL REFERENCES inboxes (id),
    type            TEXT    NOT NULL CHECK (type = 'created' OR type = 'badge' OR type = 'updated' OR type = 'deleted'
                                         OR type = 'read_all' OR type = 'listening'),
    notification_id BLOB,                    -- of read_all: the newest that was marked; NULL: all
    created_at      INTEGER NOT NULL
) STRICT;

-- No sequence is given out twice, also when the events that had the last ones are forgotten.
INSERT INTO sqlite_sequence (name, seq) SELECT 'events_new', seq FROM sqlite_sequence WHERE name = 'events';
INSERT INTO events_new SELECT sequence, inbox_id, type, notification_id, created_at FROM events;
DROP TABLE events;
ALTER TABLE events_new RENAME TO events;
CREATE INDEX events_inbox ON events (inbox_id, sequence);
