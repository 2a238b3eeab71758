-- Unread notifications that were seen, so that unseen ones are counted without reading rows: they are the
-- unread ones without these. A new notification is unseen, so an insert does not write to it.
create index inbox_seen on notifications (user_id, coalesce(place, id))
  where seen_at is not null and read_at is null and archived_at is null and discarded_at is null;
