-- Templates (domain/setup/templates). A broadcast names the versions that it was accepted with.
create table templates (
  project_id uuid not null,
  key text collate "C" not null,
  id uuid not null,
  kind text not null check (kind in ('message', 'layout', 'partial')),
  version integer not null,
  -- The keys of the partials that it renders, and of its layout.
  uses text[] not null,
  -- Characters of the content as JSON.
  size integer not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (project_id, key)
);
create unique index templates_listed on templates (project_id, id);

create table template_versions (
  project_id uuid not null,
  key text collate "C" not null,
  version integer not null,
  -- JSON (lib/packed-json.ts).
  content bytea not null,
  created_at timestamptz not null,
  primary key (project_id, key, version)
);
