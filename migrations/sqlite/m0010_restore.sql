-- A restored database can't know the versions that the lost one gave out, so the restore moves all of them on: those of the inboxes
-- that it has, and by this column those of the users that only the lost one knew.
ALTER TABLE program_state ADD COLUMN versions_from INTEGER NOT NULL DEFAULT 0;
