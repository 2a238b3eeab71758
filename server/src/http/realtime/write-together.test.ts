import { Writable } from 'node:stream';
import { expect, it } from 'vitest';
import { writeTogether } from './write-together.ts';

/** What a stream was given, each time that it wrote. */
function recorded(): { stream: Writable; writes: string[] } {
  const writes: string[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      writes.push(chunk.toString());
      done();
    },
    writev(chunks, done) {
      writes.push(chunks.map(({ chunk }) => chunk.toString()).join(''));
      done();
    },
  });
  return { stream, writes };
}

const turnEnds = () => new Promise<void>((resolve) => setImmediate(resolve));

it('writes what one turn of the event loop has for a stream at once, in its order', async () => {
  const [one, another] = [recorded(), recorded()];
  for (const text of ['a', 'b', 'c']) {
    writeTogether(one.stream, text);
    writeTogether(another.stream, text.toUpperCase());
  }
  await turnEnds();
  writeTogether(one.stream, 'd');
  await turnEnds();
  expect(one.writes).toEqual(['abc', 'd']);
  expect(another.writes).toEqual(['ABC']);
});

it('serves others between the writes to many streams', async () => {
  const all = Array.from({ length: 250 }, recorded);
  for (const { stream } of all) writeTogether(stream, 'a');
  const written = () => all.filter(({ writes }) => writes.length > 0).length;
  expect(written()).toBe(0);
  await new Promise<void>((resolve) => process.nextTick(resolve));
  expect(written()).toBe(100);
  writeTogether((all[249] as (typeof all)[0]).stream, 'b');
  while (written() < all.length) await turnEnds();
  expect(all.map(({ writes }) => writes)).toEqual([...Array(249).fill(['a']), ['ab']]);
});

it('lets nothing large wait, so that a fast reader never seems slow', async () => {
  const { stream, writes } = recorded();
  const large = 'x'.repeat(100_000);
  writeTogether(stream, 'a');
  writeTogether(stream, large);
  expect(writes).toEqual([`a${large}`]);
  writeTogether(stream, 'b');
  writeTogether(stream, 'c');
  await turnEnds();
  expect(writes).toEqual([`a${large}`, 'bc']);
});

it('loses nothing of a stream that ends in the same turn', async () => {
  const { stream, writes } = recorded();
  writeTogether(stream, 'a');
  writeTogether(stream, 'b');
  stream.end('c');
  await turnEnds();
  expect(writes.join('')).toBe('abc');
});
