-- What is left of a device that left is settled from the latest due on: what comes before this, and not after it. Of one that left
-- before, anything may be left.
ALTER TABLE departed_devices ADD COLUMN before_due_at INTEGER NOT NULL DEFAULT 9223372036854775807;
ALTER TABLE departed_devices ADD COLUMN before_id BLOB NOT NULL DEFAULT x'ffffffffffffffffffffffffffffffff';

-- When a device token left, because its app signed out or its provider called it dead: an older registration doesn't bring it back
-- (`campanile import`). The row goes when the token registers again.
CREATE TABLE left_tokens (
    id       INTEGER PRIMARY KEY,
    app      TEXT    NOT NULL,
    token    TEXT    NOT NULL,
    inbox_id INTEGER NOT NULL,
    left_at  INTEGER NOT NULL,
    UNIQUE (app, token)
) STRICT;
CREATE INDEX left_tokens_inbox ON left_tokens (inbox_id);
CREATE INDEX left_tokens_left ON left_tokens (left_at);
