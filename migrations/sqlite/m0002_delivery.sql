-- Real providers. A device in flight carries the lease of the server's start that sends to it: a lease of another start is
-- dead, and nobody waits for it.
DROP INDEX device_tokens_due;
ALTER TABLE device_tokens RENAME COLUMN in_flight TO lease; -- 0: no push is in flight; else the number of the start

-- A lane is (app, provider): each is claimed for itself, so that none holds up another. What is in flight isn't due.
CREATE INDEX device_tokens_due ON device_tokens (app, provider, due_at) WHERE due_at IS NOT NULL AND lease = 0;

-- Only what waits stands in the index: a push that is sent as soon as it is created never does. What is in flight is named by
-- the device; what was in flight to a device that left is settled when it leaves.
DROP INDEX deliveries_unsettled;
UPDATE deliveries SET state = 'gone', settled_at = coalesce(due_at, 0), due_at = NULL
WHERE settled_at IS NULL AND device_id NOT IN (SELECT id FROM device_tokens);
UPDATE deliveries SET state = 'owed' WHERE state = 'sending';
UPDATE device_tokens SET lease = 0, told_count = NULL, told_at = NULL WHERE lease = 1;
ALTER TABLE device_tokens ADD COLUMN sending_id BLOB; -- the notification whose alert is in flight; NULL: none, or a badge push
CREATE INDEX deliveries_owed ON deliveries (device_id, due_at) WHERE due_at IS NOT NULL;

-- Why nothing was owed stands in a row of the device 0, so that a notification is found by its id without an index for it.
ALTER TABLE deliveries ADD COLUMN reason TEXT; -- of device 0: 'push_false', 'expired' or 'no_devices'
INSERT OR IGNORE INTO deliveries (notification_id, device_id, id, inbox_id, state, settled_at, reason)
SELECT id, 0, id, inbox_id, 'superseded', created_at,
    CASE WHEN push = 0 THEN 'push_false' WHEN expires_at <= created_at THEN 'expired' ELSE 'no_devices' END
FROM notifications n WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.notification_id = n.id)
    AND created_at > unixepoch() * 1000 - 2592000000; -- 30 days: deliveries of older ones may have had their time
DROP INDEX notifications_by_id;

ALTER TABLE program_state ADD COLUMN starts INTEGER NOT NULL DEFAULT 1;

-- The token of each APNs key that is presented now: a restart must present the same one, because Apple limits how often a
-- team may renew. Good for an hour at most, and no key.
CREATE TABLE provider_tokens (
    team_id     TEXT    NOT NULL,
    key_id      TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,            -- SHA-256 of the key, hexadecimal
    issued_at   INTEGER NOT NULL,            -- seconds: the token's iat
    token       TEXT    NOT NULL,
    PRIMARY KEY (team_id, key_id, fingerprint)
) STRICT, WITHOUT ROWID;

-- The lanes that don't run as they should, for the operator; a lane that runs has no row.
CREATE TABLE lane_conditions (
    app       TEXT    NOT NULL,
    provider  TEXT    NOT NULL,
    condition TEXT    NOT NULL CHECK (condition IN ('outage', 'parked')),
    reason    TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    PRIMARY KEY (app, provider)
) STRICT, WITHOUT ROWID;
