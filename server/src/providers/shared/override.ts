import { keepNumbers } from '../../lib/exact-numbers.ts';
import { isRecord } from '../../lib/members.ts';
import type { Override, Rejection } from '../provider.ts';

const MAX_DEPTH = 32;
/** Names that could change prototypes where objects are copied carelessly. */
const FORBIDDEN = new Set(['__proto__', 'constructor', 'prototype']);

/**
 * Merges a broadcast's override for this provider into the payload, as a JSON merge patch (RFC 7396): objects
 * are merged, other values are replaced, `null` removes a member. Locked paths (`personalizations/0/to`) keep
 * their values; where the payload has none, the override cannot add one. A list on the way to a locked path
 * keeps its length. An invalid override rejects the message.
 */
export function mergeOverride<Payload extends object>(
  payload: Payload,
  override: Override | undefined,
  { locked }: { locked: readonly string[] },
): { payload: Payload } | Rejection {
  if (override === undefined) return { payload };
  const problem = overrideProblem(override);
  if (problem !== undefined) {
    return { kind: 'rejected', scope: 'message', code: 'bad_override', reason: `the override ${problem}` };
  }
  const merged = locked.reduce<unknown>(
    (result, path) => restored(result, payload, path.split('/')),
    patched(payload, override),
  );
  return { payload: merged as Payload };
}

/** Returns why an override is invalid, as a predicate without its subject; undefined if it is valid. */
export function overrideProblem(override: unknown): string | undefined {
  return problemIn(override, 1);
}

function problemIn(value: unknown, depth: number): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (depth > MAX_DEPTH) return `is nested deeper than ${MAX_DEPTH} levels`;
  for (const [name, below] of Object.entries(value)) {
    if (FORBIDDEN.has(name)) return `must not name ${name}`;
    const problem = problemIn(below, depth + 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function patched(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? keepNumbers(target, { ...target }) : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = patched(result[name], value);
  }
  return keepNumbers(patch, result);
}

/** Returns the value with the original content at the path. */
function restored(value: unknown, original: unknown, [name, ...rest]: readonly string[]): unknown {
  if (name === undefined) return original;
  if (Array.isArray(original)) {
    const list: unknown[] = Array.isArray(value) ? value : original;
    return original.map((own: unknown, index) => {
      const given = index < list.length ? list[index] : own;
      return index === Number(name) ? restored(given, own, rest) : given;
    });
  }
  if (isRecord(original) && Object.hasOwn(original, name)) {
    const base = isRecord(value) ? value : original;
    return keepNumbers(base, { ...base, [name]: restored(base[name], original[name], rest) });
  }
  // The payload had nothing here, so the override may not add it.
  if (!isRecord(value)) return value;
  const { [name]: _, ...others } = value;
  return keepNumbers(value, others);
}
