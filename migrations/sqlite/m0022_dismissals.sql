-- The notifications that are to leave the device's notification centre, as they were handled elsewhere: their ids, first those that no accepted push named, and
-- behind a semicolon those that only a badge push did; each list may begin with `through:` and an id, which says everything up to it.
ALTER TABLE device_tokens ADD COLUMN dismissals TEXT;
-- When the number became 0 on an iPhone: iOS emptied its notification centre then.
ALTER TABLE device_tokens ADD COLUMN emptied_at INTEGER;
