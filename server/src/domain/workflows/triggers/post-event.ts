import { isOwnEvent, MAX_EVENT_DATA_CHARACTERS, type NewWorkflowEvent } from '../../../contract/workflow.ts';
import { ClientError } from '../../../errors.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { memberOf } from '../../../lib/members.ts';
import type { JobKind } from '../../../queue/jobs.ts';
import { findUsers } from '../../people/users/find.ts';
import { continueWaiting } from '../engine/continue-waiting.ts';
import { inStartTransaction, type StartContext } from '../runs/start.ts';
import { startTriggered } from './start-triggered.ts';

// No user has this id.
const UNKNOWN_USER = OLDEST;

/** Returns the problems of an event of any shape that its schema does not find. */
export function eventProblems(event: unknown): string[] {
  const [name, data] = [memberOf(event, 'name'), memberOf(event, 'data')];
  const problems = [];
  if (typeof name === 'string' && isOwnEvent(name))
    problems.push(`Param 'name' must not be ${name}, which is an event of Belfry`);
  if (writeJson(data ?? {}).length > MAX_EVENT_DATA_CHARACTERS)
    problems.push(`Param 'data' has more than ${MAX_EVENT_DATA_CHARACTERS} characters as JSON`);
  return problems;
}

/** Continues the runs that wait for an event, and starts others by triggers. Throws `validation_failed`. */
export async function postEvent(
  context: StartContext & { wake: (kind: JobKind) => void },
  projectId: string,
  event: NewWorkflowEvent,
): Promise<{ continued: number; started: number }> {
  const problems = eventProblems(event);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const { name, user, data } = event;
  const value = { name, ...(user ? { user } : {}), data: data ?? {} };
  const result = await inStartTransaction(context, async (tx) => {
    const [found] = user ? await findUsers(tx, [{ projectId, ...user }]) : [];
    const userId = user ? (found ?? UNKNOWN_USER) : null;
    const events = [{ name, userId, broadcastId: null, xact: null, value }];
    const later = { posted: { name, user_id: userId, value } };
    const waited = await continueWaiting(tx, projectId, events, { nowMs: context.clock.now(), later });
    const { started, users } = await startTriggered(tx, context, projectId, events);
    return { users, result: { ...waited, started } };
  });
  const { continued, later, started } = result;
  if (continued + started > 0) context.wake('run_workflow');
  if (later > 0) context.wake('continue_workflows');
  return { continued: continued + later, started };
}
