-- When a broadcast is to be sent; null if at once. Its fan-out is a job that is due then, and `waiting` is
-- true until it runs.
alter table broadcasts
  add column send_at timestamptz,
  add column waiting boolean;
-- The list of those that are scheduled. A purge looks for erased users among their recipients. Not by status:
-- every change of a column in an index, even in its condition, writes all indexes of the row.
create index broadcasts_scheduled on broadcasts (project_id, id) where waiting;
