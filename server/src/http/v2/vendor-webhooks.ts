import type { FastifyReply, FastifyRequest } from 'fastify';
import { ClientError } from '../../errors.ts';
import type { HttpContext } from '../context.ts';
import type { App } from '../route.ts';

/**
 * Runs the work in the cell whose integration has signed the webhook. Projects choose the ids of their
 * integrations, so several cells may have the same one, and only the signature decides. Throws
 * `invalid_signature` if no integration has signed it. Throws a 5xx if a cell cannot be reached, so that the
 * vendor repeats the request.
 */
export async function inSigningCell<Result>(
  { context, cells }: Pick<App, 'context' | 'cells'>,
  id: string,
  work: (context: HttpContext, id: string) => Promise<Result>,
): Promise<Result> {
  if (cells === undefined || (cells.contexts.length === 0 && isComplete(cells))) return work(context, id);
  let failure: unknown;
  for (const one of withFirst(cells.ofWebhooks.get(id), [context, ...cells.contexts])) {
    try {
      const result = await work(one, id);
      cells.ofWebhooks.set(id, one);
      return result;
    } catch (error) {
      if (error instanceof ClientError && error.status < 500 && error.code !== 'invalid_signature')
        throw error;
      if (!(error instanceof ClientError && error.code === 'invalid_signature')) failure = error;
    }
  }
  throw failure ?? (isComplete(cells) ? new ClientError('invalid_signature') : new UnknownSignature());
}

/** No cell that could be asked has signed the webhook; one that could not be asked may have. */
class UnknownSignature extends ClientError {
  constructor() {
    super('service_unavailable');
  }
}

/** Runs the work and counts wrong and unknown signatures by address. Too many of them are a 429. */
export async function countingStrangers<Result>(
  { limits }: App,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const isInvalid = error instanceof ClientError && error.code === 'invalid_signature';
    if (isInvalid || error instanceof UnknownSignature) await limits.unsigned(request, reply);
    throw error;
  }
}

/**
 * Runs the work in all cells, and returns the result of the default one. Cells that cannot be asked are
 * logged: with an error, the vendor would stop sending to all others, too.
 */
export async function inEveryCell<Result>(
  { context, cells }: Pick<App, 'context' | 'cells'>,
  work: (context: HttpContext) => Promise<Result>,
): Promise<Result> {
  const result = await work(context); // first, so that an invalid one is not logged for each cell
  const missed = [...(cells?.missing ?? [])];
  await Promise.all(
    (cells?.contexts ?? []).map(async (one) => {
      await work(one).catch(() => missed.push(one.cell));
    }),
  );
  if (missed.length > 0) context.log.warn({ cells: missed }, 'a webhook for all cells did not reach some');
  return result;
}

const isComplete = (cells: App['cells']) => (cells?.missing.length ?? 0) === 0;

function withFirst<Item>(first: Item | undefined, items: readonly Item[]): readonly Item[] {
  if (first === undefined || !items.includes(first)) return items;
  return [first, ...items.filter((item) => item !== first)];
}
