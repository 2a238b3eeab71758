import { once } from 'node:events';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { expect } from 'vitest';
import type { SendOutcome } from '../../src/providers/provider.ts';

/** A server on loopback that can be gone for a while, with what it knows. */
export type Outages = {
  /** Nobody listens any more, and every connection is broken. */
  stop(): Promise<void>;
  /** It listens again, at the same port. */
  restart(): Promise<void>;
};

/** Takes a server that listens, and has no connections yet, away, and gives it back. */
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
      if (server.listening) throw new Error('it still listens');
      await refused(port);
    },
    async restart() {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
  };
}

const GONE = { kind: 'retry', ambiguous: false, code: 'ECONNREFUSED' };

/**
 * Expects of a sender that it sends, says that nothing was sent while nobody listens, and sends again
 * afterwards.
 */
export async function expectRecovery(
  { stop, restart }: Outages,
  send: () => Promise<SendOutcome>,
  { http2 = false } = {},
): Promise<void> {
  expect(await send()).toMatchObject({ kind: 'sent' });
  await stop();
  // A session of HTTP/2 ends a moment after its connection: what was written to it until then may have
  // arrived.
  if (http2) await expect.poll(send).toMatchObject(GONE);
  // Twice: with the connection that it had, and without one.
  for (let attempt = 0; attempt < 2; attempt += 1) expect(await send()).toMatchObject(GONE);
  await restart();
  // That it was gone is remembered for a second.
  await expect.poll(send, { timeout: 10_000 }).toMatchObject({ kind: 'sent' });
}

/**
 * Resolves when a connection is refused. The end of those that were open has arrived by then: it was on its
 * way before.
 */
async function refused(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
  if (error.code !== 'ECONNREFUSED') throw error;
}
