-- What a key may do: act as a producer of its app, or see how the server does with that app and nothing else.
ALTER TABLE api_keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'producer' CHECK (kind = 'producer' OR kind = 'operate');
