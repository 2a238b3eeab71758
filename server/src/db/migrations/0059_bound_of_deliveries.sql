-- oldest program: 52
-- no transaction

-- The table of deliveries becomes the first partition of a partitioned one. Its bound is the start of a month,
-- more than two months ahead, and beyond every delivery: no notification is newer than the newest broadcast.

-- safe because the bound is beyond every id that a server makes within two months
do $$ begin execute format(
  'alter table deliveries drop constraint if exists deliveries_first_ids,
    add constraint deliveries_first_ids check (notification_id < %L) not valid',
  (
    select (lpad(to_hex((extract(epoch from month + interval '3 months') * 1000)::bigint), 12, '0')
      || '70008000000000000000')::uuid
    from (
      select date_trunc('month', greatest(
        clock_timestamp() at time zone 'UTC',
        to_timestamp((
          select ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0
          from broadcasts
          order by id desc
          limit 1
        )) at time zone 'UTC'
      )) as month
    ) months
  )
); end $$;

alter table deliveries validate constraint deliveries_first_ids;
