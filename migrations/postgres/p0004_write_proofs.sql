-- Each node proves on a row of its own that the database can be written. On the one row that they shared before, a node that was stopped
-- amid its proof held up the others' proofs, and the writes that came with them.

CREATE TABLE write_proofs (
    node_id uuid   PRIMARY KEY,
    proofs  bigint NOT NULL                  -- how many there were
);
