-- Webhooks: where projects have their events sent to, and what became of them.

create table webhooks (
  id uuid primary key,
  project_id uuid not null references projects (id),
  url text not null,
  description text,
  -- types of events, and families of them; empty: all
  event_types text[] not null default '{}',
  sealed_secret bytea not null,
  -- The secret before the last rotation signs along until then.
  sealed_former_secret bytea,
  former_secret_until timestamptz,
  disabled_at timestamptz,
  disabled_reason text,
  -- Since when nothing but failures was seen; null after a success.
  failing_since timestamptz,
  last_failure_at timestamptz,
  -- Messages that stand in jobs and have not reached their end. The feed is read on while they are not too
  -- many.
  pending integer not null default 0,
  -- How far the project's feed of events (events.xact, events.id) has been turned into messages. A backup
  -- leaves feed_xact out.
  feed_xact xid8 not null default pg_current_xact_id(),
  feed_id uuid not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- Hidden; the rest is cleared away in small batches.
  deleted_at timestamptz
) with (fillfactor = 50); -- the place in the feed moves all the time, and stands in no index
create index webhooks_of_project on webhooks (project_id, id) where deleted_at is null;
create index webhooks_active on webhooks (id) where disabled_at is null and deleted_at is null;
create index webhooks_deleted on webhooks (id) where deleted_at is not null;

-- A message is an event for a webhook, under the event's id. A row appears with its first outcome.
create table webhook_messages (
  webhook_id uuid not null,
  id uuid not null,
  type text not null,
  state text not null check (state in ('sent', 'retrying', 'failed')),
  attempts integer not null,
  status integer,
  reason text,
  duration_ms integer,
  last_attempt_at timestamptz,
  next_attempt_at timestamptz,
  primary key (webhook_id, id)
);
create index webhook_messages_by_state on webhook_messages (webhook_id, state, id);

-- A stretch of time whose events are to be sent again: from the event after after_id to the one before
-- until_id.
create table webhook_replays (
  webhook_id uuid not null,
  id uuid not null,
  failed_only boolean not null,
  after_id uuid not null,
  until_id uuid not null,
  primary key (webhook_id, id)
);
