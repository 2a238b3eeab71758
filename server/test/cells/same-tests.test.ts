import { afterAll, describe } from 'vitest';

// Tests of the API, once more with three cells in the database, none of whose projects lives in the default
// one. TEST_CELLS=3 does the same with any test whose projects need not share a cell.

const BEFORE = process.env.TEST_CELLS;
process.env.TEST_CELLS = '3';
afterAll(() => {
  if (BEFORE === undefined) delete process.env.TEST_CELLS;
  else process.env.TEST_CELLS = BEFORE;
});

const FILES = [
  'api/magicbell-js',
  'api/isolation',
  'v1/magicbell',
  'receipts/inbound',
  'receipts/unsubscribe',
];

for (const file of FILES)
  describe(file, async () => {
    // The query makes it another module than that of the file itself.
    await import(/* @vite-ignore */ `../${file}.test.ts?cells`);
  });
