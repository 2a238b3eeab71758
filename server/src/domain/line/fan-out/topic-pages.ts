import type { Queryable } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { BULK, type NewJob } from '../../../queue/jobs.ts';
import { nextSubscribers, SUBSCRIBERS_PER_PAGE } from '../../people/topics/subscribers.ts';
import type { CategoryCache } from '../../setup/categories/of-project.ts';
import type { LineContext } from '../context/context.ts';
import { countDown, lockBroadcasts, PAGES_WRITTEN } from '../ledger/finish.ts';
import type { Broadcast } from './load.ts';

/*
 * A topic may have a million subscribers. They are gone through in the order of their ids, a page at a time, each page by a job that was
 * written together with the page before it: whoever is killed, the next page begins where the last one that was written ended. All the
 * pages that follow the first count as one among what the broadcast awaits, until the last of them is written.
 */

/**
 * Gives the broadcasts that go to subscribers those of this page, by one statement for all, and says where
 * the next page begins.
 */
export async function addSubscribers(
  { categories }: Pick<LineContext, 'categories'>,
  tx: Queryable,
  broadcasts: readonly Broadcast[],
): Promise<void> {
  const reading: Broadcast[] = [];
  for (const broadcast of broadcasts) {
    if (broadcast.subscribers?.onThisPage) reading.push(broadcast);
    else if (broadcast.subscribers) broadcast.next = { after: undefined };
  }
  if (reading.length > 0) await readSubscribers(categories, tx, reading);
  for (const broadcast of broadcasts) if (broadcast.page === 0 && broadcast.next) broadcast.awaited += 1;
}

async function readSubscribers(
  categories: CategoryCache,
  tx: Queryable,
  broadcasts: readonly Broadcast[],
): Promise<void> {
  const wanted = broadcasts.map(async ({ id, projectId, topic, category, subscribers }) => ({
    broadcastId: id,
    projectId,
    topic: topic ?? '',
    category,
    critical: (await categories.of(projectId)).configured.get(category ?? '')?.critical === true,
    after: subscribers?.after,
  }));
  const pages = await nextSubscribers(tx, await Promise.all(wanted));
  for (const [index, broadcast] of broadcasts.entries()) {
    const { userIds = [], next } = pages[index] ?? {};
    // Sorted, so that the rows go into the primary key from left to right.
    broadcast.userIds = [...userIds].sort();
    broadcast.notificationIds = broadcast.userIds.map((userId) => notificationId(broadcast.id, userId));
    if (next !== undefined) broadcast.next = { after: next };
  }
}

/** The jobs of the pages that follow. They are bulk: the messages of others go before each of them. */
export function jobsOfNextPages(broadcasts: readonly Broadcast[]): NewJob<'fan_out'>[] {
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

/**
 * To be called before pages are written: deliveries of earlier ones may be counting down the same broadcasts.
 */
export async function lockForPages(tx: Queryable, broadcasts: readonly Broadcast[]): Promise<void> {
  const later = broadcasts.filter(({ page }) => page > 0);
  // One is locked by its own update, and nobody can wait for us in a circle.
  if (later.length > 1)
    await lockBroadcasts(
      tx,
      later.map(({ id }) => id),
    );
}

/** To be called when they are written: broadcasts for which this was the last page await no more of them. */
export async function countDownPages(tx: Queryable, broadcasts: readonly Broadcast[]): Promise<void> {
  const ended = broadcasts.filter(({ page, next }) => page > 0 && next === undefined);
  if (ended.length > 0) await countDown(tx, new Map(ended.map(({ id }) => [id, PAGES_WRITTEN])));
}
