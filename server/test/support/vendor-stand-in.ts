/** Vendors for tests: servers on loopback that keep what they are asked, and answer as they are told. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { type Outages, outagesOf } from './outage.ts';

export interface VendorRequest {
  method: string;
  path: string;
  headers: Record<string, string | string[] | undefined>;
  body: string;
}

export interface VendorAnswer {
  status: number;
  headers?: Record<string, string>;
  body?: unknown;
}

export interface VendorStandIn {
  address: string;
  /** What was asked since the last `answer`. */
  requests: VendorRequest[];
  /**
   * Answers so from now on: the last of several goes on for ever, 'cut' breaks the connection, 'hang' says
   * nothing.
   */
  answer(...answers: Answer[]): void;
  outages: Outages;
  stop(): Promise<void>;
}

type Answer = VendorAnswer | ((request: VendorRequest) => VendorAnswer) | 'cut' | 'hang';

/** Starts one; with `http2` it speaks that from the first byte on, as APNs does inside TLS. */
export async function startVendor({ http2 = false } = {}): Promise<VendorStandIn> {
  const requests: VendorRequest[] = [];
  let answers: Answer[] = [{ status: 404 }];
  const sockets = new Set<{ destroy(): unknown }>();
  // Both servers call it with objects that are alike as far as it uses them.
  const listener = (request: Incoming, response: Outgoing): void => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const got = { method, path: url, headers, body: Buffer.concat(chunks).toString() };
      requests.push(got);
      const next = answers.length > 1 ? answers.shift() : answers[0];
      if (next === 'cut') request.socket.destroy();
      if (next === undefined || next === 'cut' || next === 'hang') return;
      const answer = typeof next === 'function' ? next(got) : next;
      const { status, headers: given = {}, body = '' } = answer;
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
    answer(...given) {
      requests.length = 0;
      answers = given;
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
