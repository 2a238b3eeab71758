import { readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startBelfry } from './belfry-process.ts';
import { LAUNCHER } from './program.ts';

// The program that deploy/offline.test.ts runs in a network that has only the loopback interface. It starts
// Belfry on the data directory in its argument, uses it, and prints an `Offline` as JSON.

export interface Offline {
  /** The channel and state of each delivery of a broadcast to one user. */
  deliveries: string[];
  /** The status of each page, by path. */
  pages: Record<string, number>;
  exitCode: number | string;
  /** How many packets and connections to other hosts the system refused meanwhile. */
  refused: number;
  /** The same after one connection that this program tried: it shows that they are counted. */
  refusedAfterOne: number;
}

/** What this program reads of the responses. */
interface Body {
  id: string;
  status: { status: string };
  data: { channel: string; state: string }[];
}

const PAGES = [
  '/demo',
  '/docs',
  '/docs/api/',
  '/docs/guides/first-steps/',
  '/v2/openapi.json',
  '/readyz',
  '/metrics',
];

const [dataDir = ''] = process.argv.slice(2);
const before = refusals();
const belfry = await startBelfry(dataDir, {}, LAUNCHER);
const deliveries = await broadcastToOne();
const pages: Record<string, number> = {};
for (const path of PAGES) {
  const response = await fetch(`${belfry.address}${path}`); // waits until the documentation is built
  await response.arrayBuffer();
  pages[path] = response.status;
}
belfry.signal('SIGTERM');
const exitCode = await belfry.ended;
const refused = refusals() - before;
await new Promise((resolve) => createConnection(80, '192.0.2.1').once('error', resolve));
const result: Offline = { deliveries, pages, exitCode, refused, refusedAfterOne: refusals() - before };
console.log(JSON.stringify(result));

async function broadcastToOne(): Promise<string[]> {
  const call = async (path: string, body?: object) => {
    const response = await fetch(`${belfry.credentials.base_url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${belfry.credentials.project_jwt}`,
        'content-type': 'application/json',
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Body;
  };
  const recipients = [{ external_id: 'ada', email: 'ada@example.com' }];
  const { id } = await call('/broadcasts', { title: 'Hello', recipients });
  for (;;) {
    const { status } = await call(`/broadcasts/${id}`);
    if (status.status === 'processed') break;
    await delay(50);
  }
  const { data } = await call(`/broadcasts/${id}/deliveries`);
  return data.map(({ channel, state }) => `${channel} ${state}`);
}

/** What the system could not send since the start of the network, because no route leads there. */
function refusals(): number {
  const [names = '', values = ''] = readFileSync('/proc/net/snmp', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('Ip:'));
  const v4 = Number(values.split(' ')[names.split(' ').indexOf('OutNoRoutes')]);
  const v6 = /^Ip6OutNoRoutes\s+(\d+)$/m.exec(readFileSync('/proc/net/snmp6', 'utf8'));
  return v4 + Number(v6?.[1] ?? 0);
}
