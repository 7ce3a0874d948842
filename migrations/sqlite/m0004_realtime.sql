-- Realtime: what happens in an inbox, for the streams that are told it and for those that resume (docs/realtime.md).

-- In the order of the commits. `badge`: the count or the unread count changed; its number is read when it is told.
-- `listening`: recording began here, and nothing before it can be asked for.
CREATE TABLE events (
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
    inbox_id        INTEGER NOT NULL REFERENCES inboxes (id),
    type            TEXT    NOT NULL CHECK (type IN ('created', 'updated', 'deleted', 'read_all', 'badge', 'listening')),
    notification_id BLOB,                    -- of read_all: the newest that was marked; NULL: all
    created_at      INTEGER NOT NULL
) STRICT;

CREATE INDEX events_inbox ON events (inbox_id, sequence);

-- Events are recorded only for those who may ask for them: a stream that opens renews the time, and who comes back after
-- it starts anew. So an inbox that nobody listens to costs its producers nothing.
ALTER TABLE inboxes ADD COLUMN listened_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inboxes ADD COLUMN listened_from INTEGER NOT NULL DEFAULT 0; -- the sequence at which recording began

ALTER TABLE program_state ADD COLUMN events_purged_through INTEGER NOT NULL DEFAULT 0; -- no older sequence is complete
ALTER TABLE program_state ADD COLUMN stream_token_key BLOB; -- signs the tokens that open streams

-- Users whose tokens issued before a moment are refused, and whose streams end.
CREATE TABLE revocations (
    app        TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    not_before INTEGER NOT NULL,
    PRIMARY KEY (app, user_id)
) STRICT, WITHOUT ROWID;
