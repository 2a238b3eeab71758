import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../../src/lib/free-port.ts';
import { until } from '../support/service.ts';

// The programs that guides show to readers, as they are on the page.

const SECRET = Buffer.from('a secret of twenty-four bytes').toString('base64');

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'belfry-samples-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Saves the JavaScript of a guide that has `part` in it, and returns its path. */
async function save(guide: string, part: string, change = (code: string) => code): Promise<string> {
  const text = await readFile(new URL(`../../../docs/guides/${guide}.md`, import.meta.url), 'utf8');
  const blocks = [...text.matchAll(/^( *)```js\n(.*?)^\1```/gms)].filter(([block]) => block.includes(part));
  expect(blocks).toHaveLength(1);
  const path = join(folder, `${guide}.mjs`);
  await writeFile(path, change(blocks[0]?.[2] ?? ''));
  return path;
}

test('the receiver of webhooks rejects what is not signed or cut off, and keeps running', async () => {
  const port = await freePort();
  const path = await save('webhooks', 'createServer', (code) => {
    expect(code).toContain('.listen(4000)');
    return code.replace('.listen(4000)', `.listen(${port}, '127.0.0.1')`);
  });
  const receiver = spawn(process.execPath, [path], {
    env: { PATH: process.env.PATH, WEBHOOK_SECRET: `whsec_${SECRET}` },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const printed: string[] = [];
    receiver.stdout.setEncoding('utf8').on('data', (text: string) => printed.push(text));
    const send = (headers: Record<string, string>, body = '{"type": "broadcast.created"}') =>
      fetch(`http://127.0.0.1:${port}`, { method: 'POST', headers, body }).then(
        ({ status }) => status,
        () => 'unreachable',
      );
    const signed = (body = '{"type": "broadcast.created"}', seconds = Math.floor(Date.now() / 1000)) => {
      const signature = createHmac('sha256', Buffer.from(SECRET, 'base64')).update(`1.${seconds}.${body}`);
      return {
        'webhook-id': '1',
        'webhook-timestamp': String(seconds),
        'webhook-signature': `v1,${signature.digest('base64')}`,
      };
    };
    await until(
      () => send({}),
      (status) => status !== 'unreachable',
    );
    expect(await send({})).toBe(401);
    const { 'webhook-signature': _, ...unsigned } = signed();
    expect(await send(unsigned)).toBe(401);
    expect(await send({ ...signed(), 'webhook-signature': 'v1,AAAA' })).toBe(401);
    expect(await send(signed(undefined, Math.floor(Date.now() / 1000) - 3_600))).toBe(401);

    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    const { 'webhook-timestamp': seconds } = signed();
    const head = `POST / HTTP/1.1\r\nhost: x\r\nwebhook-id: 1\r\nwebhook-timestamp: ${seconds}\r\n`;
    socket.end(`${head}content-length: 100\r\n\r\n{"type"`).resume();
    await once(socket, 'close');

    expect(await send(signed())).toBe(204);
    await expect.poll(() => printed.join('')).toBe('1 broadcast.created\n');
    expect(receiver.exitCode).toBe(null);
  } finally {
    receiver.kill();
  }
});

test('the check of requests to a mailer of your own rejects what is forged, old or not signed', async () => {
  const path = await save('email', 'isFromBelfry');
  const { isFromBelfry } = await import(/* @vite-ignore */ pathToFileURL(path).href);
  const body = Buffer.from('{"total": 1}');
  const header = (seconds: number, secret = 'sk_1') => {
    const mac = createHmac('sha256', secret).update(`${seconds}.`).update(body).digest('hex');
    return `t=${seconds},v1=${mac}`;
  };
  const now = Math.floor(Date.now() / 1000);
  expect(isFromBelfry(header(now), body, 'sk_1')).toBe(true);
  expect(isFromBelfry(`${header(now, 'sk_2')},v1=${header(now).slice(-64)}`, body, 'sk_1')).toBe(true);
  expect(isFromBelfry(header(now, 'sk_2'), body, 'sk_1')).toBe(false);
  expect(isFromBelfry(header(now - 3_600), body, 'sk_1')).toBe(false);
  expect(isFromBelfry(undefined, body, 'sk_1')).toBe(false);
  expect(isFromBelfry('t', body, 'sk_1')).toBe(false);
});
