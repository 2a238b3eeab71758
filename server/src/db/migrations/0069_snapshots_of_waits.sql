-- oldest program: 52

-- The snapshot in which a run began to wait for an event of Belfry: events that are visible in it do not
-- continue the run (domain/workflows/engine/continue-waiting.ts).
alter table workflow_runs add column waits_since pg_snapshot;
