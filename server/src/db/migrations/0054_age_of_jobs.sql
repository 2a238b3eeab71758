-- oldest program: 52
-- no transaction

-- The oldest ready job of a kind, and how many there are, without reading them all.
create index concurrently if not exists jobs_by_age on jobs (kind, enqueued_at)
where due_at is null and lease_id is null;
