import DataLoader from 'dataloader';
import { countDeliveries } from '../../domain/line/ledger/count.ts';
import type { ListedDelivery } from '../../domain/line/ledger/list-cursor.ts';
import { listFirstDeliveries } from '../../domain/line/ledger/list-first.ts';
import type { LedgerContext } from '../../domain/line/ledger/read-planned.ts';
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
export function createLoaders(ledger: LedgerContext): Loaders {
  return {
    firstDeliveries: loader(async (ids, page) => {
      const found = await listFirstDeliveries(ledger, ids, page);
      return ids.map((id) => found.get(id) ?? { items: [], older: undefined, newer: undefined });
    }),
    deliveryCount: loader(async (ids, filter) => {
      const counts = await countDeliveries(ledger.db, ids, filter);
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
