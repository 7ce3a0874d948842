-- A lane stops in parts: by the platform and the environment of the devices. What waits is found by the part. Nodes of before find it
-- in the index device_tokens_due, and write to lane_conditions; a later schema drops both.
CREATE INDEX device_tokens_due_part ON device_tokens (shard, app, provider, platform, environment, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE lane_part_conditions (
    app         text   COLLATE "C" NOT NULL,
    provider    text   COLLATE "C" NOT NULL,
    platform    text   COLLATE "C" NOT NULL,
    environment text   COLLATE "C" NOT NULL,
    condition   text   COLLATE "C" NOT NULL CHECK (condition IN ('outage', 'parked')),
    reason      text   NOT NULL,
    since       bigint NOT NULL,
    node_id     uuid   NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    PRIMARY KEY (app, provider, platform, environment, node_id)
);
