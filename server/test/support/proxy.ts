import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * What becomes of a request on its way: it is passed on, answered here, or something goes wrong with its
 * answer.
 */
export type Fate =
  | 'pass'
  /** The server does it, but its answer is lost: the connection breaks. */
  | 'lose the answer'
  /** Half of the answer arrives. */
  | 'cut the answer'
  /** Nothing ever comes. */
  | 'hang'
  | { status: number; headers?: Record<string, string>; body?: string };

export interface TestProxy {
  url: string;
  /** Every request that came, in order. */
  requests: { method: string; url: string; headers: IncomingMessage['headers'] }[];
  /** How many requests have no whole answer yet. */
  open: number;
  /** Decides on the requests to come; without one, all pass. */
  decide: (request: IncomingMessage, number: number) => Fate;
  /** Breaks all connections that clients have now. */
  cut(): void;
  close(): Promise<void>;
}

/**
 * Stands between a client and a server, on real sockets, and lets requests fail as networks and servers do.
 */
export async function startProxy(target: string): Promise<TestProxy> {
  const server = createServer((incoming, outgoing) => {
    const { method = '', url = '', headers } = incoming;
    proxy.requests.push({ method, url, headers });
    proxy.open += 1;
    outgoing.on('close', () => {
      proxy.open -= 1;
    });
    const fate = proxy.decide(incoming, proxy.requests.length);
    if (fate === 'hang') incoming.resume();
    else if (typeof fate === 'object') {
      incoming.resume();
      outgoing.writeHead(fate.status, fate.headers).end(fate.body ?? '');
    } else forward(target, incoming, outgoing, fate);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const proxy: TestProxy = {
    url: `http://127.0.0.1:${port}`,
    requests: [],
    open: 0,
    decide: () => 'pass',
    cut: () => server.closeAllConnections(),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return proxy;
}

function forward(
  target: string,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  fate: 'pass' | 'lose the answer' | 'cut the answer',
): void {
  const upstream = request(`${target}${incoming.url}`, {
    method: incoming.method,
    headers: incoming.headers,
  });
  upstream.on('error', () => outgoing.destroy());
  outgoing.on('close', () => upstream.destroy());
  incoming.pipe(upstream);
  upstream.on('response', (answer) => {
    answer.on('error', () => outgoing.destroy());
    if (fate === 'pass') {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
      return;
    }
    const chunks: Buffer[] = [];
    answer.on('data', (chunk: Buffer) => chunks.push(chunk));
    answer.on('end', () => {
      if (fate === 'lose the answer') {
        outgoing.destroy();
        return;
      }
      const whole = Buffer.concat(chunks);
      outgoing.writeHead(answer.statusCode ?? 502, { ...answer.headers, 'content-length': whole.length });
      outgoing.write(whole.subarray(0, whole.length / 2), () => outgoing.destroy());
    });
  });
}
