import type { Override, Rejection } from '../provider.ts';

const MAX_DEPTH = 32;
/** Names that mean something to the language itself where objects are copied carelessly. */
const FORBIDDEN = new Set(['__proto__', 'constructor', 'prototype']);

/**
 * A payload with what a broadcast says for this provider merged into it, by JSON merge patch (RFC 7396):
 * objects are merged, all else is replaced, `null` takes away. What is at the locked paths
 * (`personalizations/0/to`) is as before or, where nothing was, is not there; a list on the way to one keeps
 * its length. An override that cannot be merged rejects the message.
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

/**
 * Why an override cannot be merged into anything, as a sentence without its beginning; undefined where it
 * can.
 */
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
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = patched(result[name], value);
  }
  return result;
}

/** The value with what `original` has at the path. */
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
    return { ...base, [name]: restored(base[name], original[name], rest) };
  }
  // Nothing was there, so nothing may be.
  if (!isRecord(value)) return value;
  const { [name]: _, ...others } = value;
  return others;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
