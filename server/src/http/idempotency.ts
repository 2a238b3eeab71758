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
import type { JsonText } from '../lib/json-text.ts';
import { bearerToken } from './auth.ts';
import type { CallContext, HttpContext } from './context.ts';

/**
 * The request's Idempotency-Key, scoped to its operation and caller, or to the token of the caller. Throws
 * 422 if it is too long or has invisible characters.
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

/** The problem with an Idempotency-Key; undefined if it is valid or missing. */
export function keyProblem(key: string | string[] | undefined): [string] | undefined {
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return undefined;
  return ["Header 'Idempotency-Key' must have 1 to 255 visible ASCII characters"];
}

/** How the response to a call is stored under its key. */
interface Storing {
  key: IdempotencyKey;
  /** The status of success. */
  status: number;
  /** In one transaction with the call, or after a claim of the key and without a transaction. */
  mode: 'automatic' | 'claimed';
  /** The body has a secret, and is stored sealed. */
  secret: boolean;
}

type Run = (context: CallContext, afterCommit: (effect: () => void) => void) => Promise<JsonText>;

/** Runs a call under its key at most once. Returns its result, or the stored result of the first time. */
export async function runIdempotently(
  context: HttpContext,
  { key, status, mode, secret }: Storing,
  run: Run,
): Promise<StoredResponse & { replayed: boolean }> {
  const purpose = storedResponsePurpose(key.projectId, key.scope, key.key);
  const toStored = (body: JsonText): StoredResponse => ({
    status,
    body: secret ? context.sealer.seal(body.toString(), purpose).toString('base64') : body.toString(),
  });
  const stored =
    mode === 'automatic'
      ? await inTransaction(context, key, run, toStored)
      : await runOnceClaimed(context, key, async () => toStored(await run(context, (effect) => effect())));
  // Errors are never sealed.
  if (!secret || stored.status >= 400) return stored;
  return { ...stored, body: context.sealer.open(Buffer.from(stored.body, 'base64'), purpose).toString() };
}

/** Runs the call and stores its response in one transaction. Messages and effects follow the commit. */
async function inTransaction(
  context: HttpContext,
  key: IdempotencyKey,
  run: Run,
  toStored: (body: JsonText) => StoredResponse,
): Promise<StoredResponse & { replayed: boolean }> {
  const effects: (() => void)[] = [];
  const afterCommit = (effect: () => void) => {
    effects.push(effect);
  };
  const stored = await runOnce(context, key, async (tx) => {
    return toStored(await run(within(context, tx, afterCommit), afterCommit));
  });
  // After an error the writes were rolled back, so there are no effects.
  if (!stored.replayed && stored.status < 400) for (const effect of effects) effect();
  return stored;
}

function within(context: HttpContext, tx: Queryable, afterCommit: (effect: () => void) => void): CallContext {
  return {
    ...context,
    db: { query: (statement, values) => tx.query(statement, values), transaction: (work) => work(tx) },
    bus: {
      publish: (message: RealtimeMessage) => afterCommit(() => context.bus.publish(message)),
      subscribe: (handler) => context.bus.subscribe(handler),
    },
    wake: (kind) => afterCommit(() => context.wake(kind)),
  };
}
