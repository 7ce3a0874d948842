-- The database as the newest migration leaves it: what to read, and what to write queries for a report by. The server never runs
-- this file: it runs migrations/sqlite/*.sql in order. `make lint` compares the two (e2e/contract/check_schema.py).
--
-- Ids are 16 bytes (UUIDv7, RFC 9562), whose order is the order of their creation. Times are milliseconds since 1970 UTC.

-- One row for each user of an app. It is never deleted.
CREATE TABLE inboxes (
    id                   INTEGER PRIMARY KEY,
    app                  TEXT    NOT NULL,
    user_id              TEXT    NOT NULL,
    unread_count         INTEGER NOT NULL DEFAULT 0 CHECK (unread_count >= 0),
    -- unread notifications with id > cleared_id: the badge under the policy since_opened
    unread_since_cleared INTEGER NOT NULL DEFAULT 0 CHECK (unread_since_cleared BETWEEN 0 AND unread_count),
    armed                INTEGER NOT NULL DEFAULT 0, -- 1: the badge under the policy unread is unread_count; 0: it is 0
    cleared_id           BLOB,                       -- the newest notification at the last clearing
    newest_id            BLOB,                       -- the newest notification that ever was here
    version              INTEGER NOT NULL DEFAULT 0, -- grows with every change of the badge or of unread_count
    updated_at           INTEGER,                    -- when version last grew
    listened_until       INTEGER NOT NULL DEFAULT 0, -- until then events are recorded for this inbox
    listened_from        INTEGER NOT NULL DEFAULT 0, -- its events are complete after this sequence
    unread_from          BLOB,                       -- no older notification is unread; NULL: any may be
    -- unread ones that were imported while the badge showed a number, which leaves as many out until the next clearing
    uncounted            INTEGER NOT NULL DEFAULT 0 CHECK (uncounted BETWEEN 0 AND unread_count),
    badge_policy         TEXT    NOT NULL DEFAULT 'unread', -- unread, since_opened or given
    -- the badge under the policy given: the sum of tenant_badges, or the number that there was before the first was given
    given_count          INTEGER NOT NULL DEFAULT 0 CHECK (given_count >= 0),
    UNIQUE (app, user_id)
) STRICT;

-- The number of each tenant under the policy given, and the sequence with which a producer gave it.
CREATE TABLE tenant_badges (
    inbox_id INTEGER NOT NULL REFERENCES inboxes (id),
    tenant   TEXT    NOT NULL, -- empty: a number without one
    count    INTEGER NOT NULL CHECK (count >= 0),
    sequence INTEGER NOT NULL, -- a later call with no greater one changes nothing
    PRIMARY KEY (inbox_id, tenant)
) STRICT, WITHOUT ROWID;

CREATE TABLE notifications (
    inbox_id     INTEGER NOT NULL REFERENCES inboxes (id),
    id           BLOB    NOT NULL,
    created_at   INTEGER NOT NULL,
    read_at      INTEGER,                    -- NULL: unread
    title        TEXT    NOT NULL,
    body         TEXT    NOT NULL,
    category     TEXT,
    deep_link    TEXT,
    data         TEXT,                       -- a JSON object, or NULL
    data_aside   INTEGER NOT NULL DEFAULT 0, -- 1: the JSON object stands in notification_data
    push         INTEGER NOT NULL DEFAULT 1, -- 0: created with push: false
    sound        TEXT,
    collapse_key TEXT,
    thread_id    TEXT,
    expires_at   INTEGER,                    -- of the push only
    payload      TEXT,                       -- the push's further fields, a JSON object, or NULL; of a large one what a list shows
    external_id  TEXT,                       -- the producer's own name for it
    api_key_id   INTEGER,                    -- the key that created it; NULL: none, or unknown
    edited_at    INTEGER,                    -- when a producer changed it last
    PRIMARY KEY (inbox_id, id)
) STRICT, WITHOUT ROWID;

-- Large `data`, beside the row, so that the rows of a page stay on few pages of the file.
CREATE TABLE notification_data (
    notification_id BLOB PRIMARY KEY,
    data            TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A large `payload`, whole.
CREATE TABLE notification_payloads (
    notification_id BLOB PRIMARY KEY,
    payload         TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The external ids that notifications were created with: each is of one notification of a user, also when that is gone.
CREATE TABLE external_ids (
    app             TEXT    NOT NULL,
    external_id     TEXT    NOT NULL,
    is_gone         INTEGER NOT NULL DEFAULT 0, -- 1: a withdrawal found the notification gone, or took it away
    inbox_id        INTEGER NOT NULL REFERENCES inboxes (id),
    notification_id BLOB    NOT NULL,
    PRIMARY KEY (app, external_id, is_gone, inbox_id)
) STRICT, WITHOUT ROWID;

-- Keeps unread_from right when a notification is marked unread.
CREATE TRIGGER notifications_unread_again AFTER UPDATE OF read_at ON notifications WHEN NEW.read_at IS NULL
BEGIN
    UPDATE inboxes SET unread_from = NEW.id WHERE id = NEW.inbox_id AND unread_from > NEW.id;
END;

CREATE TABLE device_tokens (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    app                TEXT    NOT NULL,
    token              TEXT    NOT NULL,
    inbox_id           INTEGER NOT NULL REFERENCES inboxes (id),
    platform           TEXT    NOT NULL,     -- ios, android
    provider           TEXT    NOT NULL,     -- apns, fcm
    environment        TEXT    NOT NULL,     -- production, sandbox: which of Apple's services knows the token
    app_version        TEXT,
    locale             TEXT,
    created_at         INTEGER NOT NULL,
    last_registered_at INTEGER NOT NULL,
    told_count         INTEGER,              -- the number the device was last told; NULL: unknown
    told_at            INTEGER,
    attempted          INTEGER NOT NULL DEFAULT 0, -- 1 once any push was attempted
    badge_due_at       INTEGER,              -- when the owed badge push may go; NULL: none is owed
    badge_attempts     INTEGER NOT NULL DEFAULT 0,
    due_at             INTEGER,              -- when the device is to be looked at; NULL: nothing is owed, or a push is in flight
    lease              INTEGER NOT NULL DEFAULT 0, -- the start of the server whose push is in flight; 0: none is
    sending_id         BLOB,                 -- the notification whose alert is in flight; NULL: a badge push, or nothing
    busy_until         INTEGER,              -- the provider wants to hear nothing of the device before; it may be over
    seen_at            INTEGER,              -- when it last named itself with X-Device-Token, noted once a day; NULL: not since it registered
    kind               TEXT    NOT NULL DEFAULT 'token', -- token, or fid: a Firebase Installation ID
    dismissals         TEXT,                 -- what is to leave its notification centre: ids that no accepted push named; ids that a
                                             -- badge push named; each list may begin with through: and an id; NULL: nothing
    emptied_at         INTEGER,              -- when the number became 0 on an iPhone, which emptied its notification centre
    synced_at          INTEGER,              -- when a provider last accepted a badge push; the next waits longer while the user reads on
    UNIQUE (app, token)
) STRICT;
CREATE INDEX device_tokens_inbox ON device_tokens (inbox_id);
CREATE INDEX device_tokens_due ON device_tokens (app, provider, platform, environment, due_at)
    WHERE due_at IS NOT NULL AND lease = 0;

-- One alert owed to one device. A notification for which nothing was owed has a single row, of device 0, that says why.
CREATE TABLE deliveries (
    notification_id BLOB    NOT NULL,
    device_id       INTEGER NOT NULL,
    id              BLOB    NOT NULL,        -- apns-id
    inbox_id        INTEGER NOT NULL,
    state           TEXT    NOT NULL CHECK (state = 'sending' OR state = 'accepted' OR state = 'owed' OR state = 'superseded'
                                         OR state = 'gone' OR state = 'rejected' OR state = 'failed' OR state = 'withheld'),
    attempts        INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER,                 -- NULL once settled, and in flight unless an edit waits
    settled_at      INTEGER,
    token           TEXT,                    -- kept when the device left, so that the delivery can still be explained
    answers         TEXT,                    -- JSON array of the provider's answers; NULL: accepted at the first attempt, or none
    reason          TEXT,                    -- of device 0: push_false, expired, no_devices, imported; of others: app_version (withheld),
                                             -- without_link (sent so), restored (superseded),
                                             -- edited (sent again), or NULL
    traceparent     TEXT,                    -- W3C Trace Context: the trace that the producer created it in, if it named one
    PRIMARY KEY (notification_id, device_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_owed ON deliveries (device_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_unsuccessful ON deliveries (state, notification_id, device_id)
WHERE state = 'rejected' OR state = 'failed' OR state = 'gone' OR state = 'withheld';

-- Devices that left an inbox while more was owed to them than one transaction settles. What is left of it counts as settled when they
-- left, and is settled part by part; the row goes with the last.
CREATE TABLE departed_devices (
    device_id   INTEGER NOT NULL,
    inbox_id    INTEGER NOT NULL,            -- the inbox that it left: the device may be another user's now, or gone
    token       TEXT    NOT NULL,
    departed_at INTEGER NOT NULL,
    before_due_at INTEGER NOT NULL DEFAULT 9223372036854775807, -- what is left is due before this
    before_id     BLOB    NOT NULL DEFAULT x'ffffffffffffffffffffffffffffffff', -- or then, and of a notification before this one
    PRIMARY KEY (device_id, inbox_id)
) STRICT, WITHOUT ROWID;

-- The parts of lanes that don't run.
CREATE TABLE lane_part_conditions (
    app         TEXT    NOT NULL,
    provider    TEXT    NOT NULL,
    platform    TEXT    NOT NULL,
    environment TEXT    NOT NULL,
    condition   TEXT    NOT NULL CHECK (condition IN ('outage', 'parked')),
    reason      TEXT    NOT NULL,
    since       INTEGER NOT NULL,
    PRIMARY KEY (app, provider, platform, environment)
) STRICT, WITHOUT ROWID;

-- Apple's provider tokens, which may be made anew only every 20 minutes: a restart goes on with the last.
CREATE TABLE provider_tokens (
    team_id     TEXT    NOT NULL,
    key_id      TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,            -- SHA-256 of the key, hexadecimal
    issued_at   INTEGER NOT NULL,            -- seconds: the token's iat
    token       TEXT    NOT NULL,
    PRIMARY KEY (team_id, key_id, fingerprint)
) STRICT, WITHOUT ROWID;

-- What happened in the inboxes that somebody listens to.
CREATE TABLE events (
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
    inbox_id        INTEGER NOT NULL REFERENCES inboxes (id),
    type            TEXT    NOT NULL CHECK (type = 'created' OR type = 'badge' OR type = 'updated' OR type = 'deleted'
                                         OR type = 'read_all' OR type = 'listening'),
    notification_id BLOB,                    -- of read_all: the newest that was marked; NULL: all
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX events_inbox ON events (inbox_id, sequence);

CREATE TABLE api_keys (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    app        TEXT    NOT NULL,
    hash       BLOB    NOT NULL UNIQUE,      -- SHA-256 of the key
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    kind       TEXT    NOT NULL DEFAULT 'producer' CHECK (kind = 'producer' OR kind = 'operate' OR kind = 'broadcast')
) STRICT;
CREATE UNIQUE INDEX api_keys_name ON api_keys (name) WHERE revoked_at IS NULL;

-- What apps broadcast to their own streams, for minutes. One series for an app.
CREATE TABLE broadcasts (
    app        TEXT    NOT NULL,
    sequence   INTEGER NOT NULL,         -- what clients know as the offset
    stream     TEXT    NOT NULL,         -- empty: a command to end a user's connections
    id         TEXT   ,                  -- the sender's; one goes once
    except_sid TEXT   ,                  -- the cable connection that doesn't get it
    bytes      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    message    TEXT    NOT NULL,         -- JSON text
    PRIMARY KEY (app, sequence)
) STRICT;
CREATE INDEX broadcasts_stream ON broadcasts (app, stream, sequence);
CREATE UNIQUE INDEX broadcasts_id ON broadcasts (app, id) WHERE id IS NOT NULL;

-- The series of each app. A restored database begins another one, under another epoch.
CREATE TABLE broadcast_series (
    app               TEXT    PRIMARY KEY,
    epoch             TEXT    NOT NULL,
    last_sequence     INTEGER NOT NULL,
    dropped_through   INTEGER NOT NULL,    -- everything up to it was dropped, whatever its stream
    forgotten_through INTEGER NOT NULL,    -- the last one dropped of the streams that aren't in broadcast_streams any more
    forgotten_at      INTEGER NOT NULL,    -- its time
    bytes             INTEGER NOT NULL     -- of what is kept
) STRICT, WITHOUT ROWID;

-- What was dropped of each stream, so that nobody who has the rest is told that something is missing.
CREATE TABLE broadcast_streams (
    app             TEXT    NOT NULL,
    stream          TEXT    NOT NULL,
    dropped_through INTEGER NOT NULL,    -- the last one's place in the series
    dropped_at      INTEGER NOT NULL,    -- when it was broadcast
    PRIMARY KEY (app, stream)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX broadcast_streams_dropped ON broadcast_streams (app, dropped_through);

-- The first answer to each Idempotency-Key, for a day; to one that begins with "outbox:", for retention.outbox_keys. A call for many users that hasn't ended has an empty one, and the ids that its
-- parts have made.
CREATE TABLE idempotency_keys (
    api_key_id  INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,            -- SHA-256 of the request's body
    location    TEXT,
    answer      BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    made        BLOB,                        -- 16 bytes for each of the first users; NULL: the call has ended
    -- 24 bytes for each of those: count, unread_count and version as its part left them, or zeros; NULL: none is known
    badges      BLOB,
    PRIMARY KEY (api_key_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

-- Calls for many users that a program before schema 17 had under way when it ended. The next start finishes them. A later schema
-- drops the table.
CREATE TABLE large_calls (
    id           INTEGER PRIMARY KEY,
    app          TEXT    NOT NULL,
    user_ids     TEXT    NOT NULL,           -- JSON array, in the order given, every user once
    title        TEXT    NOT NULL,           -- this and what follows as in notifications, as it was taken
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
    api_key_id   INTEGER,                    -- with key and fingerprint as in idempotency_keys; NULL: it came without a key
    key          TEXT,
    fingerprint  BLOB
) STRICT;

-- The notifications that it had made of them.
CREATE TABLE large_call_parts (
    call_id INTEGER NOT NULL REFERENCES large_calls (id) ON DELETE CASCADE,
    done    INTEGER NOT NULL,                -- for how many users the earlier parts are
    ids     BLOB    NOT NULL,                -- 16 bytes for each of the next users
    PRIMARY KEY (call_id, done)
) STRICT, WITHOUT ROWID;

-- Users whose older tokens are refused.
CREATE TABLE revocations (
    app        TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    not_before INTEGER NOT NULL,             -- tokens issued before are refused
    PRIMARY KEY (app, user_id)
) STRICT, WITHOUT ROWID;

-- The entries that `campanile import` brought in, also those that were deleted since: a second run doesn't bring them back.
CREATE TABLE imported_entries (
    app         TEXT NOT NULL,
    external_id TEXT NOT NULL,               -- what the other system called it
    PRIMARY KEY (app, external_id)
) STRICT, WITHOUT ROWID;

-- Device tokens that left, because their app signed out or their provider called them dead: an import of an older registration doesn't
-- bring them back. A row goes when its token registers again, after `retention.device_tokens`, or when fifty later ones of its inbox left.
CREATE TABLE left_tokens (
    id       INTEGER PRIMARY KEY,
    app      TEXT    NOT NULL,
    token    TEXT    NOT NULL,
    inbox_id INTEGER NOT NULL,               -- the inbox that it left
    left_at  INTEGER NOT NULL,               -- not before its last registration
    UNIQUE (app, token)
) STRICT;
CREATE INDEX left_tokens_inbox ON left_tokens (inbox_id);
CREATE INDEX left_tokens_left ON left_tokens (left_at);

-- The policies of the apps that have their own, as the last start found them in the configuration.
CREATE TABLE app_policies (
    app          TEXT PRIMARY KEY,
    badge_policy TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: what a start has to know of those before it.
CREATE TABLE program_state (
    id                    INTEGER PRIMARY KEY CHECK (id = 1),
    ids_reserved_until    INTEGER NOT NULL DEFAULT 0, -- no id with a later millisecond was ever given out
    write_proofs          INTEGER NOT NULL DEFAULT 0, -- how often readiness was proved by a write
    badge_policy          TEXT,                       -- the policy of the apps that app_policies doesn't name; NULL before the first start
    starts                INTEGER NOT NULL DEFAULT 1, -- how often the server was started: the lease of pushes in flight
    events_purged_through INTEGER NOT NULL DEFAULT 0, -- events up to this sequence are gone
    stream_token_key      BLOB,                       -- 32 random bytes that sign stream tokens and seal cursors
    versions_from         INTEGER NOT NULL DEFAULT 0, -- the version of a badge that never changed; a restore raises it
    retained_at           INTEGER,                    -- when retention last ran; NULL: never
    doubted_at            INTEGER                     -- since when the clock is held for wrong; NULL: it isn't
) STRICT;
