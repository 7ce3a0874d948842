-- What takes more than one transaction, and is finished by the next start if this one ends before.

-- A device that left an inbox while more was owed to it than one transaction settles. What is left is settled part by part; the
-- row goes with the last.
CREATE TABLE departed_devices (
    device_id   INTEGER NOT NULL,
    inbox_id    INTEGER NOT NULL,
    token       TEXT    NOT NULL,
    departed_at INTEGER NOT NULL,
    PRIMARY KEY (device_id, inbox_id)
) STRICT, WITHOUT ROWID;

-- A call for more users than one transaction serves. It is written down with its first users, and goes with its last.
CREATE TABLE large_calls (
    id           INTEGER PRIMARY KEY,
    app          TEXT    NOT NULL,
    user_ids     TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    body         TEXT    NOT NULL,
    category     TEXT,
    deep_link    TEXT,
    data         TEXT,
    push         INTEGER NOT NULL,
    sound        TEXT,
    collapse_key TEXT,
    thread_id    TEXT,
    expires_at   INTEGER,
    traceparent  TEXT,
    api_key_id   INTEGER,
    key          TEXT,
    fingerprint  BLOB
) STRICT;

-- The notifications that its transactions have made until now.
CREATE TABLE large_call_parts (
    call_id INTEGER NOT NULL REFERENCES large_calls (id) ON DELETE CASCADE,
    done    INTEGER NOT NULL,
    ids     BLOB    NOT NULL,
    PRIMARY KEY (call_id, done)
) STRICT, WITHOUT ROWID;
