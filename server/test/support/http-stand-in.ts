import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Outages, outagesOf } from './outage.ts';

/** A vendor's response. A string body is sent as it is, anything else as JSON. */
export interface VendorReply {
  status: number;
  headers?: Record<string, string>;
  body?: unknown;
}

/** A vendor for tests: an HTTP server on loopback. */
export interface HttpStandIn {
  address: string;
  outages: Outages;
  /** The largest number of requests that were open at the same time. */
  mostOpen(): number;
  stop(): Promise<void>;
}

/** Starts an HTTP server on loopback that responds to each request with what `respond` returns for it. */
export async function startHttpStandIn(
  respond: (request: IncomingMessage, body: Buffer) => VendorReply | Promise<VendorReply>,
): Promise<HttpStandIn> {
  let open = 0;
  let mostOpen = 0;
  const server = createServer((request, response) => {
    open += 1;
    mostOpen = Math.max(mostOpen, open);
    response.on('close', () => (open -= 1));
    const chunks: Buffer[] = [];
    request.on('error', () => {}); // the client ended the request
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const { status, headers, body = '' } = await respond(request, Buffer.concat(chunks));
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    outages: outagesOf(server),
    mostOpen: () => mostOpen,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
