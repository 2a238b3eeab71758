import { expect, test } from 'vitest';
import { BodyThread } from './body-thread.ts';

const RULES = { limits: { keysAndValues: 10, inMember: 0, levels: 10 }, hashed: false };

test('a body that comes while the idle thread ends is parsed by the next one', async () => {
  const thread = new BodyThread();
  try {
    expect((await thread.parse(Buffer.from('{"a":1}'), RULES)).value).toEqual({ a: 1 });
    const ending = thread.close();
    expect((await thread.parse(Buffer.from('{"a":2}'), RULES)).value).toEqual({ a: 2 });
    await ending;
    expect((await thread.parse(Buffer.from('{"a":3}'), RULES)).value).toEqual({ a: 3 });
  } finally {
    await thread.close();
  }
});
