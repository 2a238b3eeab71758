-- When a broadcast is to be sent; null if at once. Its fan-out is a job that is due then.
alter table broadcasts add column send_at timestamptz;
-- The list of those that are scheduled. A purge looks for erased users among their recipients.
create index broadcasts_scheduled on broadcasts (project_id, id)
where send_at is not null and status = 'enqueued';
