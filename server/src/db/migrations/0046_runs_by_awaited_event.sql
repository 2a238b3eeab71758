create index workflow_runs_waiting on workflow_runs (project_id, waits_for, user_id)
where waits_for is not null;
