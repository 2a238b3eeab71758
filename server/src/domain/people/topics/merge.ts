import { EVERY_CATEGORY, type SaveSubscription, type Subscription } from '../../../contract/topic.ts';

/** The categories of a subscription as they are stored, by slug. */
export type Categories = Record<string, Pick<Category, 'status' | 'reason'>>;

type Category = Subscription['categories'][number];

/**
 * Returns the stored categories with the given changes. To unsubscribe from `*` is to leave the topic and
 * removes all other categories. A reason stays until it is replaced or the status changes.
 */
export function mergeCategories(stored: Categories, given: SaveSubscription['categories'] = []): Categories {
  const changes = given.length === 0 ? [{ slug: EVERY_CATEGORY }] : given;
  const leavesTopic = changes.some((one) => one.slug === EVERY_CATEGORY && one.status === 'unsubscribed');
  // A map, because users may choose `__proto__` as a slug.
  const categories = new Map(Object.entries(leavesTopic ? onlyEveryCategory(stored) : stored));
  for (const { slug, status = 'subscribed', reason } of changes) {
    const before = categories.get(slug);
    const kept = before?.status === status ? before.reason : undefined;
    categories.set(slug, { status, ...reasonOf(reason ?? kept) });
  }
  return Object.fromEntries(categories);
}

/** Returns the API form of stored categories: `*` first, then by slug. */
export function sortedCategories(categories: Categories): Category[] {
  return Object.entries(categories)
    .map(([slug, { status, reason }]) => ({ slug, ...reasonOf(reason), status }))
    .sort((a, b) => rank(a) - rank(b) || (a.slug < b.slug ? -1 : 1));
}

function onlyEveryCategory({ [EVERY_CATEGORY]: every }: Categories): Categories {
  return every === undefined ? {} : { [EVERY_CATEGORY]: every };
}

function reasonOf(reason: string | undefined): { reason?: string } {
  return reason === undefined ? {} : { reason };
}

function rank({ slug }: Category): number {
  return slug === EVERY_CATEGORY ? 0 : 1;
}
