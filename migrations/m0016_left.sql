-- What is left of a device that left is settled from the latest due on: what comes before this, and not after it. Of one that left
-- before, anything may be left.
ALTER TABLE departed_devices ADD COLUMN before_due_at INTEGER NOT NULL DEFAULT 9223372036854775807;
ALTER TABLE departed_devices ADD COLUMN before_id BLOB NOT NULL DEFAULT x'ffffffffffffffffffffffffffffffff';
