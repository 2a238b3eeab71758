import { expect, test } from 'vitest';
import { createEgressGuard } from '../../../lib/egress.ts';
import { hostMember, urlMember } from '../../../lib/named-host.ts';
import { waitMs } from '../../../lib/wait.ts';
import { fcm } from '../../../providers/fcm/index.ts';
import { privateHostProblems } from './private-hosts.ts';

const MEMBERS = [urlMember('webhook.url'), hostMember('host')];

test('every member that names a private host is reported, in any spelling', async () => {
  const egress = createEgressGuard({ resolver: async () => [{ address: '192.168.1.1', family: 4 }] });
  for (const host of ['10.1.2.3', '[::1]', '0x7f.1', '2130706433', '169.254.169.254', 'metadata.internal']) {
    const sent = { webhook: { url: `https://user@${host}:8443/path` }, host: host.replace(/[[\]]/g, '') };
    expect(await privateHostProblems({ egress }, MEMBERS, sent), host).toEqual([
      expect.stringMatching(/^Param 'webhook\.url' must lead to a public address: /),
      expect.stringMatching(/^Param 'host' must lead to a public address: /),
    ]);
  }
});

test('the universe domain of FCM is looked up', async () => {
  const asked: string[] = [];
  const egress = createEgressGuard({
    resolver: async (host) => {
      asked.push(host);
      return [{ address: '192.168.1.1', family: 4 }];
    },
  });
  const sent = { universe_domain: 'cloud.example' };
  expect(await privateHostProblems({ egress }, fcm.hosts ?? [], sent)).toEqual([
    expect.stringMatching(/^Param 'universe_domain' must lead to a public address: /),
  ]);
  expect(asked).toEqual(['fcm.cloud.example']);
});

test('a public host is no problem, nor is a value that names no host', async () => {
  const egress = createEgressGuard({ allow: '10.0.0.0/8' });
  const long = `${'a.'.repeat(200)}example`;
  for (const host of [undefined, null, 5, {}, '', '1.1.1.1', '10.1.2.3', '2606:4700::1111', long])
    expect(await privateHostProblems({ egress }, MEMBERS, { host, webhook: { url: host } })).toEqual([]);
  for (const sent of [undefined, null, 'text', [], { webhook: 'text' }, { webhook: { url: 'no url' } }])
    expect(await privateHostProblems({ egress }, MEMBERS, sent)).toEqual([]);
});

test('a name server that fails or hangs does not prevent saving', async () => {
  const silent = Promise.withResolvers<never>();
  let asked = 0;
  const egress = createEgressGuard({
    resolver(host) {
      asked += 1;
      return host.startsWith('silent') ? silent.promise : Promise.reject(new Error('ENOTFOUND'));
    },
  });
  expect(await privateHostProblems({ egress }, MEMBERS, { host: 'unknown.example' })).toEqual([]);
  // Many lookups at once leave some for deliveries.
  const many = Array.from({ length: 50 }, (_, index) =>
    privateHostProblems({ egress }, MEMBERS, { host: `silent-${index}.example` }),
  );
  expect(await Promise.all(many)).toEqual(many.map(() => []));
  expect(asked).toBe(2);
  silent.reject(new Error('ETIMEDOUT'));
  await expect
    .poll(async () => {
      await privateHostProblems({ egress }, MEMBERS, { host: 'unknown.example' });
      return asked;
    })
    .toBe(3);
});

test('names of many requests at once are all looked up, one after the other', async () => {
  const asked: string[] = [];
  let atOnce = 0;
  const egress = createEgressGuard({
    async resolver(host) {
      asked.push(host);
      atOnce += 1;
      expect(atOnce).toBe(1);
      await waitMs(5);
      atOnce -= 1;
      return [{ address: '192.168.1.1', family: 4 }];
    },
  });
  const many = Array.from({ length: 20 }, (_, index) =>
    privateHostProblems({ egress }, MEMBERS, { host: `host-${index % 10}.example` }),
  );
  for (const problems of await Promise.all(many)) expect(problems).toHaveLength(1);
  expect(asked.length).toBe(10);
});

test('the names of a request are looked up once, and within a second in all', async () => {
  const asked: string[] = [];
  const egress = createEgressGuard({
    async resolver(host) {
      asked.push(host);
      await waitMs(300);
      return [{ address: '192.168.1.1', family: 4 }];
    },
  });
  const names = Array.from({ length: 60 }, (_, index) => `host-${index % 30}.example`);
  const hosts = [...names, '10.1.2.3'];
  const members = hosts.map((_, index) => hostMember(String(index)));
  const problems = await privateHostProblems({ egress }, members, hosts);
  expect(asked.length).toBeLessThan(5);
  expect(new Set(asked).size).toBe(asked.length);
  expect(problems.at(-1)).toMatch(/^Param '60' must lead to a public address: /);
});
