import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { Queryable } from '../db/client.ts';
import type { RealtimeMessage } from '../domain/ground/bus/messages.ts';
import {
  type IdempotencyKey,
  requestHash,
  runOnce,
  runOnceClaimed,
  type StoredResponse,
  storedResponsePurpose,
} from '../domain/ground/requests/idempotency.ts';
import { ClientError } from '../errors.ts';
import { bearerToken } from './auth.ts';
import type { CallContext, HttpContext } from './context.ts';

/**
 * The request's Idempotency-Key, scoped to its caller and operation, or to the very token that the caller
 * has. Throws 422 for one that is too long or not visible.
 */
export function idempotencyKeyOf(
  request: FastifyRequest,
  operationId: string,
  replayedTo: 'caller' | 'token' = 'caller',
): IdempotencyKey | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined || request.caller === undefined) return undefined;
  const problem = keyProblem(key);
  if (problem !== undefined || typeof key !== 'string') throw new ClientError('validation_failed', problem);
  const { caller } = request;
  const scope = caller.kind === 'user' ? `${operationId} ${caller.userId}` : operationId;
  return {
    projectId: caller.project.id,
    scope: replayedTo === 'token' ? `${scope} ${tokenDigest(request)}` : scope,
    key,
    requestHash: requestHash(request.url, request.bodyHash),
  };
}

function tokenDigest({ headers }: FastifyRequest): string {
  const token = bearerToken(headers.authorization);
  return createHash('sha256').update(token).digest('base64url');
}

/** What is wrong with an Idempotency-Key; undefined where nothing is, or there is none. */
export function keyProblem(key: string | string[] | undefined): [string] | undefined {
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return undefined;
  return ["Header 'Idempotency-Key' must have 1 to 255 visible ASCII characters"];
}

/** How a call is answered under its key. */
interface Keeping {
  key: IdempotencyKey;
  /** The status of success. */
  status: number;
  /**
   * In one transaction with what the call writes, or after a claim of the key and without a transaction
   * around the call.
   */
  mode: 'automatic' | 'claimed';
  /** The body holds a secret, and is kept sealed. */
  secret: boolean;
}

type Run = (context: CallContext, afterCommit: (effect: () => void) => void) => Promise<string | Buffer>;

/**
 * Runs a call under its key, at most once, and answers what it answered or what is kept of the first time.
 */
export async function answerIdempotently(
  context: HttpContext,
  { key, status, mode, secret }: Keeping,
  run: Run,
): Promise<StoredResponse & { replayed: boolean }> {
  const purpose = storedResponsePurpose(key.projectId, key.scope, key.key);
  const keep = (body: string | Buffer): StoredResponse => ({
    status,
    body: secret ? context.sealer.seal(body, purpose).toString('base64') : body.toString(),
  });
  const answered =
    mode === 'automatic'
      ? await inTransaction(context, key, run, keep)
      : await runOnceClaimed(context, key, async () => keep(await run(context, (effect) => effect())));
  // A refusal is never sealed.
  if (!secret || answered.status >= 400) return answered;
  return { ...answered, body: context.sealer.open(Buffer.from(answered.body, 'base64'), purpose).toString() };
}

/** Writes and answer in one transaction, messages and effects after it. */
async function inTransaction(
  context: HttpContext,
  key: IdempotencyKey,
  run: Run,
  keep: (body: string | Buffer) => StoredResponse,
): Promise<StoredResponse & { replayed: boolean }> {
  const effects: (() => void)[] = [];
  const afterCommit = (effect: () => void) => {
    effects.push(effect);
  };
  const answered = await runOnce(context, key, async (tx) => {
    return keep(await run(within(context, tx, afterCommit), afterCommit));
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
