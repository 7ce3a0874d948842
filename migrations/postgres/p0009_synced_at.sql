-- When a provider last accepted a badge push to the device: the next one waits longer while its user reads on.
ALTER TABLE device_tokens ADD synced_at bigint;
