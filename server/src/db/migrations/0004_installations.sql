-- Installations: the Slack workspaces that users have connected, and how a user's own inbox looks.

create table installations (
  project_id uuid not null,
  provider text not null,
  -- `<app_id>-<team_id>` of a workspace; of what a user has only one of, the empty text
  id text collate "C" not null,
  -- Whose it is. What Slack itself has vouched for serves all users of the project: that is the nil UUID's.
  -- What a user has merely said serves that user alone.
  owner_id uuid not null,
  -- the nil UUID when that user is no more
  installed_by uuid not null,
  sealed_record bytea not null,
  -- Of the tokens that it came with, which tells the same record saved again from a new one.
  grant_hash bytea,
  -- When the bot's token runs out, where it does.
  expires_at timestamptz,
  -- Somebody is renewing the tokens, at the latest until then.
  renewing_until timestamptz,
  -- Renewing them failed, and is tried again from then on.
  retry_at timestamptz,
  -- What Slack said when it refused to renew them, which is final.
  broken_code text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (project_id, provider, id, owner_id)
);
create index installations_by_installer on installations (installed_by);
