-- When a device last named itself, so that one that is gone can be told from one that says nothing new.
ALTER TABLE device_tokens ADD COLUMN seen_at INTEGER;
-- Nobody noted it until now: those that are there get the whole time from here on.
UPDATE device_tokens SET seen_at = unixepoch() * 1000;
