-- The kind of the identifier in `token`: token, or fid, a Firebase Installation ID. Every one from before is a token.
ALTER TABLE device_tokens ADD COLUMN kind TEXT NOT NULL DEFAULT 'token';
