-- The key that the first start had, before there is a project whose secrets name it: two servers with keys of
-- their own must not both begin on an empty database.
create table sealing_key (
  only_row boolean primary key default true check (only_row),
  -- The first 4 bytes of a hash of the key, as in every sealed value (lib/seal.ts). Counts only while there
  -- is no project.
  key_id text not null
);

-- The data directory for whose credentials.json a token was issued; null for tokens that somebody asked for.
alter table project_tokens add column issued_for text;
