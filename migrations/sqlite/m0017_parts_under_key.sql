-- A call for many users is done part by part under its key. Until it has ended, the key's row has an empty answer, and here the ids
-- that the parts have made: 16 bytes for each user, in the order of the call.
ALTER TABLE idempotency_keys ADD COLUMN made BLOB;
