-- Digests and throttles of workflows (domain/workflows/engine). Runs of the same version, step, user and key
-- share a digest; its first run collects the inputs of the others.
create table workflow_digests (
  -- The run that collects.
  run_id uuid primary key,
  -- A hash of what the runs have in common.
  key bytea not null,
  open boolean not null,
  closes_at timestamptz not null,
  -- A sliding window closes at this time at the latest.
  closes_by timestamptz not null,
  -- The runs, and the characters of their inputs as JSON.
  count integer not null,
  size bigint not null
);
create unique index workflow_digests_open on workflow_digests (key) where open;

create table workflow_digest_items (
  run_id uuid not null,
  -- The run whose input this is.
  item_id uuid not null,
  -- JSON (lib/packed-json.ts).
  input bytea not null,
  primary key (run_id, item_id)
);

create table workflow_throttles (
  -- A hash of what the runs have in common.
  key bytea primary key,
  -- When runs passed, in unix milliseconds, oldest first.
  passed json not null,
  expires_at timestamptz not null
);
create index workflow_throttles_expired on workflow_throttles (expires_at);
