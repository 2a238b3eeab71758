import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { MessageWatch } from './message-watch.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const message = (type: string, text: string) => {
  const body = Buffer.from(text);
  const head = Buffer.alloc(5);
  head.write(type, 'latin1');
  head.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
};
const replies = Buffer.concat([
  message('D', 'a row'),
  message('1', ''),
  message('C', 'SELECT 1'),
  message('Z', 'I'),
]);

test('messages are followed wherever the bytes are cut', () => {
  for (let size = 1; size <= replies.length; size += 1) {
    let stalls = 0;
    const watch = new MessageWatch(() => {
      stalls += 1;
    });
    for (let at = 0; at < replies.length; at += size) watch.take(replies.subarray(at, at + size));
    vi.advanceTimersByTime(60_000);
    expect({ size, stalls }).toEqual({ size, stalls: 0 });
  }
});

test('a message whose rest does not arrive is a stall; one that arrives slowly is not', () => {
  let stalls = 0;
  const watch = new MessageWatch(() => {
    stalls += 1;
  });
  for (let at = 0; at < 6; at += 1) {
    watch.take(replies.subarray(at, at + 1));
    vi.advanceTimersByTime(4_000);
  }
  expect(stalls).toBe(0);
  vi.advanceTimersByTime(60_000);
  expect(stalls).toBe(1);
});

test('an invalid header is rejected', () => {
  const watch = () => new MessageWatch(() => {});
  expect(() => watch().take(message('x', ''))).toThrow();
  expect(() => watch().take(Buffer.from([0x5a, 0, 0, 0, 3]))).toThrow();
  expect(() => watch().take(Buffer.from([0x44, 0x7f, 0, 0, 0]))).toThrow();
  const bytes = Buffer.concat([replies, Buffer.from('HTTP/1.1 400')]);
  expect(() => watch().take(bytes)).toThrow();
});
