-- A broadcast is processed when every delivery that was due at once has had its first attempt; see
-- domain/line/ledger/finish.ts.

-- What is still awaited: such deliveries, and one for all the pages of subscribers that follow the first.
-- `pending` are the deliveries on any channel that have not ended, and nothing else.
alter table broadcasts add column awaited integer not null default 0;

-- What is under way: a replay does not reopen a broadcast any more, and pages and parts of a replay are not
-- counted as deliveries.
with following as (
  select (payload ->> 'broadcast_id')::uuid as id, count(*)::int as jobs
  from jobs
  where kind = 'replay' or (kind = 'fan_out' and payload ->> 'page' is not null)
  group by 1
)
update broadcasts b
set pending = b.pending - following.jobs, awaited = following.jobs
from following
where b.id = following.id and b.status = 'processing';

update broadcasts
set status = 'processed', awaited = 0
where status = 'processing'
  and id in (
    select (payload ->> 'broadcast_id')::uuid
    from jobs
    where kind = 'replay' or (kind = 'deliver' and payload ->> 'replay' is not null)
  );

update broadcasts set awaited = awaited + pending where status = 'processing';
update jobs
set payload = (payload::jsonb || '{"awaited": true}')::json
where kind = 'deliver'
  and (payload ->> 'broadcast_id')::uuid in (select id from broadcasts where status = 'processing');

-- Counted whenever a user's first delivery fails; the failures themselves are read from `deliveries`.
update broadcasts b
set failed_users = (
  select count(distinct user_id) from deliveries d where d.broadcast_id = b.id and d.state = 'failed'
)
where pending > 0;

-- broadcasts.failed_errors is no longer used; a later release drops it, because servers of the release before
-- still write and read it: they could record no outcome without it, and would send their messages again and
-- again.
