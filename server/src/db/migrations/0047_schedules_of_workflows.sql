-- When workflows start by themselves (domain/workflows/definitions/schedules.ts).
alter table workflows add column triggers json;

create table workflow_schedules (
  project_id uuid not null,
  workflow_key text collate "C" not null,
  -- In the list of the workflow's triggers.
  place integer not null,
  schedule text not null,
  time_zone text not null,
  skip_missed boolean not null,
  -- JSON (lib/packed-json.ts).
  input bytea not null,
  -- The next start has a job. Null if there is none.
  next_at timestamptz,
  primary key (project_id, workflow_key, place)
);
