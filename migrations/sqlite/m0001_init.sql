-- The first schema. Times are milliseconds since 1970 UTC; ids are UUIDv7 as 16 bytes, so that their order is their age.

-- One row per (app, user): the counts and the badge's state (docs/badge.md). Both policies' inputs are always kept, so that
-- changing the policy loses nothing. `campanile badge audit` proves the counts equal to a recount.
CREATE TABLE inboxes (
    id                   INTEGER PRIMARY KEY,
    app                  TEXT    NOT NULL,
    user_id              TEXT    NOT NULL,
    unread_count         INTEGER NOT NULL DEFAULT 0 CHECK (unread_count >= 0),
    -- unread notifications with id > cleared_id: the badge under the policy since_opened
    unread_since_cleared INTEGER NOT NULL DEFAULT 0 CHECK (unread_since_cleared BETWEEN 0 AND unread_count),
    -- whether something arrived since the last clearing: the badge under the policy unread
    armed                INTEGER NOT NULL DEFAULT 0,
    cleared_id           BLOB,
    newest_id            BLOB,
    version              INTEGER NOT NULL DEFAULT 0,
    updated_at           INTEGER,
    UNIQUE (app, user_id)
) STRICT;

-- A page of the inbox is one contiguous range of this one B-tree. Large `data` stands aside, so that a row fits its page.
CREATE TABLE notifications (
    inbox_id     INTEGER NOT NULL REFERENCES inboxes (id),
    id           BLOB    NOT NULL,
    created_at   INTEGER NOT NULL,
    read_at      INTEGER,
    title        TEXT    NOT NULL,
    body         TEXT    NOT NULL,
    category     TEXT,
    deep_link    TEXT,
    data         TEXT,                       -- a JSON object, or NULL
    data_aside   INTEGER NOT NULL DEFAULT 0, -- 1: the JSON object stands in notification_data
    push         INTEGER NOT NULL DEFAULT 1,
    sound        TEXT,
    collapse_key TEXT,
    thread_id    TEXT,
    expires_at   INTEGER,                    -- of the push only
    PRIMARY KEY (inbox_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX notifications_unread ON notifications (inbox_id, id) WHERE read_at IS NULL;
CREATE UNIQUE INDEX notifications_by_id ON notifications (id);

CREATE TABLE notification_data (
    notification_id BLOB PRIMARY KEY,
    data            TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- An app installation that can be pushed to, and the courier's schedule: the device is the unit that is claimed, so that
-- at most one push per token is in flight.
CREATE TABLE device_tokens (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    app                TEXT    NOT NULL,
    token              TEXT    NOT NULL,
    inbox_id           INTEGER NOT NULL REFERENCES inboxes (id),
    platform           TEXT    NOT NULL,
    provider           TEXT    NOT NULL,
    environment        TEXT    NOT NULL,
    app_version        TEXT,
    locale             TEXT,
    created_at         INTEGER NOT NULL,
    last_registered_at INTEGER NOT NULL,
    told_count         INTEGER,              -- the number the device was last told; NULL: unknown
    told_at            INTEGER,
    attempted          INTEGER NOT NULL DEFAULT 0, -- 1 once any push was attempted
    badge_due_at       INTEGER,              -- when the owed badge push may go; NULL: none is owed
    badge_attempts     INTEGER NOT NULL DEFAULT 0,
    due_at             INTEGER,              -- when the courier should look at this device; while in flight: the lease's end
    in_flight          INTEGER NOT NULL DEFAULT 0,
    UNIQUE (app, token)
) STRICT;

CREATE INDEX device_tokens_inbox ON device_tokens (inbox_id);
CREATE INDEX device_tokens_due ON device_tokens (due_at) WHERE due_at IS NOT NULL;

-- One alert owed to one device token, until it is settled. `id` is the apns-id of every attempt.
CREATE TABLE deliveries (
    notification_id BLOB    NOT NULL,
    device_id       INTEGER NOT NULL,
    id              BLOB    NOT NULL,
    inbox_id        INTEGER NOT NULL,
    state           TEXT    NOT NULL CHECK (state IN ('owed', 'sending', 'accepted', 'superseded', 'gone', 'rejected', 'failed')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER,                 -- NULL once settled
    settled_at      INTEGER,
    token           TEXT,                    -- kept when the device token left, so that the delivery can still be explained
    answers         TEXT,                    -- JSON array of the provider's answers
    PRIMARY KEY (notification_id, device_id)
) STRICT, WITHOUT ROWID;

-- Over settled_at and not over due_at: claiming changes the one and leaves the index alone.
CREATE INDEX deliveries_unsettled ON deliveries (device_id) WHERE settled_at IS NULL;

-- Producers' keys; only the SHA-256 of a key is kept.
CREATE TABLE api_keys (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    app        TEXT    NOT NULL,
    hash       BLOB    NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE UNIQUE INDEX api_keys_name ON api_keys (name) WHERE revoked_at IS NULL;

-- The first answer to an Idempotency-Key, for 24 h.
CREATE TABLE idempotency_keys (
    api_key_id  INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,            -- SHA-256 of the request's body
    location    TEXT,
    answer      BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (api_key_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

-- One row of what the program must remember over restarts.
CREATE TABLE program_state (
    id                 INTEGER PRIMARY KEY CHECK (id = 1),
    ids_reserved_until INTEGER NOT NULL DEFAULT 0, -- no id with a later millisecond was ever given out
    write_proofs       INTEGER NOT NULL DEFAULT 0, -- how often readiness was proved by a write
    badge_policy       TEXT                        -- the policy under which the versions were counted
) STRICT;

INSERT INTO program_state (id) VALUES (1);
