import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, request, type Target } from './api.ts';
import { CommandError } from './command.ts';
import { colored, type Format, plain, print } from './output.ts';

/** The members of a broadcast that the command line shows. */
export interface Broadcast {
  id: string;
  title: string;
  created_at: string;
  status: {
    status: 'enqueued' | 'processing' | 'processed';
    summary: { total: number; failures: number; pending: number };
    errors: { message: string }[] | null;
  };
}

const FIRST_POLL_MS = 50;
const LONGEST_POLL_MS = 1_000;

/**
 * Polls a broadcast until it is processed, and calls `onPoll` each time. Throws a `CommandError` at the
 * timeout.
 */
export async function waitUntilProcessed(
  target: Target,
  id: string,
  timeoutMs: number,
  onPoll: (broadcast: Broadcast) => void = () => {},
): Promise<Broadcast> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_POLL_MS)) {
    const { broadcast, retryAfterMs } = await poll(target, id);
    if (broadcast !== undefined) onPoll(broadcast);
    if (broadcast?.status.status === 'processed') return broadcast;
    const waitMs = Math.max(retryAfterMs, pauseMs);
    if (performance.now() + waitMs > deadline) {
      const state = broadcast?.status.status ?? 'in an unknown state';
      throw new CommandError(
        `broadcast ${id} is still ${state} after ${timeoutMs / 1000} s, and continues: ` +
          'wait longer with --timeout 10m',
      );
    }
    await sleep(waitMs);
  }
}

/** Reads the broadcast. A server that is busy, or restarts its database, does not end the wait. */
async function poll(target: Target, id: string): Promise<{ broadcast?: Broadcast; retryAfterMs: number }> {
  try {
    const response = await request(target, `/broadcasts/${id}`);
    return { broadcast: (await response.json()) as Broadcast, retryAfterMs: 0 };
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 429 && error.status !== 503)) throw error;
    return { retryAfterMs: error.retryAfterMs ?? 0 };
  }
}

const FORMATS: Record<Broadcast['status']['status'], Format> = {
  enqueued: 'yellow',
  processing: 'yellow',
  processed: 'green',
};

/** Prints the state of a broadcast, then each of its errors, in a line each. */
export function printStatus({ status: { status, summary, errors } }: Broadcast): void {
  const { total, failures, pending } = summary;
  const failed = `${failures} failed`;
  const parts = [`${total} addressed`, failures > 0 ? colored('red', failed) : failed];
  if (pending > 0) parts.push(`${colored('yellow', `${pending} pending`)} (retried, deferred or scheduled)`);
  print(`${colored(FORMATS[status], status)}: ${parts.join(', ')}`);
  for (const { message } of errors ?? []) print(`  ${plain(message)}`);
}
