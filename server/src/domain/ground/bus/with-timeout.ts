import { afterAwake } from '../../../lib/awake.ts';

const RESPONSE_TIMEOUT_MS = 5_000;

/** A server that carries messages did not respond in time. */
export class NoResponse extends Error {}

/** Rejects with `NoResponse` if the promise takes longer than a server of the bus may. */
export async function withTimeout<Value>(promise: Promise<Value>): Promise<Value> {
  const late = Promise.withResolvers<never>();
  const clear = afterAwake(RESPONSE_TIMEOUT_MS, () =>
    late.reject(new NoResponse(`no response within ${RESPONSE_TIMEOUT_MS} ms`)),
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clear();
  }
}
