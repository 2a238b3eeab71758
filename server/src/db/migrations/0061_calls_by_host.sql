-- oldest program: 61
-- needs newer programs because older ones enqueue these jobs without a partition key, and nothing would
-- claim them

-- The queue is fair over the hosts that workflows call (domain/workflows/runs/jobs.ts).
-- safe because few runs call another host at a time
update jobs set partition_key = project_id where kind = 'call_workflow' and partition_key is null;
