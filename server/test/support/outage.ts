import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect } from 'vitest';
import type { Outcome } from '../../src/providers/provider.ts';

/** A server on loopback that can be gone for a while, with what it knows. */
export type Outages = {
  /** Nobody listens any more, and every connection is broken. */
  stop(): Promise<void>;
  /** It listens again, at the same port. */
  restart(): Promise<void>;
};

/** Takes a server that listens away, and gives it back. */
export function outagesOf(server: Server): Outages {
  const { port } = server.address() as AddressInfo;
  return {
    async stop() {
      server.close();
      server.closeAllConnections();
      if (server.listening) throw new Error('it still listens');
      await refused(port);
    },
    async restart() {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
  };
}

/** Expects of a sender that it sends, says that nothing was sent while nobody listens, and sends again afterwards. */
export async function expectRecovery(
  { stop, restart }: Outages,
  send: () => Promise<Outcome>,
): Promise<void> {
  expect(await send()).toMatchObject({ kind: 'sent' });
  await stop();
  // Twice: with the connection that it had, and without one.
  for (let attempt = 0; attempt < 2; attempt += 1)
    expect(await send()).toMatchObject({ kind: 'retry', ambiguous: false, code: 'ECONNREFUSED' });
  await restart();
  expect(await send()).toMatchObject({ kind: 'sent' });
}

/** Resolves when a connection is refused. The end of those that were open has arrived by then: it was on its way before. */
async function refused(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
  if (error.code !== 'ECONNREFUSED') throw error;
}
