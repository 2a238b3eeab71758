-- oldest program: 52
-- no transaction

-- Deliveries that wait for an integration or its rate, by project: they become due when an integration is
-- saved (domain/line/deliver/wake-waiting.ts).
create index concurrently if not exists jobs_that_wait on jobs (project_id)
where kind = 'deliver' and due_at is not null and payload ->> 'waits_for' is not null;
