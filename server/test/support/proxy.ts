import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The fate of a request: it passes, fails, or gets a response of the proxy. */
export type Fate =
  | 'pass'
  /** The server handles the request, but the connection breaks before the response. */
  | 'lose the response'
  /** Half of the response arrives. */
  | 'cut the response'
  /** The client gets no response. */
  | 'hang'
  | { status: number; headers?: Record<string, string>; body?: string };

export interface TestProxy {
  url: string;
  /** Every request, in order. */
  requests: { method: string; url: string; headers: IncomingMessage['headers'] }[];
  /** How many requests are open. */
  open: number;
  /** Decides the fate of requests; by default, all pass. */
  decide: (request: IncomingMessage, number: number) => Fate;
  /** Breaks the connections of all clients. */
  cut(): void;
  close(): Promise<void>;
}

/** A proxy between a client and a server, on real sockets, that makes requests fail as networks do. */
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
  fate: 'pass' | 'lose the response' | 'cut the response',
): void {
  const upstream = request(`${target}${incoming.url}`, {
    method: incoming.method,
    headers: incoming.headers,
  });
  upstream.on('error', () => outgoing.destroy());
  outgoing.on('close', () => upstream.destroy());
  incoming.pipe(upstream);
  upstream.on('response', (response) => {
    response.on('error', () => outgoing.destroy());
    if (fate === 'pass') {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      outgoing.flushHeaders();
      response.pipe(outgoing);
      return;
    }
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('end', () => {
      if (fate === 'lose the response') {
        outgoing.destroy();
        return;
      }
      const whole = Buffer.concat(chunks);
      outgoing.writeHead(response.statusCode ?? 502, { ...response.headers, 'content-length': whole.length });
      outgoing.write(whole.subarray(0, whole.length / 2), () => outgoing.destroy());
    });
  });
}
