/** A vendor for tests that runs a script for each request: HTTP/1.1 or HTTP/2, with or without TLS. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttp2Server, createSecureServer as createSecureHttp2Server } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import type { VendorReply } from './http-stand-in.ts';
import type { VendorRequest } from './vendor-stand-in.ts';

export interface Exchange {
  request: VendorRequest;
  /** The TCP connection of the request. */
  socket: Socket;
  reply(reply: VendorReply): void;
  /** Starts a response that never ends, byte by byte. */
  trickle(): void;
  /** Starts a response and sends half of it. Resolves when it is sent. */
  begin(): Promise<void>;
}

export interface ScriptedVendor {
  address: string;
  /** Sets the script of the next requests. */
  do(script: (exchange: Exchange) => void): void;
  /** How many requests arrived since the last `do`. */
  requests(): number;
  stop(): Promise<void>;
}

/** Starts a vendor on loopback. */
export async function startScriptedVendor({
  http2 = false,
  tls = false,
}: {
  http2?: boolean;
  tls?: boolean;
} = {}): Promise<ScriptedVendor> {
  let script: (exchange: Exchange) => void = () => {};
  let requests = 0;
  const sockets = new Set<Socket>();
  const timers = new Set<NodeJS.Timeout>();
  const listener = (request: Incoming, response: Outgoing): void => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    response.on('error', () => {});
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const raw = Buffer.concat(chunks);
      const body = (headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw).toString();
      requests += 1;
      const [socket] = [...sockets].slice(-1);
      if (socket === undefined) return;
      script({
        request: { method, path: url, headers, body },
        socket,
        reply({ status, headers: given = {}, body: content = '' }) {
          response.writeHead(status, given);
          response.end(typeof content === 'string' ? content : JSON.stringify(content));
        },
        trickle() {
          response.writeHead(200, {});
          timers.add(setInterval(() => response.write(' ', () => {}), 20));
        },
        begin: () => begin(response),
      });
    });
  };
  // All four kinds of server pass objects with these members.
  const secure = { cert: file('server.crt'), key: file('server.key') };
  const server = (
    http2
      ? tls
        ? createSecureHttp2Server(secure, listener as never)
        : createHttp2Server(listener as never)
      : tls
        ? createHttpsServer(secure, listener as never)
        : createHttpServer(listener as never)
  ) as Server;
  const { address, stop } = await listening(server, sockets, tls);
  return {
    address,
    requests: () => requests,
    do(given) {
      for (const timer of timers) clearInterval(timer);
      script = given;
      requests = 0;
    },
    async stop() {
      for (const timer of timers) clearInterval(timer);
      await stop();
    },
  };
}

/** An address without a vendor: a closed port, a silent server, a wrong certificate, or a server for SSH. */
export async function startNoVendor(
  what: 'closed' | 'silent' | 'wrong certificate' | 'SSH',
): Promise<{ address: string; stop(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const server =
    what === 'wrong certificate'
      ? createTlsServer({ cert: file('stranger.crt'), key: file('server.key') })
      : createTcpServer((socket) => {
          if (what === 'SSH') socket.end('SSH-2.0-dropbear\r\n');
        });
  server.on('tlsClientError', () => {});
  const { address, stop } = await listening(
    server,
    sockets,
    what === 'silent' || what === 'wrong certificate',
  );
  if (what === 'closed') await stop();
  return { address, stop: what === 'closed' ? async () => {} : stop };
}

async function listening(server: Server, sockets: Set<Socket>, secure: boolean) {
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    address: `${secure ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

async function begin(response: Outgoing): Promise<void> {
  response.writeHead(200, { 'content-length': '100' });
  await new Promise<void>((resolve) => response.write('{"half":', () => resolve()));
}

function file(name: string): Buffer {
  return readFileSync(new URL(`tls/${name}`, import.meta.url));
}

interface Incoming {
  method?: string;
  url?: string;
  headers: VendorRequest['headers'];
  on(event: 'data' | 'end' | 'error', listener: (chunk: Buffer) => void): unknown;
}

interface Outgoing {
  writeHead(status: number, headers: Record<string, string>): unknown;
  write(text: string, done: () => void): unknown;
  end(text: string): unknown;
  on(event: 'error', listener: () => void): unknown;
}
