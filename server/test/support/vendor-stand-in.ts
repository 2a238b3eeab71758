/** Vendors for tests: servers on loopback that record requests and send the replies of the test. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { VendorReply } from './http-stand-in.ts';
import { type Outages, outagesOf } from './outage.ts';

export interface VendorRequest {
  method: string;
  path: string;
  headers: Record<string, string | string[] | undefined>;
  body: string;
}

export interface VendorStandIn {
  address: string;
  /** The requests since the last call of `reply`. */
  requests: VendorRequest[];
  /**
   * Sets the replies to the next requests. The last one is repeated. 'cut' breaks the connection, 'hang'
   * sends nothing.
   */
  reply(...replies: Reply[]): void;
  outages: Outages;
  stop(): Promise<void>;
}

type Reply = VendorReply | ((request: VendorRequest) => VendorReply) | 'cut' | 'hang';

/** Starts a vendor. With `http2`, it speaks HTTP/2 from the first byte, as APNs does inside TLS. */
export async function startVendor({ http2 = false } = {}): Promise<VendorStandIn> {
  const requests: VendorRequest[] = [];
  let replies: Reply[] = [{ status: 404 }];
  const sockets = new Set<{ destroy(): unknown }>();
  // Both kinds of server pass objects with these members.
  const listener = (request: Incoming, response: Outgoing): void => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const got = { method, path: url, headers, body: Buffer.concat(chunks).toString() };
      requests.push(got);
      const next = replies.length > 1 ? replies.shift() : replies[0];
      if (next === 'cut') request.socket.destroy();
      if (next === undefined || next === 'cut' || next === 'hang') return;
      const { status, headers: given = {}, body = '' } = typeof next === 'function' ? next(got) : next;
      response.writeHead(status, given);
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  };
  const server = http2
    ? createHttp2Server(listener as unknown as Parameters<typeof createHttp2Server>[0])
    : createServer(listener as unknown as Parameters<typeof createServer>[0]);
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    reply(...given) {
      requests.length = 0;
      replies = given;
    },
    outages: outagesOf(server),
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

interface Incoming {
  method?: string;
  url?: string;
  headers: VendorRequest['headers'];
  socket: { destroy(): unknown };
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
}

interface Outgoing {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(text: string): unknown;
}
