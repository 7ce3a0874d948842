-- A lane stops in parts: by the platform and the environment of the devices. What waits is found by the part.
DROP INDEX device_tokens_due;
CREATE INDEX device_tokens_due ON device_tokens (app, provider, platform, environment, due_at)
    WHERE due_at IS NOT NULL AND lease = 0;

-- Nothing is lost: each start finds out anew.
DROP TABLE lane_conditions;
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
