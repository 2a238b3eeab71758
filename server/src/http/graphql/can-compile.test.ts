import { getOperationAST, parse } from 'graphql';
import { expect, test } from 'vitest';
import { canCompile } from './can-compile.ts';

const compiles = (query: string) => {
  const document = parse(query);
  const operation = getOperationAST(document);
  return operation != null && canCompile(document, operation);
};

test('pages with variables, fragments and conditions on single fields are compiled', () => {
  expect(compiles('{ notifications(first: 1) { totalCount } }')).toBe(true);
  expect(
    compiles(`query ($n: Int = 3, $all: Boolean!) {
      notifications(first: $n, categories: ["a"]) { ...A totalCount @include(if: $all) }
    }
    fragment A on NotificationConnection { ... on NotificationConnection { nodes { id @skip(if: $all) } } }`),
  ).toBe(true);
  expect(compiles('mutation ($i: UserInput!) { saveUser(input: $i) { id } }')).toBe(true);
  expect(compiles('mutation { saveUser(input: { externalId: "a" }) { id } }')).toBe(true);
});

test.each([
  'mutation ($x: String) { saveUser(input: { externalId: $x }) { id } }',
  'mutation ($x: JSON) { saveUser(input: { customAttributes: { a: [$x] } }) { id } }',
  'query ($s: Boolean!) { users { ... @skip(if: $s) { totalCount } } }',
  'query ($s: Boolean!) { users { ...A @skip(if: $s) } } fragment A on UserConnection { totalCount }',
  'query ($s: Boolean!) { users @include(if: $s) { totalCount } }',
  'query ($s: Boolean = true) { users { totalCount @include(if: $s) } }',
])('%s is not compiled', (query) => {
  expect(compiles(query)).toBe(false);
});
