-- oldest program: 52

-- Moves of projects between cells (domain/setup/cells/move-project.ts). Empty, unless a project moves.

-- In the default cell: the move that was started.
create table project_moves (
  project_id uuid primary key,
  from_cell text not null,
  to_cell text not null,
  -- The directory leads to the new cell since. Only the rows in the former one are left to delete.
  switched_at timestamptz,
  started_at timestamptz not null default clock_timestamp()
);

-- In the cell that the project leaves.
create table leaving_projects (
  project_id uuid primary key,
  -- The lease that holds the project's jobs back.
  lease_id uuid,
  -- All writes of the project are rejected since.
  left_at timestamptz
);

-- There, too: rows that have changed since the move started. Triggers write them (db/move/capture.ts).
create table changed_rows (
  table_name text not null,
  -- Its primary key.
  key text[] not null,
  -- The transaction that changed the row.
  xact xid8 not null default pg_current_xact_id()
);
create index changed_rows_of_table on changed_rows (table_name);

-- In the cell that it goes to.
create table arriving_projects (
  project_id uuid primary key,
  -- How far its rows are copied (db/move/copy.ts).
  position json not null
);

-- Rows that have an effect of their own: settings and jobs. They enter their tables when the project has
-- left its former cell.
create table arriving_rows (
  project_id uuid not null,
  table_name text not null,
  key text[] not null,
  row json not null,
  primary key (project_id, table_name, key)
);

-- Null in rows of earlier releases, which are not moved.
alter table workflow_throttles add column project_id uuid;
