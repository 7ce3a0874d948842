-- A push can be kept from a device whose app is too old for it, so there is one more state; and what the version of an app
-- did to a delivery stands beside its state.
CREATE TABLE deliveries_new (
    notification_id BLOB    NOT NULL,
    device_id       INTEGER NOT NULL,
    id              BLOB    NOT NULL,
    inbox_id        INTEGER NOT NULL,
    state           TEXT    NOT NULL CHECK (state = 'sending' OR state = 'accepted' OR state = 'owed' OR state = 'superseded'
                                         OR state = 'gone' OR state = 'rejected' OR state = 'failed' OR state = 'withheld'),
    attempts        INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER,                 -- NULL once settled, and while it is in flight
    settled_at      INTEGER,
    token           TEXT,                    -- kept when the device token left, so that the delivery can still be explained
    answers         TEXT,                    -- JSON array of the provider's answers
    reason          TEXT,                    -- of device 0: 'push_false', 'expired' or 'no_devices'; of others: 'app_version'
                                             -- (withheld), 'without_link' (sent so) or NULL
    PRIMARY KEY (notification_id, device_id)
) STRICT, WITHOUT ROWID;

INSERT INTO deliveries_new
SELECT notification_id, device_id, id, inbox_id, state, attempts, due_at, settled_at, token, answers, reason FROM deliveries;
DROP TABLE deliveries;
ALTER TABLE deliveries_new RENAME TO deliveries;
CREATE INDEX deliveries_owed ON deliveries (device_id, due_at) WHERE due_at IS NOT NULL;
