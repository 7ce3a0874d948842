-- The kind of the identifier in `token`: token, or fid, a Firebase Installation ID. Every one from before is a token, and so is every
-- one that a node of the program before registers.

ALTER TABLE device_tokens ADD kind text COLLATE "C" NOT NULL DEFAULT 'token';
