import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect as connectHttp2 } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Agent, fetch } from 'undici';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { type Service, startService } from '../../src/app.ts';
import { freePort } from '../../src/lib/free-port.ts';
import { startTestService, type TestService, until } from '../support/service.ts';

// The samples in deploy/proxies, in Debian's nginx and Caddy on loopback. Only names, ports and certificates
// are replaced.

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const CERTIFICATE = file('../support/tls/server.crt');
const KEY = file('../support/tls/server.key');
const NAME = 'localhost';

interface Ports {
  http: number;
  https: number;
  /** The addresses of the servers. */
  belfry: readonly string[];
}

const PROXIES = [
  {
    name: 'nginx',
    program: '/usr/sbin/nginx',
    sample: 'nginx.conf',
    config: (sample: string, { http, https, belfry }: Ports) =>
      `${NGINX_ALONE}\nhttp { access_log off; ${TEMPORARY}\n${sample
        .replaceAll(/listen \[::\].*\n/g, '\n')
        .replace('listen 80;', `listen 127.0.0.1:${http};`)
        .replace('listen 443', `listen 127.0.0.1:${https}`)
        .replaceAll('notify.example.com', NAME)
        .replace(`/etc/ssl/${NAME}.crt`, CERTIFICATE)
        .replace(`/etc/ssl/${NAME}.key`, KEY)
        .replace(/server 127.0.0.1:3000(.*;)/, (_, rest) =>
          belfry.map((one) => `server ${one}${rest}`).join('\n'),
        )}}`,
    args: (folder: string) => ['-p', folder, '-c', join(folder, 'config'), '-e', 'stderr'],
  },
  {
    name: 'Caddy',
    program: '/usr/bin/caddy',
    sample: 'Caddyfile',
    config: (sample: string, { http, https, belfry }: Ports) =>
      `{\nadmin off\nhttp_port ${http}\nhttps_port ${https}\ndefault_bind 127.0.0.1\n}\n${sample
        .replace('notify.example.com {', `${NAME} {\ntls ${CERTIFICATE} ${KEY}`)
        .replace('127.0.0.1:3000', belfry.join(' '))}`,
    args: (folder: string) => ['run', '--adapter', 'caddyfile', '--config', join(folder, 'config')],
  },
];
const NGINX_ALONE = 'daemon off; user root; error_log stderr; pid nginx.pid; events {}';
const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  .map((kind) => `${kind}_temp_path ${kind};`)
  .join(' ');

async function ended(proxy: ChildProcess): Promise<void> {
  const exit = once(proxy, 'exit');
  proxy.kill('SIGTERM');
  await exit;
}

let service: TestService;
beforeAll(async () => {
  service = await startTestService({
    settings: { TRUSTED_PROXIES: '127.0.0.1', RATE_LIMIT_IP: '2' },
    logLevel: 'info',
  });
});
afterAll(() => service.stop());

for (const { name, program, sample, config, args } of PROXIES) {
  describe.skipIf(!existsSync(program))(`behind ${name}`, () => {
    let folder: string;
    let proxy: ChildProcess;
    let address: string;
    const dispatcher = new Agent({
      connect: { rejectUnauthorized: false },
      allowH2: false,
      localAddress: '127.0.0.2', // not that of the proxy, which Belfry trusts
    });
    const get = (path: string, headers: Record<string, string> = {}) =>
      fetch(address + path, { headers, dispatcher });
    const userJwt = () => service.project.userJwt({ user_external_id: 'ada' });
    const asAda = () => ({ authorization: `Bearer ${userJwt()}` });

    beforeAll(async () => {
      const http = await freePort();
      const https = await freePort();
      address = `https://${NAME}:${https}`;
      folder = await mkdtemp(join(tmpdir(), 'belfry-proxy-'));
      proxy = await started({ http, https, belfry: [new URL(service.address).host] }, folder);
    });
    afterAll(async () => {
      // Some responses are not read to their end, and Caddy waits for their connections.
      await dispatcher.destroy();
      await ended(proxy);
      await rm(folder, { recursive: true, force: true });
    });

    /** Starts the proxy with a configuration in a folder of its own. */
    async function started(ports: Ports, folder: string): Promise<ChildProcess> {
      const text = await readFile(file(`../../../deploy/proxies/${sample}`), 'utf8');
      await writeFile(join(folder, 'config'), config(text, ports));
      const proxy = spawn(program, args(folder), {
        env: { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
        stdio: ['ignore', 'inherit', 'pipe'],
      });
      let printed = '';
      proxy.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
        printed += chunk;
      });
      await until(
        () =>
          fetch(`https://${NAME}:${ports.https}/healthz`, { dispatcher }).then(
            ({ status }) => status,
            () => 0,
          ),
        (status) => status === 200,
      ).catch((cause) => {
        throw new Error(`${name} does not work: ${printed}`, { cause });
      });
      return proxy;
    }

    test('the API works by HTTP/2, and metrics and readiness are hidden', async () => {
      const session = connectHttp2(address, { rejectUnauthorized: false });
      const request = session.request({ ':path': '/v2/notifications', ...asAda() });
      const [headers] = (await once(request, 'response')) as [{ ':status': number }];
      expect(headers[':status']).toBe(200);
      session.close();
      for (const path of ['/metrics', '/metrics/', '/%6detrics', '/readyz', '/readyz/'])
        expect((await get(path)).status, path).toBe(404);
      // With a key, the path is that of version 1.
      const ofProject = await get('/metrics', {
        'x-service-api-key': service.project.apiKey,
        'x-service-api-secret': service.project.apiSecret,
      });
      expect(ofProject.status).toBe(200);
      expect(await ofProject.json()).toHaveProperty('metrics');
    });

    test('a content of 10 MiB is accepted', async () => {
      const { status } = await fetch(`${address}/v2/broadcasts`, {
        method: 'POST',
        headers: { authorization: `Bearer ${service.project.jwt}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          title: 'Long',
          content: 'x'.repeat(10 * 1024 * 1024),
          recipients: [{ external_id: 'ben' }],
        }),
        dispatcher,
      });
      expect(status).toBe(201);
    });

    test('a stream and a WebSocket get a notification at once', async () => {
      const stream = await get('/v2/notifications/stream', asAda());
      const socket = new WebSocket(
        `${address.replace('https', 'wss')}/v2/notifications/stream`,
        ['belfry.v1', `belfry.jwt.${userJwt()}`],
        { rejectUnauthorized: false },
      );
      const frames: string[] = [];
      socket.on('message', (text) => frames.push(String(text)));
      await expect.poll(() => frames.join()).toContain('ready');
      const title = `To ${name}`;
      await service.project.call('POST', '/broadcasts', { title, recipients: [{ external_id: 'ada' }] });
      await expect.poll(() => frames.join()).toContain(title);
      let received = '';
      for await (const chunk of stream.body ?? []) {
        received += Buffer.from(chunk).toString();
        if (received.includes(title)) break;
      }
      socket.close();
    });

    test('strangers are limited by their own address, whatever they put into the header', async () => {
      const forged = (index: number) => get('/v2/users', { 'x-forwarded-for': `192.0.2.${index}` });
      const statuses: number[] = [];
      for (const index of [1, 2, 3, 4]) statuses.push((await forged(index)).status);
      expect(statuses.slice(-1)).toEqual([429]);
      expect(service.logged.join('')).not.toContain('192.0.2.');
    });

    test('a server that restarts takes no other one out of use', async () => {
      const { config: settings } = service.context;
      const ports = [await freePort(), await freePort()];
      const start = (PORT: number | undefined): Promise<Service> =>
        startService({ ...settings, PORT: PORT ?? 0, RATE_LIMIT_WRITES: 0 }, { log: service.context.log });
      const own = await mkdtemp(join(tmpdir(), 'belfry-proxy-'));
      const [http, https] = [await freePort(), await freePort()];
      let [one, other]: (Service | undefined)[] = [await start(ports[0]), await start(ports[1])];
      const ofTwo = await started({ http, https, belfry: ports.map((port) => `127.0.0.1:${port}`) }, own);
      onTestFinished(async () => {
        await ended(ofTwo);
        await one?.stop();
        await other?.stop();
        await rm(own, { recursive: true, force: true });
      });
      const statuses = async () => {
        const seen = new Set<number>();
        for (let sent = 0; sent < 30; sent += 1) {
          const { status, body } = await fetch(`https://${NAME}:${https}/v2/broadcasts`, {
            method: 'POST',
            headers: { authorization: `Bearer ${service.project.jwt}`, 'content-type': 'application/json' },
            body: JSON.stringify({ title: 'Hello', recipients: [{ external_id: 'ben' }] }),
            dispatcher,
          });
          await body?.cancel();
          seen.add(status);
        }
        return [...seen];
      };
      expect(await statuses()).toEqual([201]);
      await one?.stop();
      one = undefined;
      const whileAway = await statuses();
      // Caddy cannot send a body once more, until it has noticed which server is away.
      if (name === 'Caddy') {
        expect(whileAway).toContain(201);
        expect(whileAway).not.toContain(503); // that none is left
        return;
      }
      expect(whileAway).toEqual([201]);
      one = await start(ports[0]);
      await other?.stop();
      other = undefined;
      expect(await statuses()).toEqual([201]);
    });
  });
}
