-- oldest program: 52

-- How many attempts at a job have ended with its worker (queue/lease.ts). Such jobs are delayed, and
-- discarded in the end.
alter table jobs add column cut_offs smallint not null default 0;
