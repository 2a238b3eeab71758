import { expect } from 'vitest';
import { RUN_STATES } from '../../src/contract/workflow.ts';
import { type Queryable, sql } from '../../src/db/client.ts';
import { type ModelInput, type ModelStep, stepAt } from './workflow-model.ts';

/*
 * Whether throttles and digests of random runs did what the guide says. A trigger logs the steps and the runs
 * as they are written: the log of those that share a key is in the order of their transactions.
 */

// The state of a logged digest, whose time is that at which it closes.
const CLOSES = 'closes';

const LOG = [
  `create table shared_steps_log (
    seq bigserial primary key,
    xid xid8 not null default pg_current_xact_id(),
    run_id uuid not null,
    place text,
    command text,
    state text,
    output json,
    run_state smallint,
    time timestamptz
  )`,
  'create index on shared_steps_log (xid, run_id)',
  `create function log_step() returns trigger language plpgsql as $$
    begin
      insert into shared_steps_log (run_id, place, command, state, output)
      values (new.run_id, new.place, new.command, new.state, new.output);
      return new;
    end
  $$`,
  `create function log_run() returns trigger language plpgsql as $$
    begin
      insert into shared_steps_log (run_id, run_state, time)
      values (new.id, new.state, coalesce(new.completed_at, new.due_at));
      return new;
    end
  $$`,
  `create function log_digest() returns trigger language plpgsql as $$
    begin
      insert into shared_steps_log (run_id, state, time) values (new.run_id, '${CLOSES}', new.closes_at);
      return new;
    end
  $$`,
  `create trigger log_step after insert or update on workflow_run_steps
  for each row when (new.command in ('digest', 'throttle')) execute function log_step()`,
  `create trigger log_run after insert or update on workflow_runs
  for each row execute function log_run()`,
  `create trigger log_digest after insert or update on workflow_digests
  for each row execute function log_digest()`,
];

/** Logs the shared steps of all runs from now on. */
export async function logSharedSteps(db: Queryable): Promise<void> {
  for (const statement of LOG) await db.query(sql('', statement));
}

interface Logged {
  xid: string;
  run_id: string;
  place: string;
  command: string;
  state: string;
  output: { digest?: string; items?: ModelInput[]; count?: number } | null;
  /** The state of the run after this turn. */
  run_state: number | null;
  /** When the turn ended, or until when the run waits. Null if the run was cancelled meanwhile. */
  time: Date | null;
  /** Of a digest that it opened or joined. */
  closes_at: Date | null;
}

/** A run that the log is about. */
export interface LoggedRun {
  id: string;
  key: string;
  input: ModelInput;
  steps: readonly ModelStep[];
}

/** Checks the shared steps of runs. Returns how many runs were throttled, and how many joined a digest. */
export async function checkSharedSteps(
  db: Queryable,
  runs: readonly LoggedRun[],
): Promise<{ throttled: number; collected: number }> {
  const runOf = new Map(runs.map((run) => [run.id, run]));
  const log = await db.query<Omit<Logged, 'output'> & { output: string | null }>(
    sql(
      '',
      `select s.xid::text as xid, s.run_id, s.place, s.command, s.state, s.output, r.run_state, r.time,
        d.time as closes_at
      from shared_steps_log s
      left join shared_steps_log r on r.xid = s.xid and r.run_id = s.run_id and r.run_state is not null
      left join shared_steps_log d
        on d.xid = s.xid and d.run_id = coalesce((s.output ->> 'digest')::uuid, s.run_id)
          and d.state = '${CLOSES}'
      where s.command is not null
        and s.run_id = any ($1::uuid[]) and s.state in ('waiting', 'completed')
      order by s.seq`,
    ),
    [[...runOf.keys()]],
  );
  const parsed = log.map((row): Logged => ({ ...row, output: row.output && JSON.parse(row.output) }));
  const groups = Map.groupBy(parsed, ({ run_id, place, command }) => {
    const { key, input, steps } = runOf.get(run_id) as LoggedRun;
    return `${command} ${key} ${place} ${stepAt(steps, place)?.shared?.keyOf(input)}`;
  });
  let [throttled, collected] = [0, 0];
  for (const [name, rows] of groups) {
    const [{ run_id, place, command }] = rows as [Logged];
    const shared = stepAt(runOf.get(run_id)?.steps ?? [], place)?.shared;
    if (shared === undefined) throw new Error(`${name} is no shared step`);
    if (command === 'throttle') throttled += checkThrottle(name, rows, shared);
    else collected += checkDigests(name, rows, { ...shared, inputOf: (id) => runOf.get(id)?.input });
  }
  return { throttled, collected };
}

/** A run passes if, and only if, fewer than the limit have passed in the window before it. */
function checkThrottle(
  name: string,
  rows: readonly Logged[],
  { limit, windowMs }: NonNullable<ModelStep['shared']>,
): number {
  const passed: number[] = [];
  let throttled = 0;
  for (const together of Map.groupBy(rows, ({ xid }) => xid).values()) {
    const atMs = together[0]?.time?.getTime() ?? 0;
    const ofWindow = passed.filter((ms) => ms > atMs - windowMs).length;
    const refused = together.filter((row) => row.run_state === RUN_STATES.aborted).length;
    const through = together.length - refused;
    expect(through, name).toBe(Math.min(together.length, Math.max(0, limit - ofWindow)));
    passed.push(...Array(through).fill(atMs));
    throttled += refused;
  }
  return throttled;
}

interface Digest {
  opener: string;
  members: string[];
  closesAtMs: number;
  latestMs: number;
}

/**
 * Every run that came to a digest is in exactly one, which closes at its time. While one is open, there is no
 * other.
 */
function checkDigests(
  name: string,
  rows: readonly Logged[],
  {
    windowMs,
    maxWindowMs,
    inputOf,
  }: NonNullable<ModelStep['shared']> & {
    inputOf: (runId: string) => ModelInput | undefined;
  },
): number {
  const digests: Digest[] = [];
  const isOpening = ({ state }: Logged) => state === 'waiting';
  for (const together of Map.groupBy(rows, ({ xid }) => xid).values()) {
    for (const { run_id: opener, time } of together.filter(isOpening)) {
      const closesAtMs = time?.getTime() ?? 0;
      digests.push({ opener, members: [opener], closesAtMs, latestMs: closesAtMs - windowMs + maxWindowMs });
    }
    for (const row of together.filter((row) => !isOpening(row))) {
      const { run_id: runId, output, time, closes_at: closesAt } = row;
      const of = `${name} of run ${runId}`;
      if (output?.digest !== undefined) {
        const digest = digests.at(-1) as Digest;
        expect(output.digest, of).toBe(digest?.opener);
        digest.members.push(runId);
        const extendedMs = Math.min((time?.getTime() ?? 0) + windowMs, digest.latestMs);
        digest.closesAtMs = Math.max(digest.closesAtMs, extendedMs);
        expect(closesAt?.getTime(), of).toBe(digest.closesAtMs);
        continue;
      }
      const digest = digests.find(({ opener }) => opener === runId);
      const names = digest?.members.toSorted().map((id) => inputOf(id)?.name);
      expect([output?.count, output?.items?.map((item) => item.name)], of).toEqual([names?.length, names]);
    }
  }
  return digests.reduce((sum, { members }) => sum + members.length - 1, 0);
}
