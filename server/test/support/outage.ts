import { once } from 'node:events';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { expect } from 'vitest';
import type { SendOutcome } from '../../src/providers/provider.ts';

/** Stops and restarts a server on loopback. It keeps its state. */
export type Outages = {
  /** Stops listening and breaks every connection. */
  stop(): Promise<void>;
  /** Listens at the same port again. */
  restart(): Promise<void>;
};

/** The outages of a server that listens, and has no connections yet. */
export function outagesOf(server: Server): Outages {
  const { port } = server.address() as AddressInfo;
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return {
    async stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) throw new Error('the server still listens');
      await refused(port);
    },
    async restart() {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
  };
}

const UNREACHABLE = { kind: 'retry', ambiguous: false, code: 'ECONNREFUSED' };

/** Expects that a sender sends, reports during an outage that nothing was sent, and sends after it. */
export async function expectRecovery(
  { stop, restart }: Outages,
  send: () => Promise<SendOutcome>,
  { http2 = false } = {},
): Promise<void> {
  expect(await send()).toMatchObject({ kind: 'sent' });
  await stop();
  // A session of HTTP/2 ends a moment after its connection. A send before that is ambiguous.
  if (http2) await expect.poll(send).toMatchObject(UNREACHABLE);
  // Twice: with the broken connection, and without one.
  for (let attempt = 0; attempt < 2; attempt += 1) expect(await send()).toMatchObject(UNREACHABLE);
  await restart();
  // The failure is remembered for a second.
  await expect.poll(send, { timeout: 10_000 }).toMatchObject({ kind: 'sent' });
}

/** Resolves when a connection is refused. By then the clients know that the open ones have ended. */
async function refused(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
  if (error.code !== 'ECONNREFUSED') throw error;
}
