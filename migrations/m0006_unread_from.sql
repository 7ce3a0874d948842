-- What is unread is found by walking the primary key between this id and the newest, a limited number of rows at a time. The
-- index that stood here before had an entry for every notification that was created: one more page, in another place, for
-- each of them.
ALTER TABLE inboxes ADD COLUMN unread_from BLOB; -- no older notification is unread; NULL: any may be
DROP INDEX notifications_unread;
