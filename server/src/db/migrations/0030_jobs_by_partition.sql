-- In a migration of its own: while the indexes are built the queue can be read. They are empty at first, so
-- that takes one pass over the table each. jobs_of_webhooks is dropped by a later release, because servers of
-- the previous one still use it.

-- Ready jobs of the kinds with a partition key; jobs_ready has all others.
create index jobs_ready_by_partition on jobs (kind, partition_key, priority, id)
where partition_key is not null and due_at is null and lease_id is null;
-- All queued messages of a webhook.
create index jobs_of_partition on jobs (partition_key) where partition_key is not null;
