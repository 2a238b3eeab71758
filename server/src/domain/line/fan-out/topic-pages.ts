import type { Queryable } from '../../../db/client.ts';
import { BULK, type NewJob } from '../../../queue/jobs.ts';
import { nextSubscribers, SUBSCRIBERS_PER_PAGE } from '../../people/topics/subscribers.ts';
import type { CategoryCache } from '../../setup/categories/cache.ts';
import type { LineContext } from '../context/context.ts';
import { countDown, lockBroadcasts, PAGES_WRITTEN } from '../ledger/finish.ts';
import { type AddressedPage, withNotifications } from './write-fan-out.ts';

/*
 * A topic may have a million subscribers. They are read in the order of their ids, a page at a time. The job
 * of each page is written together with the page before it, so after a crash the next page begins where the
 * last written one ended. All further pages count as one thing that the broadcast awaits.
 */

/**
 * Adds the subscribers of this page to the broadcasts that go to subscribers, by one statement for all, and
 * where the next page begins.
 */
export async function addSubscribers(
  { categories }: Pick<LineContext, 'categories'>,
  tx: Queryable,
  broadcasts: readonly AddressedPage[],
): Promise<readonly AddressedPage[]> {
  if (broadcasts.every(({ subscribers }) => subscribers === undefined)) return broadcasts;
  const reading = broadcasts.filter(({ subscribers }) => subscribers?.onThisPage);
  const pages = reading.length === 0 ? [] : await nextSubscribers(tx, await pagesToRead(categories, reading));
  return broadcasts.map((broadcast) => {
    if (broadcast.subscribers === undefined) return broadcast;
    if (!broadcast.subscribers.onThisPage) return { ...broadcast, next: { after: undefined } };
    const { userIds = [], next } = pages[reading.indexOf(broadcast)] ?? {};
    return {
      ...broadcast,
      ...withNotifications(broadcast.id, userIds),
      next: next === undefined ? undefined : { after: next },
    };
  });
}

function pagesToRead(
  categories: CategoryCache,
  broadcasts: readonly AddressedPage[],
): Promise<Parameters<typeof nextSubscribers>[1]> {
  const pages = broadcasts.map(async ({ id, projectId, topic, category, subscribers }) => ({
    broadcastId: id,
    projectId,
    topic: topic ?? '',
    category,
    critical: (await categories.of(projectId)).configured.get(category ?? '')?.critical === true,
    after: subscribers?.after,
  }));
  return Promise.all(pages);
}

/** The jobs of the next pages. They are bulk: other broadcasts go before each of them. */
export function jobsOfNextPages(broadcasts: readonly AddressedPage[]): NewJob<'fan_out'>[] {
  return broadcasts.flatMap(({ id, projectId, page, textWeight, next }) =>
    next === undefined
      ? []
      : [
          {
            kind: 'fan_out',
            projectId,
            priority: BULK,
            weight: SUBSCRIBERS_PER_PAGE + textWeight,
            payload: {
              broadcast_id: id,
              page: page + 1,
              ...(next.after === undefined ? {} : { after: next.after }),
            },
          },
        ],
  );
}

/** Called before pages are written: deliveries of earlier pages may be counting down the same broadcasts. */
export async function lockForPages(tx: Queryable, broadcasts: readonly AddressedPage[]): Promise<void> {
  const later = broadcasts.filter(({ page }) => page > 0);
  // A single one is locked by its own update, which cannot deadlock.
  if (later.length > 1)
    await lockBroadcasts(
      tx,
      later.map(({ id }) => id),
    );
}

/** Called after pages are written: a broadcast whose last page this was awaits no further ones. */
export async function countDownPages(tx: Queryable, broadcasts: readonly AddressedPage[]): Promise<void> {
  const ended = broadcasts.filter(({ page, next }) => page > 0 && next === undefined);
  if (ended.length > 0) await countDown(tx, new Map(ended.map(({ id }) => [id, PAGES_WRITTEN])));
}
