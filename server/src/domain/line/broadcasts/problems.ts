import { NewBroadcastSchema } from '../../../contract/broadcast.ts';
import { textProblems } from '../../../contract/text-problems.ts';
import { problemsIn } from '../../../contract/validation.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { overrideProblem } from '../../../providers/shared/override.ts';

/** Everything that is wrong with a value as a broadcast, each problem naming its field. */
export function broadcastProblems(value: unknown): string[] {
  schemaProblems ??= problemsIn(NewBroadcastSchema);
  const beyond = problemsBeyondSchema(value);
  return [...new Set([...textProblems(undefined, value), ...schemaProblems(value), ...beyond])];
}

// Compiled when first used: requests are validated by the validator of their route.
let schemaProblems: ((value: unknown) => string[]) | undefined;

/** The part of `broadcastProblems` that no schema expresses. The value need not match the schema. */
export function problemsBeyondSchema(value: unknown): string[] {
  return [...topicProblems(value), ...overrideProblems(value)];
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
