-- The scheduled jobs of a broadcast, which become due when it is cancelled; jobs_deferred has those that came
-- back. Before the indexes of broadcasts, because servers use the tables in this order.
create index jobs_planned on jobs (((payload ->> 'broadcast_id')::uuid))
where kind in ('fan_out', 'deliver') and due_at is not null and payload ->> 'back' is null;
-- The latest ones are read by servers that missed messages of others
-- (domain/line/context/cancelled-broadcasts.ts).
create index broadcasts_cancelled on broadcasts (cancelled_at) where cancelled_at is not null;
-- The list of those that are scheduled. A purge looks for erased users among their recipients. Not by status:
-- every change of a column in an index, even in its condition, writes all indexes of the row.
create index broadcasts_scheduled on broadcasts (project_id, id) where waiting;
