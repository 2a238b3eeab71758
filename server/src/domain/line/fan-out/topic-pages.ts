import type { Queryable } from '../../../db/client.ts';
import { BULK, type NewJob } from '../../../queue/jobs.ts';
import { nextSubscribers } from '../../people/topics/subscribers.ts';
import { nextUsers, USERS_PER_PAGE, type UserPage } from '../../people/users/next-users.ts';
import type { CategoryCache } from '../../setup/categories/cache.ts';
import type { LineContext } from '../context/context.ts';
import { countDown, lockBroadcasts, PAGES_WRITTEN } from '../ledger/finish.ts';
import { type AddressedPage, withNotifications } from './write-fan-out.ts';

/*
 * A topic may have a million subscribers, and a project more users. They are read in the order of their ids,
 * a page at a time. The job of each page is written together with the page before it, so after a crash the
 * next page begins where the last written one ended. All further pages count as one thing that the broadcast
 * awaits.
 */

/**
 * Adds the users of this page to the broadcasts that go to groups, by one statement for all topics and one
 * for all projects, and where the next page begins.
 */
export async function addGroups(
  { categories }: Pick<LineContext, 'categories'>,
  tx: Queryable,
  broadcasts: readonly AddressedPage[],
): Promise<readonly AddressedPage[]> {
  const pages = new Map<AddressedPage, UserPage>();
  const toTopics = broadcasts.filter(({ group }) => group?.onThisPage && group.of === 'subscribers');
  const toAll = broadcasts.filter(({ group }) => group?.onThisPage && group.of === 'everyone');
  const add = (some: readonly AddressedPage[], read: readonly UserPage[]) => {
    for (const [index, broadcast] of some.entries()) pages.set(broadcast, read[index] as UserPage);
  };
  // One after the other: it is one connection.
  if (toTopics.length > 0) add(toTopics, await nextSubscribers(tx, await topicPages(categories, toTopics)));
  if (toAll.length > 0) add(toAll, await nextUsers(tx, toAll.map(pageToRead)));
  return broadcasts.map((broadcast) => {
    if (broadcast.group === undefined) return broadcast;
    if (!broadcast.group.onThisPage) return { ...broadcast, next: { after: undefined } };
    const { userIds = [], next } = pages.get(broadcast) ?? {};
    return {
      ...broadcast,
      ...withNotifications(broadcast.id, userIds),
      next: next === undefined ? undefined : { after: next },
    };
  });
}

function pageToRead({ id, projectId, group }: AddressedPage) {
  return { broadcastId: id, projectId, after: group?.after };
}

function topicPages(
  categories: CategoryCache,
  broadcasts: readonly AddressedPage[],
): Promise<Parameters<typeof nextSubscribers>[1]> {
  const pages = broadcasts.map(async (broadcast) => {
    const { projectId, topic, category } = broadcast;
    const { configured } = await categories.of(projectId);
    const critical = configured.get(category ?? '')?.critical === true;
    return { ...pageToRead(broadcast), topic: topic ?? '', category, critical };
  });
  return Promise.all(pages);
}

/** The jobs of the next pages. They are bulk: other broadcasts go before each of them. */
export function jobsOfNextPages(broadcasts: readonly AddressedPage[]): NewJob<'fan_out'>[] {
  return broadcasts.flatMap(({ id, projectId, page, textWeight, traceparent, next, group }) =>
    next === undefined
      ? []
      : [
          {
            kind: 'fan_out',
            projectId,
            priority: BULK,
            weight: USERS_PER_PAGE + textWeight,
            payload: {
              broadcast_id: id,
              page: page + 1,
              after: next.after,
              ...(group?.of === 'everyone' ? { everyone: true } : {}),
              traceparent,
            },
          },
        ],
  );
}

/**
 * Called before pages are written: deliveries of earlier pages may be counting down the same broadcasts, and
 * users may be erased from those that were scheduled.
 */
export async function lockKnown(tx: Queryable, broadcasts: readonly AddressedPage[]): Promise<void> {
  const known = broadcasts.filter(({ page, scheduled }) => page > 0 || scheduled);
  // A single one is locked by its own update, which cannot deadlock.
  if (known.length > 1)
    await lockBroadcasts(
      tx,
      known.map(({ id }) => id),
    );
}

/** Called after pages are written: a broadcast whose last page this was awaits no further ones. */
export async function countDownPages(tx: Queryable, broadcasts: readonly AddressedPage[]): Promise<void> {
  const ended = broadcasts.filter(({ page, next }) => page > 0 && next === undefined);
  if (ended.length > 0) await countDown(tx, new Map(ended.map(({ id }) => [id, PAGES_WRITTEN])));
}
