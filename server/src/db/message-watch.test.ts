import { expect, test } from 'vitest';
import { MessageWatch } from './message-watch.ts';

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
  message('E', 'SERROR\0C22012\0\0'),
  message('N', 'SNOTICE\0\0'),
  message('Z', 'I'),
]);

test('messages are followed wherever the bytes are cut', () => {
  for (let size = 1; size <= replies.length; size += 1) {
    const watch = new MessageWatch();
    for (let at = 0; at < replies.length; at += size) watch.take(replies.subarray(at, at + size));
    // The next header is expected exactly here.
    expect(() => watch.take(Buffer.from('x'.repeat(5)))).toThrow('not the header of a message');
  }
});

test('an invalid header is rejected', () => {
  const watch = () => new MessageWatch();
  expect(() => watch().take(message('x', ''))).toThrow();
  expect(() => watch().take(Buffer.from([0x5a, 0, 0, 0, 3]))).toThrow();
  expect(() => watch().take(Buffer.from([0x44, 0x7f, 0, 0, 0]))).toThrow();
  const bytes = Buffer.concat([replies, Buffer.from('HTTP/1.1 400')]);
  expect(() => watch().take(bytes)).toThrow();
});

test.each(['E', 'N'])('a message %s without its end is rejected, wherever the bytes are cut', (type) => {
  for (const end of ['', '\0', '\0x', 'x\0']) {
    const bytes = message(type, `SERROR\0C22012${end}`);
    for (let size = 1; size <= bytes.length; size += 1) {
      const watch = new MessageWatch();
      const take = () => {
        for (let at = 0; at < bytes.length; at += size) watch.take(bytes.subarray(at, at + size));
      };
      expect(take).toThrow('not the end of an error');
    }
  }
  expect(() => new MessageWatch().take(message(type, ''))).toThrow('not the end of an error');
});
