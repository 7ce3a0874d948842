-- How often users' tokens were revoked: nodes see by it that they were, without reading all revocations.

ALTER TABLE program_state ADD revocations bigint NOT NULL DEFAULT 0;
