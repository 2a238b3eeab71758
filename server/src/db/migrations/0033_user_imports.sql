-- Imports of users (domain/people/imports). A page has up to 1000 rows until it is processed, and then only
-- the rows that failed.
create table user_imports (
  id uuid primary key,
  project_id uuid not null,
  status text not null check (status in ('enqueued', 'processing', 'processed')),
  total integer not null,
  done integer not null default 0,
  created integer not null default 0,
  updated integer not null default 0,
  failed integer not null default 0,
  created_at timestamptz not null,
  processed_at timestamptz
);

create table user_import_pages (
  import_id uuid not null,
  page integer not null,
  -- JSON (lib/packed-json.ts): [row, user] for each; null if processed.
  rows bytea,
  -- JSON: {row, user, errors} for each; null if there are none.
  failures bytea,
  size integer not null,
  primary key (import_id, page)
);
