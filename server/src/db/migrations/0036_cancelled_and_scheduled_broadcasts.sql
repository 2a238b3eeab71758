-- When a broadcast was cancelled: its pages of subscribers end, and what is not sent yet is skipped.
-- When a broadcast is to be sent; null if at once. Its fan-out is a job that is due then, and `waiting` is
-- true until it runs. The indexes follow in a migration of their own: a new column locks the table against
-- reads until the transaction ends.
alter table broadcasts
  add column cancelled_at timestamptz,
  add column send_at timestamptz,
  add column waiting boolean;
