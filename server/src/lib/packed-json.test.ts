import { expect, test } from 'vitest';
import { JsonBytes } from './json-text.ts';
import {
  packJson,
  packJsonInThread,
  unpackJson,
  unpackJsonInThread,
  unpackJsonInTurns,
  unpackShortJson,
} from './packed-json.ts';

test.each([
  ['small', { a: 1 }],
  ['large and repetitive', Array.from({ length: 1000 }, (_, index) => ({ external_id: `user-${index}` }))],
  [
    'NUL, half characters, emoji and right-to-left',
    { text: '\0 \ud800 \u{1f600} \u0645\u0631\u062d\u0628\u0627' },
  ],
])('JSON is unpacked unchanged: %s', async (_, value) => {
  const json = JSON.stringify(value);
  expect(unpackJson(packJson(json))).toBe(json);
  expect(unpackJson(await packJsonInThread(json))).toBe(json);
});

test.each([10, 10_000, 100_000])(
  'another thread packs %d characters as this one does',
  async (characters) => {
    const json = JSON.stringify('ü'.repeat(characters));
    expect(await packJsonInThread(json)).toEqual(packJson(json));
    expect(await packJsonInThread(new JsonBytes([Buffer.from(json)]))).toEqual(packJson(json));
  },
);

test('text in parts is packed and unpacked, whatever their bounds', async () => {
  const text = Buffer.from(JSON.stringify({ text: '\u{1f600}日'.repeat(100_000) }));
  const parts = [text.subarray(0, 11), text.subarray(11, 300_001), text.subarray(300_001)];
  const packed = await packJsonInThread(new JsonBytes(parts));
  expect(unpackJson(packed)).toBe(text.toString());
  for (const bound of [1, 2, packed.length - 1]) {
    const packedParts = [packed.subarray(0, bound), packed.subarray(bound)];
    expect((await unpackJsonInThread(packedParts)).toString()).toBe(text.toString());
    expect(await unpackJsonInTurns(packedParts)).toBe(text.toString());
  }
});

test('of long texts that are read together, few are in memory when the first one ends', async () => {
  const [count, bytes] = [40, 4 * 1024 * 1024];
  const packed = packJson(JSON.stringify('x'.repeat(bytes)));
  const before = process.memoryUsage().arrayBuffers;
  const reading = Array.from({ length: count }, () => unpackJsonInThread([packed]));
  await Promise.race(reading);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan((count * bytes) / 2);
  await Promise.all(reading);
});

test('large JSON is packed smaller', () => {
  const json = JSON.stringify(Array.from({ length: 1000 }, (_, index) => ({ external_id: `user-${index}` })));
  expect(packJson(json).length).toBeLessThan(json.length / 3);
});

test.each([10, 10_000_000])('text of %d bytes is not unpacked where fewer are accepted', (bytes) => {
  const json = 'x'.repeat(bytes);
  expect(unpackShortJson(packJson(json), bytes)).toBe(json);
  expect(unpackShortJson(packJson(json), bytes - 1)).toBeUndefined();
});
