import { createHash } from 'node:crypto';
import type { SharedResult, StepResult } from '../steps/command.ts';
import type { LoadedRun } from './load.ts';

/** A step of a run that depends on other runs. */
export interface SharedStep<Result extends SharedResult = SharedResult> {
  run: LoadedRun;
  place: string;
  request: Result;
}

/** What follows for the runs, by their id. */
export type Decisions = ReadonlyMap<string, StepResult>;

/** Steps with the same key, in the order in which their runs started. */
export interface Group<Step> {
  /** A hash of the workflow, the place and what the runs have in common. */
  key: Buffer;
  steps: readonly [Step, ...Step[]];
}

/**
 * Returns whose run it is: the user, or null for a run without one. A run that names a user that it could not
 * get, such as a deleted one, returns itself: it shares nothing with the runs of others.
 */
export function ownerOf({ id, user_id: userId, input }: LoadedRun): string | null {
  return userId ?? (input.user == null ? null : id);
}

/** Groups steps by their key. */
export function groupSteps<Step extends SharedStep>(
  steps: readonly Step[],
  commonOf: (step: Step) => readonly unknown[],
): Group<Step>[] {
  const ordered = [...steps].sort((a, b) => (a.run.id < b.run.id ? -1 : 1));
  const groups = new Map<string, { key: Buffer; steps: [Step, ...Step[]] }>();
  for (const step of ordered) {
    const { project_id, workflow_key } = step.run;
    const common = [project_id, workflow_key, step.place, ...commonOf(step)];
    const key = createHash('sha256').update(JSON.stringify(common)).digest();
    const group = groups.get(key.toString('hex'));
    if (group === undefined) groups.set(key.toString('hex'), { key, steps: [step] });
    else group.steps.push(step);
  }
  return [...groups.values()];
}
