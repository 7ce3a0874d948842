-- The producer's own name for a notification; the API key that created it, or NULL for one of `campanile notify`, of an import or of an
-- earlier program; and when a producer changed it last.
ALTER TABLE notifications ADD COLUMN external_id TEXT;
ALTER TABLE notifications ADD COLUMN api_key_id INTEGER;
ALTER TABLE notifications ADD COLUMN edited_at INTEGER;

-- The external ids that notifications were created with: each is of one notification of a user, also when that is gone. A withdrawal
-- looks at those that it hasn't found gone.
CREATE TABLE external_ids (
    app             TEXT    NOT NULL,
    external_id     TEXT    NOT NULL,
    is_gone         INTEGER NOT NULL DEFAULT 0,
    inbox_id        INTEGER NOT NULL REFERENCES inboxes (id),
    notification_id BLOB    NOT NULL,
    PRIMARY KEY (app, external_id, is_gone, inbox_id)
) STRICT, WITHOUT ROWID;
