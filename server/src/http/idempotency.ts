import type { FastifyRequest } from 'fastify';
import type { Queryable } from '../db/client.ts';
import { answerOnce, type IdempotencyKey, type KeptAnswer, requestHash } from '../domain/idempotency.ts';
import type { RealtimeMessage } from '../domain/realtime/messages.ts';
import { ClientError } from '../errors.ts';
import type { CallContext, HttpContext } from './context.ts';

/** The request's Idempotency-Key, scoped to its caller and operation. Throws 422 for one that is too long or not visible. */
export function idempotencyKeyOf(request: FastifyRequest, operationId: string): IdempotencyKey | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined || request.caller === undefined) return undefined;
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new ClientError('validation_failed', [
      "Header 'Idempotency-Key' must have 1 to 255 visible ASCII characters",
    ]);
  }
  const { caller } = request;
  return {
    projectId: caller.project.id,
    scope: caller.kind === 'user' ? `${operationId} ${caller.userId}` : operationId,
    key,
    requestHash: requestHash(request.url, request.bodyHash),
  };
}

/** Runs a call under its key: writes and answer in one transaction, messages and effects after it. */
export async function answerIdempotently(
  context: HttpContext,
  key: IdempotencyKey,
  status: number,
  run: (context: CallContext, afterCommit: (effect: () => void) => void) => Promise<string | Buffer>,
): Promise<KeptAnswer & { replayed: boolean }> {
  const effects: (() => void)[] = [];
  const afterCommit = (effect: () => void) => {
    effects.push(effect);
  };
  const answered = await answerOnce(context, key, async (tx) => {
    const body = await run(within(context, tx, afterCommit), afterCommit);
    return { status, body: body.toString() };
  });
  // A refusal undid what the handler wrote: there is nothing to tell anybody.
  if (!answered.replayed && answered.status < 400) for (const effect of effects) effect();
  return answered;
}

function within(context: HttpContext, tx: Queryable, afterCommit: (effect: () => void) => void): CallContext {
  return {
    ...context,
    db: { query: (statement, values) => tx.query(statement, values), transaction: (work) => work(tx) },
    bus: {
      publish: (message: RealtimeMessage) => afterCommit(() => context.bus.publish(message)),
      subscribe: (handler) => context.bus.subscribe(handler),
    },
  };
}
