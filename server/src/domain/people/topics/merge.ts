import { EVERY_CATEGORY, type SaveSubscription, type Subscription } from '../../../contract/topic.ts';

/** What a user has said about the categories of a topic, as it is stored. */
export type Categories = Record<string, Pick<Category, 'status' | 'reason'>>;

type Category = Subscription['categories'][number];

/**
 * What is stored after a user has said this. Each category is for itself; to leave `*` is to leave the topic,
 * which takes back what was said about single categories before. A reason stays until another is given, or
 * the status is another. Pure.
 */
export function merged(stored: Categories, given: SaveSubscription['categories'] = []): Categories {
  const said = given.length === 0 ? [{ slug: EVERY_CATEGORY }] : given;
  const leaves = said.some((one) => one.slug === EVERY_CATEGORY && one.status === 'unsubscribed');
  // Names are of the user's choosing, `__proto__` too: so a map on the way, which has no names of its own.
  const categories = new Map(Object.entries(leaves ? only(stored, EVERY_CATEGORY) : stored));
  for (const { slug, status = 'subscribed', reason } of said) {
    const before = categories.get(slug);
    const kept = before?.status === status ? before.reason : undefined;
    categories.set(slug, { status, ...reasonOf(reason ?? kept) });
  }
  return Object.fromEntries(categories);
}

/** The categories as clients see them. */
export function listed(categories: Categories): Category[] {
  return Object.entries(categories)
    .map(([slug, { status, reason }]) => ({ slug, ...reasonOf(reason), status }))
    .sort((a, b) => place(a) - place(b) || (a.slug < b.slug ? -1 : 1));
}

function only(categories: Categories, slug: string): Categories {
  const one = categories[slug];
  return one === undefined ? {} : { [slug]: one };
}

function reasonOf(reason: string | undefined): { reason?: string } {
  return reason === undefined ? {} : { reason };
}

function place({ slug }: Category): number {
  return slug === EVERY_CATEGORY ? 0 : 1;
}
