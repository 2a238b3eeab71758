-- Events that start workflows, and that runs wait for (domain/workflows/triggers).
create table workflow_triggers (
  project_id uuid not null,
  workflow_key text collate "C" not null,
  -- In the list of the workflow's triggers.
  place integer not null,
  event text collate "C" not null,
  condition text,
  -- Earlier events start nothing.
  since uuid not null,
  primary key (project_id, workflow_key, place)
);
create index workflow_triggers_of_event on workflow_triggers (project_id, event);

-- How far the events of a project are read. Only projects that need it have a row.
create table workflow_feeds (
  project_id uuid primary key,
  -- The last row of events that was read. A backup leaves the transaction out.
  feed_xact xid8 not null default pg_current_xact_id(),
  feed_id uuid not null
);

-- How many runs caused each other by events before this one: 0 if a request started it.
alter table workflow_runs add column depth smallint not null default 0;

-- The depth of runs that were started by events, by the broadcasts that they send.
create table workflow_broadcasts (
  broadcast_id uuid primary key,
  depth smallint not null
);
