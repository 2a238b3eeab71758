-- oldest program: 52

-- Deliveries are partitioned by month, by the time in the ids of their notifications, as events are by theirs
-- (db/partitions.ts). No row moves, and no index is built: the table becomes the first partition, for
-- everything until its bound.

-- safe because the name is taken again in the same transaction
alter table deliveries rename to deliveries_first;

create table deliveries (
  like deliveries_first including defaults including storage
) partition by range (notification_id);

-- safe because the indexes keep their tables, and no statement names an index
alter index deliveries_pkey rename to deliveries_first_pkey;
-- safe because the indexes keep their tables, and no statement names an index
alter index deliveries_failed rename to deliveries_first_failed;

alter table deliveries
  add constraint deliveries_pkey primary key (user_id, notification_id, channel),
  add constraint deliveries_state_check check (state in ('retrying', 'sent', 'failed', 'skipped')),
  add constraint deliveries_receipt_check
    check (receipt in ('delivered', 'bounced', 'complained', 'dropped'));
create index deliveries_failed on deliveries (broadcast_id, user_id, channel) where state = 'failed';

-- safe because a validated check has the same bound, and each index has an equal one: nothing is read
do $$ begin execute format(
  'alter table deliveries attach partition deliveries_first for values from (minvalue) to (%L)',
  (
    select (regexp_match(pg_get_constraintdef(oid), '''([0-9a-f-]{36})'''))[1]
    from pg_constraint
    where conrelid = 'deliveries_first'::regclass and conname = 'deliveries_first_ids'
  )
); end $$;
alter table deliveries_first drop constraint deliveries_first_ids;

-- For ids beyond the last partition, so that no insert fails.
create table deliveries_default partition of deliveries default;

-- safe because it repeats the rights that others than the owner have on the table
do $$ begin execute coalesce(
  (
    select string_agg(
      format(
        'grant %s on deliveries to %s',
        privilege_type,
        case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end
      ),
      '; '
    )
    from pg_class, aclexplode(relacl)
    where oid = 'deliveries_first'::regclass
  ),
  'select'
); end $$;
