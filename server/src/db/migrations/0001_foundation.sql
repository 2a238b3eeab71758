-- The foundation: projects, users, tokens, integrations, broadcasts, notifications, deliveries, events, the
-- queue.
--
-- Rules that keep a sharded PostgreSQL (Citus, distributed by user) possible without a redesign: the hot
-- tables lead their primary key with user_id, no foreign key or unique constraint spans users, and what makes
-- an identity unique in a project (an external id, an e-mail address, a device token) has a table of its own.
-- Ids are UUIDv7 made by Belfry: the order of ids is the order of time, and an id is a cursor.

create table projects (
  id uuid primary key,
  name text not null unique,
  api_key text not null unique,
  sealed_api_secret bytea not null,
  sealed_signing_key bytea not null,
  -- limits that differ from the server's settings: {"reads": 250, "writes": 200}; absent members follow the
  -- settings
  rate_limits json,
  created_at timestamptz not null default clock_timestamp()
);

-- Project JWTs that were issued: the token itself is shown once and never stored.
create table project_tokens (
  jti uuid primary key,
  project_id uuid not null references projects (id),
  name text not null,
  issued_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz
);
create index project_tokens_of_project on project_tokens (project_id, jti);

create table users (
  id uuid primary key,
  project_id uuid not null,
  external_id text,
  email text,
  first_name text,
  last_name text,
  custom_attributes json,
  phone_numbers text[] not null default '{}',
  created_at timestamptz not null,
  updated_at timestamptz not null,
  last_seen_at timestamptz,
  -- Hidden since; cleared away 7 days later (domain/after/erasure/purge-users.ts), '-infinity' while that is
  -- under way.
  deleted_at timestamptz
);
create index users_of_project on users (project_id, id) where deleted_at is null;
create index users_deleted on users (deleted_at) where deleted_at is not null;

-- Who is meant: external id or e-mail address (lower case) -> user. The primary key decides every race to
-- create a user.
create table user_keys (
  project_id uuid not null,
  kind text not null check (kind in ('external_id', 'email')),
  -- "C": in the order of bytes the primary key finds the users whose identity begins with a text, too
  value text collate "C" not null,
  user_id uuid not null,
  -- of a user who is deleted: the look-up that finds the user says so
  deleted boolean not null default false,
  primary key (project_id, kind, value)
);

create table preferences (
  user_id uuid not null,
  category text not null,
  channel text not null,
  enabled boolean not null,
  updated_at timestamptz not null,
  primary key (user_id, category, channel)
);

-- Where a user can be reached. sealed_data holds the members of the token's wire shape: whoever has an inbox
-- token can listen, whoever has a webhook's address can post.
create table tokens (
  user_id uuid not null,
  id uuid not null,
  project_id uuid not null,
  channel text not null,
  -- the id that clients know it by, where the token itself makes that (a channel of Slack)
  public_id text,
  -- of what makes two tokens the same (domain/people/tokens/token-hash.ts)
  hash bytea not null,
  sealed_data bytea not null,
  created_at timestamptz not null,
  updated_at timestamptz,
  discarded_at timestamptz,
  primary key (user_id, id)
);
-- A token is unique per user and channel. What was discarded may come back as a record of its own, unless its
-- id is made of the token: then there is one record, which becomes active again.
create unique index tokens_unique on tokens (user_id, channel, hash)
  where discarded_at is null or public_id is not null;
create index tokens_listed on tokens (user_id, channel, id) where discarded_at is null;

-- The one active owner of a device's token (inbox, mobile push, web push): a token saved by another user
-- moves.
create table token_owners (
  project_id uuid not null,
  channel text not null,
  hash bytea not null,
  user_id uuid not null,
  token_id uuid not null,
  primary key (project_id, channel, hash)
);

-- Clients may choose the ids, so an id is one project's own: that another project has the same is of no
-- consequence to either.
create table integrations (
  id uuid not null,
  project_id uuid not null references projects (id),
  provider text not null,
  sealed_config bytea not null,
  created_at timestamptz not null,  -- first saved: the order of failover
  updated_at timestamptz not null,
  primary key (id, project_id)
);
create index integrations_of_project on integrations (project_id, id);

-- A broadcast's texts are stored once, packed (see lib/packed-json.ts), so that a notification row stays
-- small.
create table broadcasts (
  id uuid primary key,
  project_id uuid not null,
  category text,
  topic text,
  message bytea not null,    -- {title, content, action_url, custom_attributes}
  in_app bytea,              -- overrides.channels.in_app
  overrides bytea,           -- all overrides, as sent
  recipients bytea,          -- the recipients, as sent
  status text not null default 'enqueued' check (status in ('enqueued', 'processing', 'processed')),
  total integer not null default 0,
  failures integer not null default 0,
  pending integer not null default 0,  -- deliveries that have no final state yet
  errors json                -- [{message}]
) with (fillfactor = 50);
-- The packed columns are deflated already: pglz would only spend time on them.
alter table broadcasts
  alter column message set storage external,
  alter column in_app set storage external,
  alter column overrides set storage external,
  alter column recipients set storage external;
create index broadcasts_of_project on broadcasts (project_id, id);
-- What a project has sent in few broadcasts is found in an inbox by these: notifications have no index by
-- category or topic, because that would make every insert a third dearer. A broadcast is written once,
-- whomever it goes to.
create index broadcasts_of_category on broadcasts (project_id, category, id);
create index broadcasts_of_topic on broadcasts (project_id, topic, id) where topic is not null;

-- The users that a broadcast reached, a row for each page of recipients. With it a broadcast's notifications
-- are found by primary key, because a notification's id is a function of the broadcast and the user
-- (lib/ids.ts).
create table broadcast_users (
  broadcast_id uuid not null,
  page integer not null,
  user_ids uuid[] not null,
  primary key (broadcast_id, page)
);
alter table broadcast_users alter column user_ids set storage external;

-- One row per user and broadcast: the in-app delivery itself. (user_id, id) is the exactly-once guard.
create table notifications (
  user_id uuid not null,
  id uuid not null,
  broadcast_id uuid not null,
  sent_at timestamptz not null,
  seen_at timestamptz,
  read_at timestamptz,
  archived_at timestamptz,
  discarded_at timestamptz,
  updated_at timestamptz,
  category text,
  topic text,
  primary key (user_id, id)
) with (fillfactor = 95, autovacuum_vacuum_insert_scale_factor = 0.05);
create index notifications_unread on notifications (user_id, id)
  where read_at is null and archived_at is null and discarded_at is null;
-- An inbox shows what is unread and what is read, in the order of ids: each has an index of its own, so that
-- neither thousands of archived nor of unread notifications are waded through for the others. Only rows that
-- were touched since they arrived stand in these, so inserts pay nothing for them.
create index notifications_read on notifications (user_id, id)
  where read_at is not null and archived_at is null and discarded_at is null;
create index notifications_archived on notifications (user_id, id)
  where archived_at is not null and discarded_at is null;
-- Here too: what a realtime client missed.
create index notifications_changed on notifications (user_id, updated_at) where updated_at is not null;

-- The state of a notification on a channel outside the inbox. A row appears with the first outcome.
create table deliveries (
  user_id uuid not null,
  notification_id uuid not null,
  channel text not null,
  broadcast_id uuid not null,
  state text not null check (state in ('retrying', 'sent', 'failed', 'skipped')),
  attempts integer not null,
  integration_id uuid,
  provider text,
  provider_id text,
  code text,
  reason text,
  first_attempt_at timestamptz not null,
  last_attempt_at timestamptz not null,
  primary key (user_id, notification_id, channel)
);

-- What happened. One row stands for one event, or, with user_ids, for one event per user: event number i of
-- the row has the row's id plus i (the low 16 bits of a stored id are zero), and details[i] where details is
-- an array.
create table events (
  project_id uuid not null,
  id uuid not null,
  type text not null,
  broadcast_id uuid,
  user_ids uuid[],
  details json,
  -- how many events the row stands for
  size smallint not null generated always as (coalesce(nullif(cardinality(user_ids), 0), 1)) stored,
  -- The transaction that wrote it. Ids are taken before the commit, so their order is not the order in which
  -- rows appear; but once every transaction up to a number has ended, nothing comes any more that has it or a
  -- lower one. A backup leaves the column out.
  xact xid8 not null default pg_current_xact_id(),
  primary key (project_id, id)
);
-- A list of some types only.
create index events_of_type on events (project_id, type, id);
-- The feed: what streams and webhooks read, without gaps.
create index events_feed on events (project_id, xact, id);

create table idempotency_keys (
  project_id uuid not null,
  scope text not null,        -- the caller and the operation
  key text not null,
  request_hash bytea not null,
  status integer not null,
  body text not null,
  created_at timestamptz not null,
  primary key (project_id, scope, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- The queue. A job is ready (due_at null, lease_id null), scheduled (due_at set) or leased (lease_id set);
-- done is deleted.
create table jobs (
  id bigint generated always as identity primary key,
  kind text not null,
  project_id uuid not null,
  priority smallint not null default 0,
  weight integer not null default 1,
  due_at timestamptz,
  attempt integer not null default 0,
  lease_id uuid,
  payload json not null,
  enqueued_at timestamptz not null default clock_timestamp()
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index jobs_ready on jobs (kind, project_id, priority, id) where due_at is null and lease_id is null;
create index jobs_scheduled on jobs (due_at) where due_at is not null and lease_id is null;
create index jobs_leased on jobs (lease_id) where lease_id is not null;

-- A running worker. When it stops saying that it lives, its jobs are given back.
create table leases (
  id uuid primary key,
  node text not null,
  expires_at timestamptz not null
);
