-- What takes more than one transaction, and is finished by the next start if this one ends before.

-- A device that left an inbox while more was owed to it than one transaction settles. What is left is settled part by part; the
-- row goes with the last.
CREATE TABLE departed_devices (
    device_id   INTEGER NOT NULL,
    inbox_id    INTEGER NOT NULL,
    token       TEXT    NOT NULL,
    departed_at INTEGER NOT NULL,
    PRIMARY KEY (device_id, inbox_id)
) STRICT, WITHOUT ROWID;
