-- Until when a notification is snoozed. It is hidden until then: discarded_at is 'infinity'.
alter table notifications add column snoozed_until timestamptz;
