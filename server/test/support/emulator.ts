import { Server as HttpServer } from 'node:http';
import { Server } from 'node:net';
import { createEmulator, type Emulator } from 'emulate';
import { type Outages, outagesOf } from './outage.ts';

/** Starts a vendor of npm's `emulate` on loopback. */
export async function startEmulator(
  service: 'github' | 'slack' | 'twilio',
  seed: object,
): Promise<{ emulator: Emulator; address: string; outages: Outages }> {
  // It listens on every interface, without an option to change that.
  const { listen } = Server.prototype;
  const listening = Promise.withResolvers<Server>();
  Server.prototype.listen = function (this: Server) {
    return Reflect.apply(listen, this, [0, '127.0.0.1', () => listening.resolve(this)]);
  } as typeof listen;
  try {
    const emulator = await createEmulator({ service, seed: { [service]: seed } });
    const server = await listening.promise;
    if (!(server instanceof HttpServer)) throw new Error('the emulator is not an HTTP server');
    const bound = server.address();
    if (bound === null || typeof bound === 'string') throw new Error('the emulator has no port');
    return { emulator, address: `http://127.0.0.1:${bound.port}`, outages: outagesOf(server) };
  } finally {
    Server.prototype.listen = listen;
  }
}
