import type { RunState, RunStep } from '../../../contract/workflow.ts';
import { readJson } from '../../../lib/exact-numbers.ts';
import { indexOf } from '../definitions/places.ts';

/** A run without its input. */
export interface RunRow {
  id: string;
  workflow_key: string;
  version: number;
  user_id: string | null;
  state: RunState;
  place: string;
  error: string | null;
  created_at: Date;
  started_at: Date | null;
  completed_at: Date | null;
}

export const RUN_COLUMNS =
  'id, workflow_key, version, user_id, state, place, error, created_at, started_at, completed_at';

/** How far the next step of a run is. `prepared`: its condition held, and its rendered input is stored. */
export const STAGES = { notBegun: 0, prepared: 1, waiting: 2, eventArrived: 3 } as const;
export type Stage = (typeof STAGES)[keyof typeof STAGES];

/** The first state in which a run has ended. */
export const ENDED = 3;

/** A step of a run that has begun. */
export interface StepRow {
  place: string;
  command: string;
  state: RunStep['state'];
  started_at: Date;
  completed_at: Date | null;
  /** JSON text of an object. */
  output: string | null;
  error: string | null;
}

/**
 * Returns the API form of a run without its input. Published clients expect that unset members are left out.
 */
export function runRecord({ id, workflow_key, version, user_id, created_at, ...row }: RunRow) {
  const { state, place, error, started_at, completed_at } = row;
  const status = set({
    state,
    next_step: state < ENDED ? indexOf(place) : null,
    started_at,
    completed_at,
    error,
  });
  return { ...set({ id, workflow_key, version, user_id }), status, created_at };
}

/** Returns the API form of a step. */
export function stepRecord({ place, command, state, started_at, completed_at, output, error }: StepRow) {
  const row = { place, command, state, started_at, completed_at, error };
  return set({ ...row, output: output === null ? null : readJson(output) });
}

/** Returns the members that are not null. */
function set(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}
