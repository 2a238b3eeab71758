-- Replaced by inbox_unread, inbox_read and inbox_archived. An insert pays for as many indexes as before.
drop index notifications_unread;
drop index notifications_read;
drop index notifications_archived;
