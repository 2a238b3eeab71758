import { afterAll, beforeAll, expect, test } from 'vitest';
import { processed, startTestService, type TestService } from '../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  const { call } = service.project;
  const { body } = await call('POST', '/broadcasts', {
    title: 'Hello',
    recipients: [{ external_id: 'ada' }],
  });
  await processed(call, body.id);
});
afterAll(() => service.stop());

const run = async (query: string, variables: object) => {
  const headers = { 'x-service-user-external-id': 'ada' };
  const { jwt: token } = service.project;
  const { body } = await service.request('POST', '/graphql', { token, headers, body: { query, variables } });
  return body;
};

const SAVE = 'saveUser(input: { externalId: "bob", ';
const SAVED = '}) { firstName lastName customAttributes }';
const SAVE_ANY =
  'mutation ($i: UserInput!) { saveUser(input: $i) { externalId firstName customAttributes } }';
const PAGE = 'notifications(first: 1)';

// Queries that repeat are compiled. Each is run with variables with which the compiled one differed.
test.each<[string, string, object, object[]]>([
  [
    'a required variable with a default',
    `query ($n: Int! = 3) { notifications(first: $n) { totalCount } }`,
    {},
    [{}, { n: null }],
  ],
  [
    'a required enum with a default',
    `query ($s: NotificationsStatus! = READ) { notifications(status: $s) { totalCount } }`,
    {},
    [{}, { s: 'UNREAD' }, { s: 'x' }],
  ],
  [
    'a required input object with a default',
    `mutation ($i: UserInput! = { externalId: "bob", firstName: "B" }) { saveUser(input: $i) { firstName } }`,
    {},
    [{}],
  ],
  [
    'a variable within JSON',
    `mutation ($x: JSON) { ${SAVE} customAttributes: { a: $x, b: [$x], c: { d: $x } } ${SAVED} }`,
    { x: 1 },
    [{ x: { y: [1] } }, { x: null }, {}],
  ],
  [
    'a member that is left out of an input object',
    `mutation ($x: String) { ${SAVE} firstName: $x, lastName: "B" ${SAVED} }`,
    { x: 'Bob' },
    [{}],
  ],
  [
    'attributes that are left out of an input object',
    `mutation ($x: JSON) { ${SAVE} customAttributes: $x ${SAVED} }`,
    { x: { vip: true } },
    [{}],
  ],
  ['an array for an input object', SAVE_ANY, { i: { externalId: 'bob' } }, [{ i: [] }]],
  [
    'a member of the wrong type',
    SAVE_ANY,
    { i: { externalId: 'bob' } },
    [{ i: { externalId: 5 } }, { i: { externalId: 'bob', x: 1 } }, {}],
  ],
  [
    'a fragment under two conditions',
    `query ($s: Boolean!, $t: Boolean!) { ${PAGE} { ...A @include(if: $s) ...A @include(if: $t) } }
      fragment A on NotificationConnection { totalCount }`,
    { s: true, t: true },
    [
      { s: false, t: true },
      { s: true, t: false },
    ],
  ],
  [
    'a condition within a condition',
    `query ($s: Boolean!) { ${PAGE} { nodes { id } ...A @include(if: $s) } }
      fragment A on NotificationConnection { nodes { title ...B @skip(if: $s) } }
      fragment B on Notification { status }`,
    { s: true },
    [{ s: false }],
  ],
  [
    'a condition of null',
    `query ($s: Boolean = true) { ${PAGE} { totalCount @skip(if: $s) nodes { id } } }`,
    { s: true },
    [{ s: null }, {}],
  ],
])('a query that repeats responds as at first: %s', async (_name, query, repeated, compared) => {
  for (let i = 0; i < 4; i += 1) await run(query, repeated);
  for (const [i, variables] of compared.entries()) {
    const first = await run(`${query} # ${i}`, variables);
    expect(await run(query, variables)).toEqual(first);
  }
});
