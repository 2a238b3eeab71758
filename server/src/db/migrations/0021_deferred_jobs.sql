-- Deliveries that were deferred or are retried, by broadcast: lists show when they are due. What is due
-- immediately is not in it.
create index jobs_deferred on jobs (((payload ->> 'broadcast_id')::uuid))
where kind = 'deliver' and due_at is not null and payload ->> 'back' is not null;
