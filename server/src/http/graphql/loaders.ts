import DataLoader from 'dataloader';
import type { Queryable } from '../../db/client.ts';
import { explainWaiting } from '../../domain/line/ledger/explain-waiting.ts';
import type { ListedDelivery } from '../../domain/line/ledger/list-cursor.ts';
import { listFirstDeliveries } from '../../domain/line/ledger/list-first.ts';
import type { ListPage } from '../../lib/page.ts';

/** Reads for many records what a query selects of each, with one call. */
export interface Loaders {
  /** The first deliveries of a broadcast. */
  firstDeliveries(broadcastId: string, page: FirstDeliveries): Promise<ListPage<ListedDelivery>>;
}

interface FirstDeliveries {
  channel: string | undefined;
  limit: number;
}

type Load = (broadcastId: string) => Promise<ListPage<ListedDelivery>>;

/** The loaders of one operation. */
export function createLoaders(deps: { db: Queryable; brand: string }, projectId: string): Loaders {
  const loads = new Map<string, Load>();

  function loaderOf(page: FirstDeliveries): Load {
    const loader = new DataLoader<string, ListPage<ListedDelivery>>(async (ids) => {
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
    });
    return (id) => loader.load(id);
  }

  return {
    firstDeliveries(broadcastId, page) {
      const key = `${page.limit} ${page.channel ?? ''}`;
      const load = loads.get(key) ?? loaderOf(page);
      loads.set(key, load);
      return load(broadcastId);
    },
  };
}
