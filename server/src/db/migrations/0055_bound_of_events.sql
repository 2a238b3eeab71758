-- oldest program: 52
-- no transaction

-- The table of events becomes the first partition of a partitioned one. Its bound is the start of a month,
-- more than two months ahead, and beyond every event. So all events are in one partition while servers of the
-- previous release may run: they find rows by their ctid, which is unique only within a partition.

-- safe because the bound is beyond every id that a server makes within two months
do $$ begin execute format(
  'alter table events drop constraint if exists events_first_ids,
    add constraint events_first_ids check (id < %L) not valid',
  (
    select (lpad(to_hex((extract(epoch from month + interval '3 months') * 1000)::bigint), 12, '0')
      || '70008000000000000000')::uuid
    from (
      select date_trunc('month', greatest(
        clock_timestamp() at time zone 'UTC',
        (
          select max(to_timestamp(('x' || left(replace(newest.id::text, '-', ''), 12))::bit(48)::bigint / 1000.0))
          from projects p
          cross join lateral (select id from events where project_id = p.id order by id desc limit 1) newest
        ) at time zone 'UTC'
      )) as month
    ) months
  )
); end $$;

alter table events validate constraint events_first_ids;
