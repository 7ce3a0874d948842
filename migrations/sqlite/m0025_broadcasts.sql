-- A third kind of key: it broadcasts to its app's streams, and does nothing else.
CREATE TABLE api_keys_of_kinds (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    app        TEXT    NOT NULL,
    hash       BLOB    NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    kind       TEXT    NOT NULL DEFAULT 'producer' CHECK (kind = 'producer' OR kind = 'operate' OR kind = 'broadcast')
) STRICT;
INSERT INTO api_keys_of_kinds (id, name, app, hash, created_at, revoked_at, kind)
    SELECT id, name, app, hash, created_at, revoked_at, kind FROM api_keys;
DROP TABLE api_keys;
ALTER TABLE api_keys_of_kinds RENAME TO api_keys;
CREATE UNIQUE INDEX api_keys_name ON api_keys (name) WHERE revoked_at IS NULL;

-- What apps broadcast to their own streams, for minutes. `sequence` is what clients know as the offset: one series for an app. The empty
-- stream has the commands to end a user's connections.
CREATE TABLE broadcasts (
    app        TEXT    NOT NULL,
    sequence   INTEGER NOT NULL,
    stream     TEXT    NOT NULL,
    id         TEXT,
    except_sid TEXT,
    bytes      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    message    TEXT    NOT NULL,
    PRIMARY KEY (app, sequence)
) STRICT;
CREATE INDEX broadcasts_stream ON broadcasts (app, stream, sequence);
CREATE UNIQUE INDEX broadcasts_id ON broadcasts (app, id) WHERE id IS NOT NULL;

-- The series of each app. A restored database begins another one, under another epoch.
CREATE TABLE broadcast_series (
    app               TEXT    PRIMARY KEY,
    epoch             TEXT    NOT NULL,
    last_sequence     INTEGER NOT NULL,
    dropped_through   INTEGER NOT NULL,
    forgotten_through INTEGER NOT NULL,
    forgotten_at      INTEGER NOT NULL,
    bytes             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was dropped of each stream, so that nobody who has the rest is told that something is missing.
CREATE TABLE broadcast_streams (
    app             TEXT    NOT NULL,
    stream          TEXT    NOT NULL,
    dropped_through INTEGER NOT NULL,
    dropped_at      INTEGER NOT NULL,
    PRIMARY KEY (app, stream)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX broadcast_streams_dropped ON broadcast_streams (app, dropped_through);
