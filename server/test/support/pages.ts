import { expect } from 'vitest';
import type { Caller } from './service.ts';

/** The path of a link to a page, as a `Caller` takes it. */
export function pathOfPage(link: string): string {
  return link.slice(link.indexOf('/v2') + '/v2'.length);
}

/** What each page lists, from this path on, through the links in one direction. */
export async function listPages<Item>(
  call: Caller,
  path: string,
  direction: 'next' | 'prev' = 'next',
): Promise<Item[][]> {
  const found: Item[][] = [];
  for (let at: string | null = path; at !== null; ) {
    const { status, body } = await call('GET', at);
    expect([status, body.errors], at).toEqual([200, undefined]);
    found.push(body.data);
    const link: string | null = body.links[direction];
    at = link && pathOfPage(link);
  }
  return found;
}

/** What all pages list, from this path on. */
export async function listAll<Item>(call: Caller, path: string): Promise<Item[]> {
  return (await listPages<Item>(call, path)).flat();
}
