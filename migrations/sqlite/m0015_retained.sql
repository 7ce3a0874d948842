-- When retention last ran, by the clock: one that has since leapt ahead is held for wrong for a day, before things are deleted by their age.
ALTER TABLE program_state ADD COLUMN retained_at INTEGER;
-- Since when it is held for wrong, by the same clock; NULL: it isn't.
ALTER TABLE program_state ADD COLUMN doubted_at INTEGER;
