import { byteaArray, textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { StepResult, Throttle } from '../steps/command.ts';
import { type Decisions, groupSteps, ownerOf, type SharedStep } from './shared-steps.ts';

/**
 * Counts runs that come to a throttle. A run passes if fewer than the limit have passed within the window
 * before now, and is aborted otherwise.
 */
export async function passThrottles(
  tx: Queryable,
  steps: readonly SharedStep<Throttle>[],
  nowMs: number,
): Promise<Decisions> {
  if (steps.length === 0) return new Map();
  const groups = groupSteps(steps, commonOf);
  const rows = await tx.query<{ key: Buffer; passed: string }>(lockThrottles, [
    byteaArray(groups.map(({ key }) => key)),
    uuidArray(groups.map(({ steps: [first] }) => first.run.project_id)),
    new Date(nowMs),
  ]);
  const before = new Map(rows.map(({ key, passed }) => [key.toString('hex'), passed]));
  const decisions = new Map<string, StepResult>();
  const after = groups.map((group) => {
    const passed: number[] = JSON.parse(before.get(group.key.toString('hex')) ?? '[]');
    const limits = group.steps.map(({ request }) => request.limit);
    // Older passes change no decision. Keeps as many as before: another version may have a higher limit.
    const kept = Math.max(passed.length, ...limits);
    for (const { run, request } of group.steps) {
      const decision = decide(passed, request, nowMs);
      if (decision.kind === 'done') passed.push(nowMs);
      decisions.set(run.id, decision);
    }
    // Sorted by time, which is not the order of the runs if the clock was set back.
    const last = passed.sort((a, b) => a - b).slice(-kept);
    const windowMs = Math.max(...group.steps.map(({ request }) => request.windowMs));
    return { key: group.key, passed: last, expiresAt: new Date(Math.max(...last) + windowMs) };
  });
  await tx.query(updateThrottles, [
    byteaArray(after.map(({ key }) => key)),
    textArray(after.map(({ passed }) => JSON.stringify(passed))),
    after.map(({ expiresAt }) => expiresAt),
  ]);
  return decisions;
}

/** By default each user is counted alone. New versions of the workflow continue to count. */
function commonOf({ run, request: { key } }: SharedStep<Throttle>): readonly unknown[] {
  return key === undefined ? [ownerOf(run)] : [null, key];
}

function decide(passed: readonly number[], { limit, windowMs }: Throttle, nowMs: number): StepResult {
  if (passed.filter((ms) => ms > nowMs - windowMs).length < limit) return { kind: 'done' };
  return { kind: 'abort', reason: `throttled: at most ${limit} in ${windowMs / 1_000} s` };
}

// Primary key, both. Locked in the order of their keys.
const lockThrottles = sql(
  'lock_workflow_throttles',
  `insert into workflow_throttles as t (key, project_id, passed, expires_at)
  select key, project_id, '[]', $3
  from unnest($1::bytea[], $2::uuid[]) as g (key, project_id)
  order by key
  on conflict (key) do update
  set project_id = excluded.project_id
  returning key, passed`,
);
const updateThrottles = sql(
  'update_workflow_throttles',
  `update workflow_throttles t
  set passed = g.passed::json, expires_at = g.expires_at
  from unnest($1::bytea[], $2::text[], $3::timestamptz[]) as g (key, passed, expires_at)
  where t.key = any ($1::bytea[]) and t.key = g.key`,
);
