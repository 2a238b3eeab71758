import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CategoryPageQuery } from '../contract/category.ts';
import { PageQuery } from '../contract/common.ts';
import { DeliveryListQuery } from '../contract/delivery.ts';
import { problemsOf } from '../contract/problems.ts';
import { PublicTokenPageQuery } from '../contract/token.ts';
import { TopicPageQuery } from '../contract/topic.ts';
import { validatorFor } from '../contract/validation.ts';
import { beyond, OLDEST } from '../lib/cursor.ts';
import { paginate, readCursor } from './pagination.ts';

const idOf = (index: number) => `00000000-0000-7000-8000-${index.toString(16).padStart(12, '0')}`;
const numberOf = (id: string) => Number.parseInt(id.slice(24), 16);

/** A page of the list of these numbers, as numbers, with its links as queries. */
async function pageOf(numbers: number[], query: PageQuery, url = '/v2/things') {
  const newestFirst = numbers.toSorted((a, b) => b - a).map((number) => ({ id: idOf(number) }));
  const { data, links } = await paginate({
    base: 'https://belfry.example',
    request: { url },
    query,
    list: async (cursor) => beyond(newestFirst, cursor),
    item: ({ id }) => numberOf(id),
  });
  return { data, ...links };
}

const queryOf = (link: string): PageQuery => {
  const query = new URL(link).searchParams;
  return { limit: 3, starting_after: query.get('starting_after'), ending_before: query.get('ending_before') };
};
const is = (name: string, number: number) => `https://belfry.example/v2/things?${name}=${idOf(number)}`;

/** A page of those of 100 numbers that are wanted, found by a search that looks at ten of them. */
async function searched(wanted: (number: number) => boolean, query: PageQuery) {
  const all = Array.from({ length: 100 }, (_none, index) => ({ id: idOf(100 - index) }));
  const { data, links } = await paginate({
    base: 'https://belfry.example',
    request: { url: '/v2/things' },
    query,
    list: async (cursor) => {
      const near = beyond(all, { ...cursor, limit: 10 });
      const rows = near.filter(({ id }) => wanted(numberOf(id))).slice(0, cursor.limit);
      const last = near.at(-1);
      if (rows.length === cursor.limit || near.length < 10 || last === undefined) return { rows };
      return { rows, stoppedAt: last.id };
    },
    item: ({ id }) => numberOf(id),
  });
  return { data, ...links };
}

describe('a search that stops on the way', () => {
  test('is gone on with by the links, in both directions, also over pages without a record', () => {
    fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: 100 })), async (numbers) => {
        const wanted = new Set(numbers);
        const expected = numbers.toSorted((a, b) => b - a);
        for (const direction of ['next', 'prev'] as const) {
          let query: PageQuery = direction === 'next' ? { limit: 3 } : { limit: 3, ending_before: OLDEST };
          const found: number[][] = [];
          for (let more = true; more; ) {
            const page = await searched((number) => wanted.has(number), query);
            found.push(page.data);
            const link = page[direction];
            more = link !== null;
            if (link !== null) query = queryOf(link);
          }
          expect((direction === 'next' ? found : found.reverse()).flat()).toEqual(expected);
        }
      }),
    );
  });

  test('leads back from an empty page to all that was before it', async () => {
    const wanted = (number: number) => number > 95;
    const empty = await searched(wanted, { limit: 5, starting_after: idOf(96) });
    expect([empty.data, empty.next, empty.prev]).toEqual([
      [],
      is('starting_after', 86),
      is('ending_before', 86),
    ]);
    const [before, first] = [
      await searched(wanted, queryOf(empty.prev ?? '')),
      await searched(wanted, { limit: 5 }),
    ];
    expect([before.data, first.data]).toEqual([[96], [100, 99, 98, 97, 96]]);
  });
});

describe('a page', () => {
  test('is the newest first, and the only one has no neighbours', async () => {
    const first = 'https://belfry.example/v2/things';
    expect(await pageOf([1, 2, 3], { limit: 3 })).toEqual({ data: [3, 2, 1], first, next: null, prev: null });
    expect(await pageOf([], { limit: 3 })).toEqual({ data: [], first, next: null, prev: null });
  });

  test('after an id has older records, before an id the newer ones next to it, newest first', async () => {
    const all = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    expect(await pageOf(all, { limit: 3, starting_after: idOf(7) })).toMatchObject({
      data: [6, 5, 4],
      next: is('starting_after', 4),
      prev: is('ending_before', 6),
    });
    expect(await pageOf(all, { limit: 3, ending_before: idOf(3) })).toMatchObject({
      data: [6, 5, 4],
      next: is('starting_after', 4),
      prev: is('ending_before', 6),
    });
    expect(await pageOf(all, { limit: 3, ending_before: idOf(8) })).toMatchObject({
      data: [9],
      next: is('starting_after', 9),
      prev: null,
    });
    expect(await pageOf(all, { limit: 3, starting_after: idOf(2) })).toMatchObject({
      data: [1],
      next: null,
      prev: is('ending_before', 1),
    });
  });

  test('whose cursor was deleted, and all beside it, has no neighbour there', async () => {
    expect(await pageOf([1, 2], { limit: 3, starting_after: idOf(5) })).toMatchObject({
      data: [2, 1],
      next: null,
      prev: null,
    });
    expect(await pageOf([8, 9], { limit: 3, ending_before: idOf(5) })).toMatchObject({
      data: [9, 8],
      next: null,
      prev: null,
    });
  });

  test('beyond an end is empty, and leads back', async () => {
    const after = await pageOf([5, 6, 7, 8], { limit: 3, starting_after: idOf(1) });
    expect([after.data, after.next]).toEqual([[], null]);
    expect((await pageOf([5, 6, 7, 8], queryOf(after.prev ?? ''))).data).toEqual([7, 6, 5]);
    const before = await pageOf([5, 6, 7, 8], { limit: 3, ending_before: idOf(9) });
    expect([before.data, before.prev]).toEqual([[], null]);
    expect((await pageOf([5, 6, 7, 8], queryOf(before.next ?? ''))).data).toEqual([8, 7, 6]);
  });

  test('keeps the query of its list in every link', async () => {
    const url = `/v2/things?limit=1&status=read&categories=a%20b&categories=c&starting_after=${idOf(3)}`;
    const { first, next, prev } = await pageOf([1, 2, 3], { limit: 1, starting_after: idOf(3) }, url);
    expect(first).toBe('https://belfry.example/v2/things?limit=1&status=read&categories=a+b&categories=c');
    expect(next).toBe(`${first}&starting_after=${idOf(2)}`);
    expect(prev).toBe(`${first}&ending_before=${idOf(2)}`);
  });

  test('of any list, followed forwards and back, shows every record once', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat({ max: 60 }), { maxLength: 20 }), async (numbers) => {
        const newestFirst = numbers.toSorted((a, b) => b - a);
        const forwards: number[] = [];
        let page = await pageOf(numbers, { limit: 3 });
        expect(page.prev).toBe(null);
        for (;;) {
          forwards.push(...page.data);
          if (page.next === null) break;
          page = await pageOf(numbers, queryOf(page.next));
        }
        expect(forwards).toEqual(newestFirst);
        const backwards: number[] = [];
        for (;;) {
          backwards.unshift(...page.data);
          if (page.prev === null) break;
          page = await pageOf(numbers, queryOf(page.prev));
        }
        expect(backwards).toEqual(newestFirst);
      }),
    );
  });

  test('followed while records come and go repeats and skips none of those that stay', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.nat({ max: 99 }), { minLength: 5, maxLength: 30 }),
        fc.infiniteStream(fc.nat({ max: 2 })),
        async (numbers, chance) => {
          const staying = numbers.filter((number) => number % 2 === 0);
          let list = [...numbers];
          let next = 100;
          const seen: number[] = [];
          let page = await pageOf(list, { limit: 3 });
          for (;;) {
            seen.push(...page.data);
            if (chance.next().value === 0) list.push(next++);
            if (chance.next().value === 0)
              list = list.filter((number) => number % 2 === 0 || chance.next().value !== 0);
            if (page.next === null) break;
            page = await pageOf(list, queryOf(page.next));
          }
          expect(new Set(seen).size).toBe(seen.length);
          expect(staying.filter((number) => !seen.includes(number))).toEqual([]);
        },
      ),
    );
  });
});

test('a page at an end of a list asks once: nothing is beyond', async () => {
  const asked: string[] = [];
  const at = (query: PageQuery) =>
    paginate({
      base: '',
      request: { url: '/' },
      query: { limit: 2, ...query },
      list: async (cursor) => {
        asked.push(cursor.direction);
        return beyond(
          [4, 3, 2, 1].map((number) => ({ id: idOf(number) })),
          cursor,
        );
      },
      item: ({ id }) => numberOf(id),
    });
  expect(await at({})).toMatchObject({ data: [4, 3], links: { prev: null } });
  expect(asked.splice(0)).toEqual(['older']);
  expect(await at({ ending_before: OLDEST })).toMatchObject({ data: [2, 1], links: { next: null } });
  expect(asked.splice(0)).toEqual(['newer']);
  await at({ starting_after: idOf(3) });
  expect(asked).toEqual(['older', 'newer']);
});

describe('a cursor', () => {
  test.each([
    ['ids', PageQuery],
    ['keys of categories', CategoryPageQuery],
    ['ids of deliveries', DeliveryListQuery],
    ['ids of providers', PublicTokenPageQuery],
    ['names of topics', TopicPageQuery],
  ])('of a list by %s is none if it is null', (_, schema) => {
    const query = { starting_after: 'null', ending_before: 'null' };
    expect(validatorFor('querystring', schema)(query)).toBe(true);
    expect(query).toMatchObject({ starting_after: null, ending_before: null });
  });

  test('that is no id is refused by name, beside all else that is wrong', () => {
    const validate = validatorFor('querystring', PageQuery);
    const problems = (query: object) => (validate({ ...query }) ? [] : problemsOf(validate.errors));
    expect(problems({ limit: '0', starting_after: 'x', ending_before: "1' or 1=1" })).toEqual([
      "Param 'limit' must be 1 or more",
      "Param 'starting_after' is not the id of a record",
      "Param 'ending_before' is not the id of a record",
    ]);
    expect(problems({ limit: '100', starting_after: idOf(1), ending_before: '' })).toEqual([]);
  });

  test('is one at a time', () => {
    expect(() => readCursor({ starting_after: idOf(1), ending_before: idOf(2) })).toThrow(
      "Param 'ending_before' cannot be combined with 'starting_after'",
    );
    expect(readCursor({ starting_after: '', ending_before: null })).toMatchObject({ direction: 'older' });
  });
});
