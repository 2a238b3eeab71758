import type { DataOf, RUN_MEMBERS, STEP_MEMBERS } from '../../../contract/readable.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import type { ConditionData } from '../../../lib/expression.ts';
import { memberOf } from '../../../lib/members.ts';
import { comparePlaces } from '../definitions/places.ts';
import type { StepRow } from '../runs/row.ts';
import type { LoadedRun } from './load.ts';

/** Returns what conditions and templates of a run may read. `turn` has what the current turn changed. */
export function readableOf(
  { id, workflow_key, version, created_at, input, user, notification, program, ...run }: LoadedRun,
  turn: { data: LoadedRun['data']; steps: readonly StepRow[] } = { data: run.data, steps: [] },
): ConditionData {
  return {
    input,
    user,
    notification,
    run: {
      id,
      workflow_key,
      version,
      created_at: created_at.toISOString(),
      data: turn.data,
    } satisfies DataOf<typeof RUN_MEMBERS>,
    steps: program.reads.steps ? nested([...run.steps, ...turn.steps]) : [],
  };
}

/** The steps as conditions see them: a list by index, and those in a branch as `steps` of the branch. */
function nested(rows: readonly StepRow[]): unknown[] {
  const top: unknown[] = [];
  for (const row of [...rows].sort((a, b) => comparePlaces(a.place, b.place))) {
    const path = row.place.split('.').map(Number);
    const { state, output, error, started_at, completed_at } = row;
    let list = top;
    for (let at = 0; at < path.length - 1; at += 2)
      list = (memberOf(list[path[at] as number], 'steps') as unknown[] | undefined) ?? [];
    list[path.at(-1) as number] = {
      state,
      output: output === null ? null : readJson(output),
      error,
      started_at: started_at.toISOString(),
      completed_at: completed_at?.toISOString() ?? null,
      steps: [],
    } satisfies DataOf<typeof STEP_MEMBERS> & { steps: unknown[] };
  }
  return top;
}
