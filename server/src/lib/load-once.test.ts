import { expect, test } from 'vitest';
import { loadOnce } from './load-once.ts';

test('what was loaded is kept, and a failure is not', async () => {
  let attempts = 0;
  const load = loadOnce(async () => {
    attempts += 1;
    if (attempts === 1) throw new Error('too many open files');
    return { attempts };
  });
  const first = [load(), load()];
  for (const { status } of await Promise.allSettled(first)) expect(status).toBe('rejected');
  const loaded = await load();
  expect(loaded).toEqual({ attempts: 2 });
  expect(await load()).toBe(loaded);
});
