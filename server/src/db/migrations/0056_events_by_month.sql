-- oldest program: 52

-- Events are partitioned by month, by the time in their ids. The server creates the partitions of the next
-- months and drops those whose retention is over (db/partitions.ts). No row moves, and no index is built: the
-- table becomes the first partition, for everything until its bound.

-- safe because the name is taken again in the same transaction
alter table events rename to events_first;

create table events (
  like events_first including defaults including generated including storage
) partition by range (id);

-- safe because the indexes keep their tables, and no statement names an index
alter index events_pkey rename to events_first_pkey;
-- safe because the indexes keep their tables, and no statement names an index
alter index events_of_type rename to events_first_of_type;
-- safe because the indexes keep their tables, and no statement names an index
alter index events_feed rename to events_first_feed;
-- safe because the indexes keep their tables, and no statement names an index
alter index events_of_users rename to events_first_of_users;

alter table events add constraint events_pkey primary key (project_id, id);
create index events_of_type on events (project_id, type, id);
create index events_feed on events (project_id, xact, id);
create index events_of_users on events (user_ids)
  where type in (
    'token.saved', 'token.discarded', 'delivery.clicked', 'installation.saved', 'installation.broken',
    'subscription.saved', 'subscription.deleted', 'preferences.updated', 'delivery_windows.saved'
  ) or (
    type in ('notification.seen', 'notification.read', 'notification.archived') and details is not null
  );

-- safe because a validated check has the same bound, and each index has an equal one: nothing is read
do $$ begin execute format(
  'alter table events attach partition events_first for values from (minvalue) to (%L)',
  (
    select (regexp_match(pg_get_constraintdef(oid), '''([0-9a-f-]{36})'''))[1]
    from pg_constraint
    where conrelid = 'events_first'::regclass and conname = 'events_first_ids'
  )
); end $$;
alter table events_first drop constraint events_first_ids;

-- For ids beyond the last partition, so that no insert fails.
create table events_default partition of events default;

-- safe because it repeats the rights that others than the owner have on the table
do $$ begin execute coalesce(
  (
    select string_agg(
      format(
        'grant %s on events to %s',
        privilege_type,
        case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end
      ),
      '; '
    )
    from pg_class, aclexplode(relacl)
    where oid = 'events_first'::regclass
  ),
  'select'
); end $$;
