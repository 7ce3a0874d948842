-- A third kind of key: it broadcasts to its app's streams, and does nothing else.
ALTER TABLE api_keys DROP CONSTRAINT api_keys_kind_check;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_kind_check CHECK (kind = 'producer' OR kind = 'operate' OR kind = 'broadcast');

-- What apps broadcast to their own streams, for minutes. `sequence` is what clients know as the offset: one series for an app. The empty
-- stream has the commands to end a user's connections.
CREATE TABLE broadcasts (
    app        text   COLLATE "C" NOT NULL,
    sequence   bigint NOT NULL,
    stream     text   COLLATE "C" NOT NULL,
    id         text   COLLATE "C",
    except_sid text   COLLATE "C",
    bytes      bigint NOT NULL,
    created_at bigint NOT NULL,
    message    text   COLLATE "C" NOT NULL,
    PRIMARY KEY (app, sequence)
);
CREATE INDEX broadcasts_stream ON broadcasts (app, stream, sequence);
CREATE UNIQUE INDEX broadcasts_id ON broadcasts (app, id) WHERE id IS NOT NULL;

-- The series of each app. A restored database begins another one, under another epoch.
CREATE TABLE broadcast_series (
    app               text   COLLATE "C" PRIMARY KEY,
    epoch             text   COLLATE "C" NOT NULL,
    last_sequence     bigint NOT NULL,
    dropped_through   bigint NOT NULL,
    forgotten_through bigint NOT NULL,
    forgotten_at      bigint NOT NULL,
    bytes             bigint NOT NULL
);

-- What was dropped of each stream, so that nobody who has the rest is told that something is missing.
CREATE TABLE broadcast_streams (
    app             text   COLLATE "C" NOT NULL,
    stream          text   COLLATE "C" NOT NULL,
    dropped_through bigint NOT NULL,
    dropped_at      bigint NOT NULL,
    PRIMARY KEY (app, stream)
);
CREATE UNIQUE INDEX broadcast_streams_dropped ON broadcast_streams (app, dropped_through);
