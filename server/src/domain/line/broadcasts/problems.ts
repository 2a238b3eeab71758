import { NewBroadcastSchema } from '../../../contract/broadcast.ts';
import { textProblems } from '../../../contract/text-problems.ts';
import { problemsIn } from '../../../contract/validation.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { overrideProblem } from '../../../providers/shared/override.ts';

/** Everything that is wrong with a value as a broadcast, each problem naming its field. */
export function broadcastProblems(value: unknown, nowMs: number): string[] {
  schemaProblems ??= problemsIn(NewBroadcastSchema);
  const beyond = problemsBeyondSchema(value, nowMs);
  return [...new Set([...textProblems(undefined, value), ...schemaProblems(value), ...beyond])];
}

// Compiled when first used: requests are validated by the validator of their route.
let schemaProblems: ((value: unknown) => string[]) | undefined;

/** The part of `broadcastProblems` that no schema expresses. The value need not match the schema. */
export function problemsBeyondSchema(value: unknown, nowMs: number): string[] {
  return [
    ...textsProblems(value),
    ...topicProblems(value),
    ...overrideProblems(value),
    ...timeProblems(value, nowMs),
  ];
}

// Every batch of deliveries loads it.
const MAX_DATA_CHARACTERS = 256 * 1024;

/** A broadcast has either texts or a template. */
function textsProblems(value: unknown): string[] {
  const template = memberOf(value, 'template');
  if (typeof template !== 'object' || template === null) return [];
  const texts = ['title', 'content', 'action_url'].filter((name) => memberOf(value, name) != null);
  if (memberOf(memberOf(value, 'overrides'), 'channels') != null) texts.push('overrides.channels');
  const problems = texts.map((name) => `Param '${name}' is not allowed with a template`);
  const data = JSON.stringify(memberOf(template, 'data') ?? null);
  if (data.length > MAX_DATA_CHARACTERS)
    problems.push(`Param 'template.data' must have at most ${MAX_DATA_CHARACTERS} characters as JSON`);
  return problems;
}

const MAX_DAYS_AHEAD = 400;
const DAY_MS = 24 * 3_600_000;

function timeProblems(value: unknown, nowMs: number): string[] {
  const sendAt = memberOf(value, 'send_at');
  if (typeof sendAt !== 'string') return [];
  return Date.parse(sendAt) > nowMs + MAX_DAYS_AHEAD * DAY_MS
    ? [`Param 'send_at' must be within the next ${MAX_DAYS_AHEAD} days`]
    : [];
}

function topicProblems(value: unknown): string[] {
  if (memberOf(value, 'topic') != null) return [];
  const at = itemsOf(memberOf(value, 'recipients')).findIndex(
    (one) => typeof one === 'object' && one !== null && 'topic' in one,
  );
  return at < 0 ? [] : [`Param 'topic' is missing: recipients.${at} are its subscribers`];
}

function overrideProblems(value: unknown): string[] {
  const providers = memberOf(memberOf(value, 'overrides'), 'providers');
  if (typeof providers !== 'object' || providers === null) return [];
  return Object.entries(providers).flatMap(([name, override]) => {
    const problem = overrideProblem(override);
    return problem === undefined ? [] : [`Param 'overrides.providers.${name.slice(0, 100)}' ${problem}`];
  });
}
