-- Accounting: what was planned for every user on every channel, and what became of it.

-- What a fan-out decided for the page's users on each channel: see domain/line/ledger/page-plan.ts. Null: the
-- inbox for all, at once.
alter table broadcast_users add column plan json;

-- What the deliveries had come to when the last of them ended. Those that failed may be sent anew, and then
-- this is: `failures` and `errors` are what was wrong before any was sent.
alter table broadcasts
  add column failed_users integer not null default 0,
  add column failed_errors json;

-- How often a delivery was begun anew because the project asked for it.
alter table deliveries add column replays smallint not null default 0;

-- What failed of a broadcast is counted at its end, listed user by user, and gone through in that order where
-- it is sent anew.
drop index deliveries_failed;
create index deliveries_failed on deliveries (broadcast_id, user_id, channel) where state = 'failed';
