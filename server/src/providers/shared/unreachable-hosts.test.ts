import { expect, test } from 'vitest';
import { collectGarbage } from '../../../test/support/garbage.ts';
import { UnreachableHosts } from './unreachable-hosts.ts';

const HOST = 'https://push.example';
const fails = (code: string) => async () => {
  throw new Error(code);
};

test('a success ends the block of a host, even if older attempts fail afterwards', async () => {
  const hosts = new UnreachableHosts();
  const slow = Promise.withResolvers<string>();
  const old = hosts.connect(HOST, () => slow.promise); // begins before the outage is known
  const current = Promise.withResolvers<string>();
  const running = hosts.connect(HOST, () => current.promise);
  await expect(hosts.connect(HOST, fails('first'))).rejects.toThrow('first');
  await expect(hosts.connect(HOST, async () => 'not tried')).rejects.toThrow('first');
  current.resolve('connected');
  expect(await running).toBe('connected');
  expect(await hosts.connect(HOST, async () => 'tried')).toBe('tried');
  slow.reject(new Error('timed out'));
  await expect(old).rejects.toThrow('timed out');
  expect(await hosts.connect(HOST, async () => 'tried')).toBe('tried');
});

test('hosts are independent', async () => {
  const hosts = new UnreachableHosts();
  await expect(hosts.connect(HOST, fails('down'))).rejects.toThrow('down');
  expect(await hosts.connect('https://other.example', async () => 'connected')).toBe('connected');
});

test('the errors of many hosts are not kept in memory', async () => {
  const hosts = new UnreachableHosts();
  const errors: WeakRef<Error>[] = [];
  const fail = async (place: number) => {
    try {
      await hosts.connect(`https://${place}.example`, fails('down'));
    } catch (error) {
      errors.push(new WeakRef(error as Error));
    }
  };
  const kept = () => {
    collectGarbage();
    return errors.filter((error) => error.deref() !== undefined).length;
  };
  for (let place = 0; place < 3_000; place += 1) await fail(place);
  await expect.poll(kept, { timeout: 10_000 }).toBeLessThanOrEqual(1_000);
  await expect.poll(kept, { timeout: 10_000 }).toBe(0);
});
