-- The producer's own name for a notification; the API key that created it, or NULL for one of `campanile notify`, of an import or of an
-- earlier program; and when a producer changed it last.
ALTER TABLE notifications ADD external_id text COLLATE "C";
ALTER TABLE notifications ADD api_key_id bigint;
ALTER TABLE notifications ADD edited_at bigint;

-- The external ids that notifications were created with: each is of one notification of a user, also when that is gone. A withdrawal
-- looks at those that it hasn't found gone.
CREATE TABLE external_ids (
    app             text    COLLATE "C" NOT NULL,
    external_id     text    COLLATE "C" NOT NULL,
    is_gone         boolean NOT NULL DEFAULT false,
    inbox_id        bigint  NOT NULL REFERENCES inboxes (id),
    notification_id uuid    NOT NULL,
    PRIMARY KEY (app, external_id, is_gone, inbox_id)
);
