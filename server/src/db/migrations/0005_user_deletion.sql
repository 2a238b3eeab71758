-- What it takes to find everything that is told about a user once their seven days are over.

-- Names that users once went by: what was sent to them then was sent to these.
create table former_user_keys (
  user_id uuid not null,
  kind text not null check (kind in ('external_id', 'email')),
  value text collate "C" not null,
  primary key (user_id, kind, value)
);

-- Broadcasts that named a user who was deleted: the one kind that named a user and left no notification.
create table refused_recipients (
  user_id uuid not null,
  broadcast_id uuid not null,
  primary key (user_id, broadcast_id)
);

-- The events of a user's tokens: the id of a chat token, which they tell, is made of the token.
create index events_of_tokens on events (user_ids) where type in ('token.saved', 'token.discarded');
