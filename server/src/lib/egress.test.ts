import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttp2Server, connect as http2Connect } from 'node:http2';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { createEgressGuard, EgressRefused } from './egress.ts';

const servers: Server[] = [];
const children: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of children.splice(0)) await end();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

/** A server on loopback that counts connections. */
async function listen(host = '127.0.0.1'): Promise<{ port: number; visits: () => number }> {
  let visits = 0;
  const server = createServer((socket) => {
    visits++;
    socket.on('error', () => {}).end('hello');
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return { port: (server.address() as AddressInfo).port, visits: () => visits };
}

const isLinux = process.platform === 'linux';

/**
 * A server on 127.0.0.1 that is as slow to connect to as one on another continent: its queue is full until
 * `accept` is called, so the kernel ignores requests for connections.
 */
async function slowServer(): Promise<{ port: number; accept: () => void }> {
  const program = `
    const server = require('node:net').createServer(() => {});
    server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      process.stdout.write(server.address().port + '\\n');
      require('node:fs').readSync(0, Buffer.alloc(1)); // blocks the process, which accepts nothing meanwhile
    });`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [printed] = await once(child.stdout, 'data');
  const port = Number(printed);
  const filling = Array.from({ length: 4 }, () => connect(port, '127.0.0.1').on('error', () => {}));
  await once(filling[0] as Socket, 'connect');
  children.push(async () => {
    for (const socket of filling) socket.destroy();
    child.kill();
    await once(child, 'exit');
  });
  return { port, accept: () => child.stdin.write('.') };
}

const resolverOf =
  (...rounds: string[][]) =>
  async () => {
    const addresses = (rounds.length > 1 ? rounds.shift() : rounds[0]) ?? [];
    return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  };

describe('an address is rejected', () => {
  test.each([
    ['0.0.0.0', 'an unspecified address'],
    ['0.1.2.3', 'an unspecified address'],
    ['10.0.0.1', 'a private address'],
    ['10.255.255.255', 'a private address'],
    ['100.64.0.1', 'a carrier-grade NAT address'],
    ['100.100.100.200', 'a carrier-grade NAT address'],
    ['100.127.255.255', 'a carrier-grade NAT address'],
    ['127.0.0.1', 'a loopback address'],
    ['127.255.255.254', 'a loopback address'],
    ['168.63.129.16', 'a cloud metadata address'],
    ['169.254.169.254', 'a link-local or cloud metadata address'],
    ['172.16.0.1', 'a private address'],
    ['172.31.255.255', 'a private address'],
    ['192.0.0.192', 'a protocol assignment address'],
    ['192.0.2.1', 'a documentation address'],
    ['192.88.99.1', 'a 6to4 relay address'],
    ['192.168.1.1', 'a private address'],
    ['198.18.0.1', 'a benchmarking address'],
    ['198.51.100.1', 'a documentation address'],
    ['203.0.113.1', 'a documentation address'],
    ['224.0.0.1', 'a multicast address'],
    ['239.255.255.250', 'a multicast address'],
    ['240.0.0.1', 'a reserved address'],
    ['255.255.255.255', 'a broadcast address'],
    ['::', 'an unspecified address'],
    ['::1', 'a loopback address'],
    ['0:0:0:0:0:0:0:1', 'a loopback address'],
    ['::127.0.0.1', 'a reserved address'],
    ['::ffff:127.0.0.1', 'a loopback address'],
    ['::ffff:7f00:1', 'a loopback address'],
    ['0:0:0:0:0:FFFF:0A00:0001', 'a private address'],
    ['::ffff:169.254.169.254', 'a link-local or cloud metadata address'],
    ['::ffff:0:127.0.0.1', 'a reserved address'],
    ['64:ff9b::7f00:1', 'a NAT64 address'],
    ['64:ff9b::8.8.8.8', 'a NAT64 address'],
    ['64:ff9b:1::1', 'a NAT64 address'],
    ['100::1', 'a reserved address'],
    ['2001::1', 'a Teredo address'],
    ['2001:2::1', 'a protocol assignment address'],
    ['2001:db8::1', 'a documentation address'],
    ['2002:7f00:1::', 'a 6to4 address'],
    ['3fff::1', 'a documentation address'],
    ['fc00::1', 'a private address'],
    ['fd00:ec2::254', 'a private address'],
    ['fe80::1', 'a link-local address'],
    ['fe80::1%eth0', 'a link-local address'],
    ['fec0::1', 'a reserved address'],
    ['ff02::1', 'a multicast address'],
    ['', 'not an address'],
    ['localhost', 'not an address'],
    ['127.1', 'not an address'],
  ])('%s, %s', (address, kind) => {
    expect(createEgressGuard().check(address)).toBe(kind);
  });
});

test.each([
  '1.1.1.1',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '172.15.255.255',
  '172.32.0.0',
  '192.167.255.255',
  '192.169.0.0',
  '223.255.255.255',
  '::ffff:1.1.1.1',
  '2001:200::1',
  '2606:4700::1111',
])('%s is the public internet', (address) => {
  expect(createEgressGuard().check(address)).toBeUndefined();
});

describe('EGRESS_ALLOW', () => {
  test('opens exactly its ranges', () => {
    const { check } = createEgressGuard({ allow: ' 127.0.0.0/8, 10.1.2.3 ,fd00:1::/32,' });
    expect(check('127.0.0.1')).toBeUndefined();
    expect(check('::ffff:127.0.0.1')).toBeUndefined();
    expect(check('10.1.2.3')).toBeUndefined();
    expect(check('10.1.2.4')).toBe('a private address');
    expect(check('fd00:1::5')).toBeUndefined();
    expect(check('fd00:2::5')).toBe('a private address');
    expect(check('::1')).toBe('a loopback address');
  });

  test('can open everything', () => {
    const { check } = createEgressGuard({ allow: '0.0.0.0/0,::/0' });
    expect(['127.0.0.1', '169.254.169.254', '::1', 'fe80::1'].map(check)).toEqual(Array(4).fill(undefined));
  });

  test.each([
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0/8',
    'localhost',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/-1',
    '/8',
    '*',
  ])('names the malformed entry: %s', (entry) => {
    expect(() => createEgressGuard({ allow: `127.0.0.0/8,${entry}` })).toThrow(
      `"${entry}" is not a CIDR block`,
    );
  });
});

describe('a host', () => {
  test('is rejected without its address; the detail names the setting that would permit it', async () => {
    const guard = createEgressGuard({ resolver: resolverOf(['10.0.0.5']) });
    const refused = await guard.resolve('smtp.internal').catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(EgressRefused);
    expect(refused).toMatchObject({
      message:
        'smtp.internal does not resolve to a public address, and EGRESS_ALLOW of the server permits no other',
      detail:
        'smtp.internal resolves to 10.0.0.5, a private address; ' +
        'set EGRESS_ALLOW=10.0.0.5/32 (or its network) to permit it',
    });
  });

  test('that is an IP address is rejected with its kind', async () => {
    await expect(createEgressGuard().resolve('10.0.0.5')).rejects.toThrow(
      new EgressRefused(
        '10.0.0.5 is a private address; set EGRESS_ALLOW=10.0.0.5/32 (or its network) to permit it',
      ),
    );
  });

  test.each([
    '127.0.0.1',
    '[::1]',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0.0.0.0',
    'localhost',
    'localhost.',
    'LOCALHOST',
  ])('%s does not resolve to our network', async (host) => {
    const { port, visits } = await listen();
    await expect(createEgressGuard().connect({ host, port, timeoutMs: 2000 })).rejects.toThrow();
    expect(visits()).toBe(0);
  });

  // The operating system parses all of these as 127.0.0.1 (or rejects them); the guard checks the result.
  test.each([
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0177.0.0.1',
    '017700000001',
    '127.1',
    '127.0.1',
    '127.0.0.1.',
  ])('%s in odd notation does not resolve to our network', async (host) => {
    const { port, visits } = await listen();
    const refused = await createEgressGuard()
      .connect({ host, port, timeoutMs: 2000 })
      .then(
        () => 'connected',
        (error: NodeJS.ErrnoException) => error.code,
      );
    expect(['EGRESS_REFUSED', 'ENOTFOUND', 'EAI_AGAIN']).toContain(refused);
    expect(visits()).toBe(0);
  });

  test('that is empty is rejected', async () => {
    await expect(createEgressGuard({ allow: '0.0.0.0/0,::/0' }).resolve('')).rejects.toBeInstanceOf(
      EgressRefused,
    );
  });

  test('without any address is rejected', async () => {
    await expect(createEgressGuard({ resolver: resolverOf([]) }).resolve('mail.example')).rejects.toThrow(
      'mail.example has no address',
    );
  });

  test('with addresses of both kinds is connected to by permitted ones only', async () => {
    const guard = createEgressGuard({
      resolver: resolverOf(['10.0.0.5', '1.1.1.1', 'fd00::1', '::ffff:127.0.0.1']),
    });
    expect(await guard.resolve('mail.example')).toEqual([{ address: '1.1.1.1', family: 4 }]);
  });

  test('is looked up once for concurrent callers, and again for later ones', async () => {
    const asked: string[] = [];
    const lookup = Promise.withResolvers<{ address: string; family: number }[]>();
    const guard = createEgressGuard({
      resolver: (host) => {
        asked.push(host);
        return host === 'down.example' ? Promise.reject(new Error('no response')) : lookup.promise;
      },
    });
    const all = [1, 2, 3].map(() => guard.resolve('slow.example'));
    const other = guard.resolve('other.example');
    expect(asked).toEqual(['slow.example', 'other.example']);
    lookup.resolve([{ address: '1.1.1.1', family: 4 }]);
    expect(await Promise.all([...all, other])).toEqual(Array(4).fill([{ address: '1.1.1.1', family: 4 }]));
    await guard.resolve('slow.example');
    for (let turn = 1; turn <= 2; turn += 1)
      await expect(guard.resolve('down.example')).rejects.toThrow('no response');
    expect(asked.slice(2)).toEqual(['slow.example', 'down.example', 'down.example']);
  });

  test('that does not exist rejects with the resolver’s own error', async () => {
    await expect(createEgressGuard().resolve('nowhere.invalid')).rejects.toMatchObject({
      code: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/),
    });
  });
});

describe('a connection', () => {
  test('goes to a permitted address, without delay', async () => {
    const { port } = await listen();
    const socket = await createEgressGuard({ allow: '127.0.0.0/8,::1' }).connect({
      host: 'localhost',
      port,
      timeoutMs: 2000,
    });
    expect(socket.remotePort).toBe(port);
    socket.destroy();
  });

  test('tries the next address when one does not respond', async () => {
    const { port } = await listen('127.0.0.2');
    const guard = createEgressGuard({
      allow: '127.0.0.0/8',
      resolver: resolverOf(['127.0.0.3', '127.0.0.2']),
    });
    const socket = await guard.connect({ host: 'mail.example', port, timeoutMs: 2000 });
    expect(socket.remoteAddress).toBe('127.0.0.2');
    socket.destroy();
  });

  test.runIf(isLinux)('that is slow is not given up for an address that cannot be reached', async () => {
    const slow = await slowServer();
    const guard = createEgressGuard({
      allow: '127.0.0.0/8',
      resolver: resolverOf(['127.0.0.1', '127.0.0.2']),
    });
    const connecting = guard.connect({ host: 'far.example', port: slow.port, timeoutMs: 10_000 });
    for (let turn = 0; turn < 5; turn += 1) await setImmediate(); // the request was made, and ignored
    slow.accept();
    const socket = await connecting; // the kernel repeats the request after a second
    expect(socket.remoteAddress).toBe('127.0.0.1');
    socket.destroy();
  });

  test.runIf(isLinux)('does not wait for an address that is silent, and closes it', async () => {
    const silent = await slowServer();
    const server = createServer((socket) => socket.on('error', () => {}));
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(silent.port, '127.0.0.3', resolve));
    const resolver = resolverOf(['127.0.0.1', '127.0.0.3']);
    const guard = createEgressGuard({ allow: '127.0.0.0/8', resolver });
    const socket = await guard.connect({ host: 'mail.example', port: silent.port, timeoutMs: 10_000 });
    expect(socket.remoteAddress).toBe('127.0.0.3');
    socket.destroy();
  });

  test('that all addresses refuse rejects with the reason of the first', async () => {
    const { port } = await listen();
    const resolver = resolverOf(['127.0.0.4', '127.0.0.5', '127.0.0.6']);
    const guard = createEgressGuard({ allow: '127.0.0.0/8', resolver });
    await expect(guard.connect({ host: 'mail.example', port, timeoutMs: 2000 })).rejects.toMatchObject({
      code: 'ECONNREFUSED',
      message: expect.not.stringContaining('127.0.0'),
    });
  });

  test('goes to the address that was checked, even if the name resolves differently since', async () => {
    const inside = await listen('127.0.0.1');
    const outside = await listen('127.0.0.2');
    // Allowed: only 127.0.0.2. The first lookup returns it, all later ones return an internal address.
    const guard = createEgressGuard({
      allow: '127.0.0.2',
      resolver: resolverOf(['127.0.0.2'], ['127.0.0.1']),
    });
    const socket = await guard.connect({ host: 'rebinding.example', port: outside.port, timeoutMs: 2000 });
    expect(socket.remoteAddress).toBe('127.0.0.2');
    socket.destroy();
    await expect(
      guard.connect({ host: 'rebinding.example', port: inside.port, timeoutMs: 2000 }),
    ).rejects.toBeInstanceOf(EgressRefused);
    expect(inside.visits()).toBe(0);
  });

  test('that is refused rejects with the reason', async () => {
    const { port } = await listen();
    for (const server of servers.splice(0)) server.close();
    await expect(
      createEgressGuard({ allow: '127.0.0.0/8' }).connect({ host: '127.0.0.1', port, timeoutMs: 2000 }),
    ).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('that is refused names the host, not its address', async () => {
    const { port } = await listen();
    for (const server of servers.splice(0)) server.close();
    const guard = createEgressGuard({ allow: '127.0.0.0/8', resolver: resolverOf(['127.0.0.1']) });
    await expect(guard.connect({ host: 'mail.example', port, timeoutMs: 2000 })).rejects.toMatchObject({
      code: 'ECONNREFUSED',
      message: `connecting to mail.example:${port} failed: ECONNREFUSED`,
    });
  });

  test('times out, also while the name server is silent', async () => {
    const guard = createEgressGuard({ resolver: () => new Promise(() => {}) });
    await expect(guard.connect({ host: 'slow.example', port: 25, timeoutMs: 50 })).rejects.toMatchObject({
      code: 'ETIMEDOUT',
      message: 'looking up slow.example took longer than 50 ms',
    });
  });
});

describe('lookup', () => {
  test('works in clients that accept one, here http2', async () => {
    const server = createHttp2Server((_request, response) => response.end('ok'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const open = (allow: string) =>
      new Promise<string>((resolve) => {
        const { lookup } = createEgressGuard({ allow, resolver: resolverOf(['127.0.0.1']) });
        const session = http2Connect(`http://vendor.example:${port}`, { lookup });
        session.once('connect', () => session.close(() => resolve('connected')));
        session.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      });
    expect(await open('127.0.0.0/8')).toBe('connected');
    expect(await open('')).toBe('EGRESS_REFUSED');
    await new Promise((resolve) => server.close(resolve));
  });

  test.each([
    [
      { all: true },
      [
        [
          { address: '1.1.1.1', family: 4 },
          { address: '2606:4700::1', family: 6 },
        ],
      ],
    ],
    [{ family: 6 }, ['2606:4700::1', 6]],
    [{}, ['1.1.1.1', 4]],
  ])('returns %j like dns.lookup', async (options, expected) => {
    const { lookup } = createEgressGuard({ resolver: resolverOf(['1.1.1.1', '10.0.0.1', '2606:4700::1']) });
    const result = await new Promise<unknown[]>((resolve, reject) =>
      lookup('vendor.example', options, (error, ...rest) => (error ? reject(error) : resolve(rest))),
    );
    expect(result).toEqual(expected);
  });
});
