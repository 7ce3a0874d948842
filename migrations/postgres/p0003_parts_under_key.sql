-- A call for many users is done part by part under its key. Until it has ended, the key's row has no answer, and here the ids that
-- the parts have made: 16 bytes for each user, in the order of the call. A node of the program before refuses such a key as one
-- under way.

ALTER TABLE idempotency_keys ADD made bytea;
