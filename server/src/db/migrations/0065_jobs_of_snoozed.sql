-- oldest program: 52
-- no transaction

-- The job that returns a notification to its inbox. A notification that is snoozed again gets another one
-- (domain/line/notifications/snooze.ts), in place of the former.
create index concurrently if not exists jobs_of_snoozed on jobs ((payload ->> 'notification_id'))
where kind = 'unsnooze' and due_at is not null and lease_id is null;
