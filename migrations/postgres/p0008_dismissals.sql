-- The notifications that are to leave the device's notification centre, as they were handled elsewhere: their ids, first those that no accepted push named, and
-- behind a semicolon those that only a badge push did; each list may begin with `through:` and an id, which says everything up to it.
ALTER TABLE device_tokens ADD dismissals text COLLATE "C";
-- When the number became 0 on an iPhone: iOS emptied its notification centre then.
ALTER TABLE device_tokens ADD emptied_at bigint;
