-- The policy that an inbox' badge follows, and the number that a producer gave it.
ALTER TABLE inboxes ADD COLUMN badge_policy TEXT NOT NULL DEFAULT 'unread';
ALTER TABLE inboxes ADD COLUMN given_count INTEGER NOT NULL DEFAULT 0 CHECK (given_count >= 0);
UPDATE inboxes SET badge_policy = 'since_opened' WHERE (SELECT badge_policy FROM program_state WHERE id = 1) = 'since_opened';

-- The policies of the apps that have their own. That of the others is program_state.badge_policy.
CREATE TABLE app_policies (
    app          TEXT PRIMARY KEY,
    badge_policy TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The number of each tenant under the policy given, and the sequence with which a producer gave it. The inbox' number is their sum.
CREATE TABLE tenant_badges (
    inbox_id INTEGER NOT NULL REFERENCES inboxes (id),
    tenant   TEXT    NOT NULL,
    count    INTEGER NOT NULL CHECK (count >= 0),
    sequence INTEGER NOT NULL,
    PRIMARY KEY (inbox_id, tenant)
) STRICT, WITHOUT ROWID;

-- An Idempotency-Key is of a name in an app, and not of one of its keys: the first of these has the rows of all.
UPDATE OR REPLACE idempotency_keys SET api_key_id =
    (SELECT min(o.id) FROM api_keys k JOIN api_keys o ON o.name = k.name AND o.app = k.app WHERE k.id = api_key_id)
WHERE api_key_id IN (SELECT id FROM api_keys) AND api_key_id NOT IN (SELECT min(id) FROM api_keys GROUP BY name, app);
