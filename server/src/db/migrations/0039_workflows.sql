-- Workflows (domain/workflows). A run keeps the version of the steps that it started with.
create table workflows (
  project_id uuid not null,
  key text collate "C" not null,
  version integer not null,
  disabled boolean not null,
  -- Characters of the steps as JSON.
  size integer not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (project_id, key)
);

create table workflow_versions (
  project_id uuid not null,
  key text collate "C" not null,
  version integer not null,
  -- JSON (lib/packed-json.ts).
  steps bytea not null,
  created_at timestamptz not null,
  primary key (project_id, key, version)
);

create table workflow_runs (
  id uuid primary key,
  project_id uuid not null,
  workflow_key text collate "C" not null,
  version integer not null,
  user_id uuid,
  -- As in the API: 0 enqueued, 1 running, 2 waiting, 3 completed, 4 aborted, 5 failed.
  state smallint not null,
  -- The next step (definitions/places.ts), and how far it is: 0 not begun, 1 its condition held, 2 it waits.
  place text not null,
  stage smallint not null,
  -- Counts the changes of the run. A job is for one turn.
  turn integer not null,
  -- When the turn was due; null while the run waits to be resumed. The id of a broadcast follows from it.
  due_at timestamptz,
  -- Characters of the input and of all outputs as JSON: what a turn may load.
  size integer not null,
  -- JSON (lib/packed-json.ts).
  input bytea not null,
  -- The rendered input of the next step (JSON, as above), if it must be the same whenever the step begins.
  prepared bytea,
  -- What `set` steps have set.
  data json,
  -- The last broadcast that the run sent.
  broadcast_id uuid,
  error text,
  created_at timestamptz not null,
  started_at timestamptz,
  completed_at timestamptz
);
create index workflow_runs_listed on workflow_runs (project_id, workflow_key, id);
create index workflow_runs_by_state on workflow_runs (project_id, workflow_key, state, id);
create index workflow_runs_of_user on workflow_runs (user_id, id) where user_id is not null;
create index workflow_runs_ended on workflow_runs (completed_at) where completed_at is not null;

create table workflow_run_steps (
  run_id uuid not null,
  place text collate "C" not null,
  command text not null,
  state text not null check (state in ('completed', 'skipped', 'waiting', 'failed', 'aborted')),
  started_at timestamptz not null,
  completed_at timestamptz,
  output json,
  error text,
  primary key (run_id, place)
);
