import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase } from '../../test/support/database.ts';
import { byteaArray, textArray, uuidArray } from './arrays.ts';
import { GuardedClient } from './guarded-client.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let client: GuardedClient;

beforeAll(async () => {
  database = await createTestDatabase();
  client = new GuardedClient({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

const read = async (type: string, text: string) => {
  const { rows } = await client.query<{ elements: unknown }>(`select $1::text::${type}[] as elements`, [
    text,
  ]);
  return rows[0]?.elements;
};

test('every text survives an array', async () => {
  const texts = [
    '',
    ' ',
    'null',
    'NULL',
    null,
    '"',
    '\\',
    '\\"',
    '{}',
    ',',
    "'",
    'a,b',
    'x\ny\t',
    '🦉',
    'שלום',
    '\\n',
  ];
  expect(await read('text', textArray(texts))).toEqual(texts);
});

test('undefined becomes null, and an empty list stays empty', async () => {
  expect(await read('text', textArray([undefined, 'a']))).toEqual([null, 'a']);
  expect(await read('text', textArray([]))).toEqual([]);
  expect(await read('uuid', uuidArray([]))).toEqual([]);
});

test('an array within an array survives', async () => {
  const inner = textArray(['+1 500', 'a"b\\']);
  expect(await read('text', textArray([inner]))).toEqual([inner]);
});

test('ids keep their order in an array', async () => {
  const ids = ['01900000-0000-7000-8000-000000000002', '01900000-0000-7000-8000-000000000001'];
  expect(await read('uuid', uuidArray(ids))).toEqual(ids);
});

test('bytes, nulls and an empty list survive an array', async () => {
  const lists = [[Buffer.from([0, 1, 255]), null, Buffer.alloc(0), Buffer.from('"{},\\')], []];
  for (const list of lists) {
    const { rows } = await client.query('select $1::bytea[] as elements', [byteaArray(list)]);
    expect(rows[0]?.elements).toEqual(list);
  }
});

test('a long bytea[] arrives as it is, between values of all kinds', async () => {
  const list = [randomBytes(3_000_000), null, Buffer.alloc(0), randomBytes(700_000)];
  const values = [7, byteaArray(list), null, 'ü', byteaArray([Buffer.from('short')]), [1, 2], new Date(0)];
  const text =
    // As JSON, because the driver needs seconds to parse a long array.
    'select $1::int as n, to_json($2::bytea[]) as long, $3::int as nothing, $4::text as text, ' +
    '$5::bytea[] as short, $6::int[] as list, $7::timestamptz as time';
  const long = list.map((bytes) => bytes && `\\x${bytes.toString('hex')}`);
  for (const name of ['', 'long', 'long']) {
    const { rows } = await client.query({ name, text, values });
    expect(rows).toEqual([
      {
        ...{ n: 7, long, nothing: null, text: 'ü' },
        ...{ short: [Buffer.from('short')], list: [1, 2], time: new Date(0) },
      },
    ]);
  }
});
