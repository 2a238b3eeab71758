import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { checkFamilies } from './families.ts';

const V4 = { address: '127.0.0.1', family: 4 };
// Unreachable: nothing listens there, or this machine has no IPv6.
const V6 = { address: '::1', family: 6 };

async function listening(): Promise<number> {
  const server = createServer();
  await once(server.listen({ host: V4.address, port: 0 }), 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

test('a broken address family is reported although the other one works', async () => {
  const port = await listening();
  const findings = await checkFamilies('database', { name: 'db.example:5432', port, addresses: [V6, V4] });
  expect(findings).toEqual([
    {
      check: 'database',
      status: 'warning',
      message: expect.stringMatching(
        /^db\.example:5432 cannot be reached by IPv6 \(::1: E[A-Z]+\), only by IPv4$/,
      ),
      advice: expect.stringContaining('AAAA'),
    },
  ]);
});

test('one reachable address is enough for a family, and a single family is not compared', async () => {
  const port = await listening();
  const other = { address: '127.0.0.2', family: 4 };
  expect(await checkFamilies('x', { name: 'x', port, addresses: [V4] })).toEqual([]);
  expect(await checkFamilies('x', { name: 'x', port: 1, addresses: [V4, V6] })).toEqual([]);
  const [finding] = await checkFamilies('x', { name: 'x', port, addresses: [other, V6, V4] });
  expect(finding?.message).toContain('by IPv6');
});
