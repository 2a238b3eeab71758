-- oldest program: 52

-- The schedules of rate limits, which all nodes share: the times of recent sends and of those that were
-- promised. A row is replaced as a whole, if its version is still the one that was read.
create table rate_schedules (
  key text primary key,
  version bigint not null,
  times bytea not null,
  expires_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- The node that probes the integration; null if none does. It counts only while that node has a lease.
alter table integration_pauses add column probed_by text;
