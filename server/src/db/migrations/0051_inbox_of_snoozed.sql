-- What is snoozed, in the order of the inbox. In a migration of its own, so that the inbox can be read while it
-- is built.
create index inbox_snoozed on notifications (user_id, coalesce(place, id)) where snoozed_until is not null;
