-- oldest program: 52
-- no transaction

-- In place of jobs_by_age, which claims could use as well: a plan that was made while the queue was nearly
-- empty then read all ready jobs of a kind, several times for each claim. Only a statement that repeats
-- the condition on the id can use this one.
create index concurrently if not exists jobs_oldest on jobs (kind, enqueued_at)
where due_at is null and lease_id is null and id > 0;
drop index concurrently if exists jobs_by_age;
