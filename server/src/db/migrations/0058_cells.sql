-- oldest program: 52

-- The other cells of the installation, and which projects live in them (domain/setup/cells). Filled only in
-- the default cell. Projects without a row live in that one.
create table cells (
  name text primary key,
  -- The schema of its tables, in the database of the default cell or of the sealed URL.
  schema_name text not null,
  sealed_url bytea,
  sealed_direct_url bytea,
  created_at timestamptz not null default clock_timestamp()
);

create table cell_projects (
  project_id uuid primary key,
  api_key text not null unique,
  cell text not null references cells (name)
);
