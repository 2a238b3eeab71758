-- What is unread, read and archived in the order of the inbox: in place of the indexes by id, which the next
-- migration drops. In a migration of its own, so that the inbox can be read while they are built.
create index inbox_unread on notifications (user_id, coalesce(place, id))
  where read_at is null and archived_at is null and discarded_at is null;
create index inbox_read on notifications (user_id, coalesce(place, id))
  where read_at is not null and archived_at is null and discarded_at is null;
create index inbox_archived on notifications (user_id, coalesce(place, id))
  where archived_at is not null and discarded_at is null;
