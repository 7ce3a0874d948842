-- When a device last named itself, so that one that is gone can be told from one that says nothing new.
ALTER TABLE device_tokens ADD COLUMN seen_at INTEGER;
