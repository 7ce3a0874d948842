-- What is unread is found by walking the primary key between this id and the newest, a limited number of rows at a time. The
-- index that stood here before had an entry for every notification that was created: one more page, in another place, for
-- each of them.
ALTER TABLE inboxes ADD COLUMN unread_from BLOB; -- no older notification is unread; NULL: any may be
DROP INDEX notifications_unread;

-- A program of an earlier version that still runs beside this one doesn't know the column: what it marks unread again must be
-- found all the same.
CREATE TRIGGER notifications_unread_again AFTER UPDATE OF read_at ON notifications WHEN NEW.read_at IS NULL
BEGIN
    UPDATE inboxes SET unread_from = NEW.id WHERE id = NEW.inbox_id AND unread_from > NEW.id;
END;
