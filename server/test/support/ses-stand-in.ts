import { once } from 'node:events';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { type Outages, outagesOf } from './outage.ts';

// By `require`, because the default of an imported CommonJS module differs between Node and Vitest.
const { default: startLocal } = createRequire(import.meta.url)(
  'aws-ses-v2-local',
) as typeof import('aws-ses-v2-local');

/** An e-mail as aws-ses-v2-local has parsed it. */
export interface SesMail {
  messageId: string;
  from: string;
  destination: { to: string[]; cc: string[]; bcc: string[] };
  subject: string;
  body: { html?: string; text?: string };
}

/** Starts npm's `aws-ses-v2-local` on loopback. It accepts any signature. */
export async function startSesStandIn(): Promise<{
  address: string;
  outages: Outages;
  received(): Promise<SesMail[]>;
  stop(): Promise<void>;
}> {
  const server = await startLocal({ host: '127.0.0.1', port: 0 });
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await fetch(`${address}/clear-store`, { method: 'POST' }); // all servers of a process have one store
  return {
    address,
    outages: outagesOf(server),
    async received() {
      const store = (await (await fetch(`${address}/store`)).json()) as { emails: SesMail[] };
      return store.emails;
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
