-- A notification that is shown later than it was made stands in the inbox where it arrived: `place` is its id
-- with the time at which it was shown (domain/line/deliver/show-in-inbox.ts). Null for those that were shown
-- immediately, whose id is their place.
alter table notifications add column place uuid;
