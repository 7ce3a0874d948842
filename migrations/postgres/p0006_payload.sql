-- What a push carries beyond words, link and data: a JSON object of the request's fields, or NULL. Of an earlier notification, and of
-- one that a node of the program before makes: NULL.
ALTER TABLE notifications ADD payload text;

-- The badges that the parts of a call have left, 24 bytes for each of `made`: count, unread_count and version, or zeros; NULL: none is known.
ALTER TABLE idempotency_keys ADD badges bytea;
