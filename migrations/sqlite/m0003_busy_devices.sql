-- A provider that takes no more pushes for one device now says until when (429): nothing goes to the device before, whatever is
-- created meanwhile. `due_at` is never earlier than this. NULL: nothing was said, or a push is in flight.
ALTER TABLE device_tokens ADD COLUMN busy_until INTEGER;
