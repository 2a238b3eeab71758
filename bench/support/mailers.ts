import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Mailers of projects on one host, in this process: one that reports when an e-mail arrived, and any number
 * that never respond.
 */
export interface Mailers {
  readonly url: string;
  readonly hangingUrl: string;
  /** E-mails that wait for a response. */
  readonly hanging: number;
  /** Resolves to the time at which an e-mail with this title arrived. */
  arrival(title: string): Promise<number>;
  stop(): void;
}

export async function startMailers(): Promise<Mailers> {
  const awaited = new Map<string, (atMs: number) => void>();
  let hanging = 0;
  const server = createServer((request, response) => {
    const atMs = performance.now();
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.url === '/hanging') {
        hanging += 1;
        return;
      }
      const { notifications } = JSON.parse(Buffer.concat(chunks).toString()) as Sent;
      for (const { title } of notifications) awaited.get(title)?.(atMs);
      response.end('{}');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `${address}/quick`,
    hangingUrl: `${address}/hanging`,
    get hanging() {
      return hanging;
    },
    arrival: (title) => new Promise((resolve) => awaited.set(title, resolve)),
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

interface Sent {
  notifications: { title: string }[];
}
