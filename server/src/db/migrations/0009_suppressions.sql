-- Suppressions: addresses that a project sends nothing to any more. And what it takes to tell tokens that are
-- gone from those that came back.

-- An address is found by its keyed hash, so that it stays suppressed when all that is known about its user
-- has been erased.
create table suppressions (
  project_id uuid not null,
  id uuid not null,
  kind text not null check (kind in ('email', 'phone')),
  -- HMAC-SHA256 of kind and canonical address (domain/ground/identities/address.ts) with the project's key
  hash bytea not null,
  -- the canonical address; null when it is nobody's any more
  address text collate "C",
  reason text not null check (reason in ('manual', 'rejected', 'bounced', 'unsubscribed', 'complained')),
  provider text,
  -- what the provider said, without the address
  detail text,
  -- what the project says about it
  note text,
  -- whom it was known to be an address of
  user_ids uuid[] not null default '{}',
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (project_id, id)
);
create unique index suppressions_by_hash on suppressions (project_id, hash);
create index suppressions_listed on suppressions (project_id, kind, reason, id);
-- What is erased with a user: by address, and by the users it was met with.
create index suppressions_by_address on suppressions (project_id, address) where address is not null;
create index suppressions_of_users on suppressions using gin (user_ids);

-- The key of a project's hashes, made with its first suppression and never changed: a secret of the server
-- seals it, so that nobody can try out addresses on the table alone.
create table suppression_keys (
  project_id uuid primary key,
  sealed_key bytea not null,
  created_at timestamptz not null
);

-- When the token was saved last, also where nothing about it was new: a device that still has it. Null: not
-- since created_at. Apps save theirs at every start: there is room beside the rows, so that this touches no
-- index.
alter table tokens add column saved_at timestamptz;
alter table tokens set (fillfactor = 85);

-- The chat tokens of an installation: their ids begin with its id, in the order of bytes.
create index tokens_of_installation on tokens (project_id, (public_id collate "C"), user_id, id)
  where public_id is not null and discarded_at is null;
