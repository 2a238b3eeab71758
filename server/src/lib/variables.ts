import { closest, distance } from 'fastest-levenshtein';

/** A variable that a condition or template reads, by its names and indexes; undefined for computed ones. */
export type VariablePath = readonly (string | number | undefined)[];

/** What a value has: members of any name, no members, these members, or these items. */
export type Shape = 'open' | 'value' | Members | readonly Shape[];
export interface Members {
  readonly [name: string]: Shape;
}

// In Liquid every value has these.
const OF_LIQUID = new Set<unknown>(['size', 'first', 'last']);

/** Returns a problem for each variable that data of this shape does not have. `place` begins them. */
export function unknownVariables(paths: readonly VariablePath[], data: Members, place: string): string[] {
  const problems = paths.flatMap((path) => problemOf(path, data) ?? []);
  return [...new Set(problems)].map((problem) => `${place} ${problem}`);
}

function problemOf(path: VariablePath, data: Members): string | undefined {
  let shape: Shape = data;
  for (const [index, part] of path.entries()) {
    if (shape === 'open' || part === undefined || (index > 0 && OF_LIQUID.has(part))) return undefined;
    const member: Shape | undefined = memberOf(shape, part);
    if (member === undefined) {
      const why = hint(path.slice(0, index), part, shape);
      return `reads ${nameOf(path.slice(0, index + 1))}, which does not exist${why}`;
    }
    shape = member;
  }
  return undefined;
}

function memberOf(shape: Exclude<Shape, 'open'>, part: string | number): Shape | undefined {
  if (shape === 'value') return undefined;
  if (isList(shape)) return shape[Number(part)];
  return Object.hasOwn(shape, part) ? shape[part] : undefined;
}

function hint(parent: VariablePath, part: string | number, shape: Exclude<Shape, 'open'>): string {
  if (shape === 'value') return `: ${nameOf(parent)} has no members`;
  if (isList(shape)) {
    if (shape.length === 0) return `: ${nameOf(parent)} is empty here`;
    return `: the last one here is ${nameOf([...parent, shape.length - 1])}`;
  }
  const names = Object.keys(shape);
  const nearest = closest(String(part), names);
  const isNear = distance(String(part), nearest) <= Math.ceil(nearest.length / 3);
  const known = isNear ? `did you mean ${nameOf([...parent, nearest])}?` : `known are ${names.join(', ')}`;
  return `: ${known}`;
}

function isList(shape: Shape): shape is readonly Shape[] {
  return Array.isArray(shape);
}

function nameOf(path: VariablePath): string {
  return path.reduce<string>((name, part) => {
    if (name === '') return String(part);
    if (typeof part === 'number') return `${name}[${part}]`;
    return /^\w+$/.test(String(part)) ? `${name}.${part}` : `${name}[${JSON.stringify(part)}]`;
  }, '');
}
