-- The event that a run waits for (domain/workflows/engine/continue-waiting.ts). When it has come, the stage
-- of the run is 3.
alter table workflow_runs add column waits_for text collate "C";
