import type { Program, ProgramStep } from './program.ts';

/**
 * The place of a step in a program: its index in the list of steps and, in a branch, the index of the branch
 * and of the step in it. `3.0.2` is step 2 of branch 0 of step 3.
 */
export type Place = string;

export const FIRST: Place = '0';

/** Returns the step at a place; undefined if the program has none there. */
export function stepAt(program: Program, place: Place): ProgramStep | undefined {
  const [index = 0, ...path] = place.split('.').map(Number);
  let step = program.steps[index];
  for (let at = 0; at < path.length; at += 2)
    step = step?.branches?.[path[at] as number]?.steps[path[at + 1] as number];
  return step;
}

/** Returns the place after a step: the next one of its list, or the one after the branch that it is in. */
export function placeAfter(program: Program, place: Place): Place {
  const path = place.split('.').map(Number);
  for (;;) {
    const index = path.pop() as number;
    const next = [...path, index + 1].join('.');
    if (path.length === 0 || stepAt(program, next) !== undefined) return next;
    path.pop(); // the branch
  }
}

/** Returns the place of the first step of a branch. It may have none. */
export function placeIn(place: Place, branch: number): Place {
  return `${place}.${branch}.0`;
}

/** Returns the index of the step in the list of the workflow. */
export function indexOf(place: Place): number {
  return Number.parseInt(place, 10);
}

/** Compares the order of two places. */
export function comparePlaces(a: Place, b: Place): number {
  const [first, second] = [a.split('.').map(Number), b.split('.').map(Number)];
  for (const [at, index] of first.entries()) {
    const other = second[at];
    if (other === undefined) return 1;
    if (index !== other) return index - other;
  }
  return first.length - second.length;
}
