-- When retention last ran, by the clock: one that has since leapt ahead is held for wrong for a day, before things are deleted by their age.
ALTER TABLE program_state ADD COLUMN retained_at INTEGER;
