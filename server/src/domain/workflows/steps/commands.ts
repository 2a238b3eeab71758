import type { NewBroadcast, Recipient } from '../../../contract/broadcast.ts';
import type { SaveUser } from '../../../contract/user.ts';
import { memberOf } from '../../../lib/members.ts';
import { problemsBeyondSchema, textsProblems } from '../../line/accept/prepare.ts';
import { prepareBroadcast } from '../../line/accept/send-broadcast.ts';
import { updateUser } from '../../people/users/update.ts';
import type { Command, StepCall } from './command.ts';
import { http } from './http.ts';
import { wait } from './wait.ts';

/** Sends a broadcast, by default to the user of the run. */
const broadcast: Command<Omit<NewBroadcast, 'recipients'> & Partial<Pick<NewBroadcast, 'recipients'>>> = {
  sends: true,
  problems: problemsBeyondSchema,
  conflicts: textsProblems,
  async begin(context, { projectId, user, input, broadcastId: id }) {
    const { recipients = user === null ? undefined : [recipientOf(user)], ...rest } = input;
    if (recipients === undefined)
      return { kind: 'fail', error: "Param 'recipients' is missing, and the run has no user" };
    const broadcast = await prepareBroadcast(context, { id: projectId }, { ...rest, recipients }, { id });
    return { kind: 'done', output: { id }, broadcastId: id, ...(broadcast && { broadcast }) };
  },
};

function recipientOf({ external_id, email }: NonNullable<StepCall<unknown>['user']>): Recipient {
  return external_id === null ? { email } : { external_id };
}

/** Waits for an event. Events continue the run in engine/continue-waiting.ts. */
const waitFor: Command<{ event: string; timeout: number }> = {
  timedOut: { timed_out: true },
  begin: ({ clock }, { input: { event, timeout } }) => ({
    kind: 'wait',
    event,
    untilMs: clock.now() + timeout * 1_000,
  }),
};

/** Waits until the run is resumed. */
const pause: Command<object> = { begin: () => ({ kind: 'wait' }) };

/** Ends the run as aborted. */
const abort: Command<{ reason?: string }> = {
  begin: (_context, { input: { reason } }) => ({
    kind: 'abort',
    reason,
  }),
};

/** Sets values for later steps. */
const set: Command<object> = {
  begin: (_context, { input }) => ({ kind: 'done', output: input, data: input }),
};

/** Changes the user of the run. */
const updateUserOfRun: Command<SaveUser> = {
  acts: true,
  async begin(context, { projectId, runId, user: of, input }) {
    if (of === null) return { kind: 'fail', error: 'the run has no user' };
    const user = await updateUser({ ...context, cause: { run_id: runId } }, projectId, of.id, input);
    return user === undefined
      ? { kind: 'fail', error: 'the user was deleted' }
      : { kind: 'done', changedUser: true };
  },
};

/** Collects the inputs of runs until its window closes. */
const digest: Command<{ window: number; max_window?: number; key?: string }> = {
  problems(input) {
    const [window, maxWindow] = [memberOf(input, 'window'), memberOf(input, 'max_window')];
    return typeof window === 'number' && typeof maxWindow === 'number' && maxWindow < window
      ? ["Param 'max_window' must not be less than 'window'"]
      : [];
  },
  begin: (_context, { input: { window, max_window: maxWindow = window, key } }) => ({
    kind: 'collect',
    key,
    windowMs: window * 1_000,
    maxWindowMs: maxWindow * 1_000,
  }),
};

/** Ends the run if too many others have passed. */
const throttle: Command<{ limit: number; window: number; key?: string }> = {
  begin: (_context, { input: { limit, window, key } }) => ({
    kind: 'throttle',
    key,
    limit,
    windowMs: window * 1_000,
  }),
};

/** The commands of steps. `branch` is part of the engine. */
export const COMMANDS: ReadonlyMap<string, Command> = new Map<string, Command>([
  ['broadcast', broadcast],
  ['wait', wait],
  ['wait_for', waitFor],
  ['pause', pause],
  ['abort', abort],
  ['set', set],
  ['update_user', updateUserOfRun],
  ['http', http],
  ['digest', digest],
  ['throttle', throttle],
]);
