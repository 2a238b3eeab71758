import { waitAtMost } from '../../../lib/wait.ts';

const RESPONSE_TIMEOUT_MS = 5_000;

/** A server that carries messages did not respond in time. */
export class NoResponse extends Error {}

/** Rejects with `NoResponse` if the promise takes longer than a server of the bus may. */
export function withTimeout<Value>(promise: Promise<Value>): Promise<Value> {
  return waitAtMost(RESPONSE_TIMEOUT_MS, promise, () => {
    throw new NoResponse(`no response within ${RESPONSE_TIMEOUT_MS} ms`);
  });
}
