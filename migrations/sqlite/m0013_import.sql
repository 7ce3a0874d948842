-- What came in from another system (`campanile import`). An entry that was deleted since is still named here, so that a second run
-- doesn't bring it back. A table of its own: creating and reading never look at it.
CREATE TABLE imported_entries (
    app         TEXT NOT NULL,
    external_id TEXT NOT NULL,
    PRIMARY KEY (app, external_id)
) STRICT, WITHOUT ROWID;

-- Unread notifications that came in while the badge showed a number. The number leaves as many out until the user has looked.
ALTER TABLE inboxes ADD COLUMN uncounted INTEGER NOT NULL DEFAULT 0 CHECK (uncounted BETWEEN 0 AND unread_count);
