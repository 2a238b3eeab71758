-- The keys of projects can be rolled. The current ones stay in projects, where the previous release looks for
-- them; former ones are here.

alter table projects
  -- null: made with the project
  add column api_secret_created_at timestamptz,
  add column signing_key_created_at timestamptz;

create table former_project_keys (
  project_id uuid not null references projects (id),
  -- a digest of the key (domain/setup/projects/keys.ts)
  id text not null,
  kind text not null check (kind in ('api_secret', 'signing_key')),
  sealed_key bytea not null,
  created_at timestamptz not null,
  -- The key verifies tokens until then. A signing key verifies the links in messages until its row is
  -- deleted.
  valid_until timestamptz not null,
  primary key (project_id, id)
);

-- When a key last verified a token, to the minute.
create table project_key_uses (
  project_id uuid not null,
  key_id text not null,
  used_at timestamptz not null,
  primary key (project_id, key_id)
);

-- When the key ends that signed the token; null for a token signed with the project's current key.
alter table project_tokens add column key_ends_at timestamptz;
