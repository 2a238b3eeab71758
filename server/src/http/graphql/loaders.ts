import DataLoader from 'dataloader';
import type { Queryable } from '../../db/client.ts';
import { countDeliveries } from '../../domain/line/ledger/count.ts';
import { explainWaiting } from '../../domain/line/ledger/explain-waiting.ts';
import type { ListedDelivery } from '../../domain/line/ledger/list-cursor.ts';
import { listFirstDeliveries } from '../../domain/line/ledger/list-first.ts';
import type { ListPage } from '../../lib/page.ts';

/** Reads for many records what a query selects of each, with one call. */
export interface Loaders {
  /** The first deliveries of a broadcast. */
  firstDeliveries: Load<{ channel: string | undefined; limit: number }, ListPage<ListedDelivery>>;
  /** The number of deliveries of a broadcast. */
  deliveryCount: Load<{ channel: string | undefined; failed: boolean }, number>;
}

type Load<Options, Value> = (id: string, options: Options) => Promise<Value>;

/** The loaders of one operation. */
export function createLoaders(deps: { db: Queryable; brand: string }, projectId: string): Loaders {
  return {
    firstDeliveries: loader(async (ids, page) => {
      const found = await listFirstDeliveries(deps, ids, page);
      const listed = [...found.values()].flatMap(({ items }) => items);
      const explained = await explainWaiting(
        deps,
        projectId,
        listed.map(({ delivery }) => delivery),
      );
      const byId = new Map(explained.map((delivery) => [delivery.id, delivery]));
      return ids.map((id) => {
        const { items = [], ...rest } = found.get(id) ?? { older: undefined, newer: undefined };
        const known = items.map((one) => ({ ...one, delivery: byId.get(one.delivery.id) ?? one.delivery }));
        return { items: known, ...rest };
      });
    }),
    deliveryCount: loader(async (ids, filter) => {
      const counts = await countDeliveries(deps.db, ids, filter);
      return ids.map((id) => counts.get(id) ?? 0);
    }),
  };
}

/** Loads records with the same options together. */
function loader<Options, Value>(
  read: (ids: readonly string[], options: Options) => Promise<Value[]>,
): Load<Options, Value> {
  const loaders = new Map<string, DataLoader<string, Value>>();
  return (id, options) => {
    const key = JSON.stringify(options);
    const known = loaders.get(key) ?? new DataLoader((ids: readonly string[]) => read(ids, options));
    loaders.set(key, known);
    return known.load(id);
  };
}
