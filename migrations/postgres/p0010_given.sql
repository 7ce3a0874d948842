-- The policy that an inbox' badge follows, and the number that a producer gave it. An inbox that a node of an earlier program makes
-- follows the policy that there was.
DO $$
BEGIN
    EXECUTE format(
        'ALTER TABLE inboxes ADD badge_policy text COLLATE "C" NOT NULL DEFAULT %L',
        coalesce((SELECT badge_policy FROM program_state WHERE id = 1), 'unread'));
END
$$;
ALTER TABLE inboxes ADD given_count bigint NOT NULL DEFAULT 0 CHECK (given_count >= 0);

-- The policies of the apps that have their own. That of the others is program_state.badge_policy.
CREATE TABLE app_policies (
    app          text COLLATE "C" PRIMARY KEY,
    badge_policy text COLLATE "C" NOT NULL
);

-- The number of each tenant under the policy given, and the sequence with which a producer gave it. The inbox' number is their sum.
CREATE TABLE tenant_badges (
    inbox_id bigint NOT NULL REFERENCES inboxes (id),
    tenant   text   COLLATE "C" NOT NULL,
    count    bigint NOT NULL CHECK (count >= 0),
    sequence bigint NOT NULL,
    PRIMARY KEY (inbox_id, tenant)
);

-- An Idempotency-Key is of a name in an app, and not of one of its keys: the first of these has the rows of all, and of two with one text
-- that of the later key.
DELETE FROM idempotency_keys i USING api_keys k, idempotency_keys later, api_keys l
WHERE k.id = i.api_key_id AND l.id = later.api_key_id AND later.key = i.key AND l.name = k.name AND l.app = k.app AND l.id > k.id;
UPDATE idempotency_keys i SET api_key_id = f.first
FROM (SELECT k.id, min(o.id) AS first FROM api_keys k JOIN api_keys o ON o.name = k.name AND o.app = k.app GROUP BY k.id) f
WHERE f.id = i.api_key_id AND f.first <> i.api_key_id;
