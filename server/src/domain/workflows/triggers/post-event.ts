import { isOwnEvent, MAX_EVENT_DATA_CHARACTERS, type NewWorkflowEvent } from '../../../contract/workflow.ts';
import type { Database } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { memberOf } from '../../../lib/members.ts';
import type { JobKind } from '../../../queue/jobs.ts';
import { findUsers } from '../../people/users/find-many.ts';
import { retryOnConflict } from '../../people/users/retry-on-conflict.ts';
import { continueWaiting } from '../engine/continue-waiting.ts';

// No user has this id.
const UNKNOWN_USER = OLDEST;

/** Returns the problems of an event of any shape that its schema does not find. */
export function eventProblems(event: unknown): string[] {
  const [name, data] = [memberOf(event, 'name'), memberOf(event, 'data')];
  const problems = [];
  if (typeof name === 'string' && isOwnEvent(name))
    problems.push(`Param 'name' must not be ${name}, which is an event of Belfry`);
  if (JSON.stringify(data ?? {}).length > MAX_EVENT_DATA_CHARACTERS)
    problems.push(`Param 'data' has more than ${MAX_EVENT_DATA_CHARACTERS} characters as JSON`);
  return problems;
}

/** Continues the runs that wait for an event. Returns their number. Throws `validation_failed`. */
export async function postEvent(
  { db, clock, wake }: { db: Pick<Database, 'transaction'>; clock: Clock; wake: (kind: JobKind) => void },
  projectId: string,
  event: NewWorkflowEvent,
): Promise<number> {
  const problems = eventProblems(event);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const { name, user, data } = event;
  const value = { name, ...(user ? { user } : {}), data: data ?? {} };
  const continued = await retryOnConflict(() =>
    db.transaction(async (tx) => {
      const userId = user ? ((await findUsers(tx, [{ projectId, ...user }]))[0] ?? UNKNOWN_USER) : null;
      return continueWaiting(tx, projectId, [{ name, userId, value }], clock.now());
    }),
  );
  if (continued > 0) wake('run_workflow');
  return continued;
}
