import { ClientError } from '../../errors.ts';
import type { HttpContext } from '../context.ts';
import type { App } from '../route.ts';

/**
 * Runs the work in the cell whose integration has signed the webhook. Projects choose the ids of their
 * integrations, so several cells may have the same one, and only the signature decides. Throws
 * `invalid_signature` if it is that of none, and a 5xx, so that it is repeated, if a cell cannot be asked.
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
  throw failure ?? new ClientError(isComplete(cells) ? 'invalid_signature' : 'service_unavailable');
}

/** Runs the work in all cells, and returns the result of the default one. */
export async function inEveryCell<Result>(
  { context, cells }: Pick<App, 'context' | 'cells'>,
  work: (context: HttpContext) => Promise<Result>,
): Promise<Result> {
  const [result] = await Promise.all([work(context), ...(cells?.contexts ?? []).map(work)]);
  if (!isComplete(cells)) throw new ClientError('service_unavailable');
  return result as Result;
}

const isComplete = (cells: App['cells']) => (cells?.missing.length ?? 0) === 0;

function withFirst<Item>(first: Item | undefined, items: readonly Item[]): readonly Item[] {
  if (first === undefined || !items.includes(first)) return items;
  return [first, ...items.filter((item) => item !== first)];
}
