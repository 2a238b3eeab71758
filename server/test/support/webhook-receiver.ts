/** A receiver of webhooks for tests: an HTTP server on loopback that keeps the messages. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from './service.ts';

export interface ReceivedMessage {
  id: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** The body's bytes. */
  raw: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
  body: any;
}

export interface WebhookReceiver {
  url: string;
  /** All messages, in order, accepted or not. */
  received: ReceivedMessage[];
  /** The most requests that were open at the same time. */
  mostAtOnce(): number;
  /**
   * Sets the response to the next messages: a status, or a function that may also send none. 204 by default.
   */
  reply(how: number | ((message: ReceivedMessage, response: ServerResponse) => void)): void;
  /** Waits until so many messages have arrived. */
  waitFor(count: number): Promise<ReceivedMessage[]>;
  stop(): Promise<void>;
}

/** Starts a receiver. */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const received: ReceivedMessage[] = [];
  let respond: (message: ReceivedMessage, response: ServerResponse) => void = (_message, response) => {
    response.writeHead(204).end();
  };
  let open = 0;
  let most = 0;
  const server = createServer((request, response) => {
    open += 1;
    most = Math.max(most, open);
    response.on('close', () => {
      open -= 1;
    });
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const raw = Buffer.concat(chunks);
      const { headers, url = '' } = request;
      const message = {
        id: String(headers['webhook-id']),
        path: url,
        headers,
        raw,
        body: JSON.parse(raw.toString()),
      };
      received.push(message);
      respond(message, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    mostAtOnce: () => most,
    reply(how) {
      respond = typeof how === 'function' ? how : (_message, response) => response.writeHead(how).end();
    },
    async waitFor(count) {
      await until(
        () => received.length,
        (length) => length >= count,
      );
      return received;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
