-- When a broadcast was cancelled: its pages of subscribers end, and what is not sent yet is skipped.
alter table broadcasts add column cancelled_at timestamptz;
-- The latest ones are read by servers that missed messages of others
-- (domain/line/context/cancelled-broadcasts.ts).
create index broadcasts_cancelled on broadcasts (cancelled_at) where cancelled_at is not null;
-- The scheduled jobs of a broadcast, which become due when it is cancelled; jobs_deferred has those that came
-- back.
create index jobs_planned on jobs (((payload ->> 'broadcast_id')::uuid))
where kind in ('fan_out', 'deliver') and due_at is not null and payload ->> 'back' is null;
