-- Broadcasts with a template (domain/line/rendering/templates.ts).
alter table broadcasts
  -- The template with its versions and data: JSON (lib/packed-json.ts).
  add column template bytea;
alter table notifications
  -- Whose texts of the broadcast it has (domain/line/notifications/texts.ts).
  add column texts text;

-- The texts that a template made for notifications.
create table broadcast_texts (
  broadcast_id uuid not null,
  -- A locale, or the id of a user.
  reader text collate "C" not null,
  -- JSON (lib/packed-json.ts).
  texts bytea not null,
  primary key (broadcast_id, reader)
);
