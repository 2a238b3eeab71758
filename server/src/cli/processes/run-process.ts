import type { IncomingMessage } from 'node:http';
import inspector from 'node:inspector';
import { flushCompileCache } from 'node:module';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Service, startService } from '../../app.ts';
import { readConfig } from '../../config.ts';
import { measureProcess } from '../../http/operations.ts';
import { createLogger } from '../../lib/log.ts';
import type { MetricsOfOthers, MetricsOfProcess } from '../../metrics.ts';
import { describeStartError } from '../describe-start-error.ts';
import { collectLessOften, returnUnusedMemory } from '../memory.ts';
import type { FromProcess, Part, ToProcess } from './messages.ts';

const ALIVE_EVERY_MS = 1_000;

/** Runs one of the processes of a node (supervise.ts), which get their part by a message. */
export async function runProcess(): Promise<void> {
  const waiting = new Map<number, (metrics: readonly MetricsOfProcess[]) => void>();
  const metricsOfOthers: MetricsOfOthers = (own) => {
    const { promise, resolve } = Promise.withResolvers<readonly MetricsOfProcess[]>();
    const id = nextRequest++;
    waiting.set(id, resolve);
    send({ type: 'metrics', id, own });
    return promise;
  };
  let nextRequest = 0;
  let service: Promise<Service> | undefined;
  let stopping: Promise<never> | undefined;
  const stopOnce = async () => {
    await (await service)?.stop().catch(() => {});
    return process.exit(0);
  };
  // The supervisor and SIGTERM may both stop it: the first one waits for what is running.
  const stop = () => {
    stopping ??= stopOnce();
    return stopping;
  };
  process.on('message', async (message: ToProcess, socket: Socket | undefined) => {
    switch (message.type) {
      case 'start':
        service = start(message, metricsOfOthers);
        return;
      case 'connection':
        if (socket !== undefined) (await service)?.takeOver(socket, Buffer.from(message.head));
        return;
      case 'measure': {
        const running = await service;
        if (running === undefined) return;
        send({ type: 'measured', id: message.id, metrics: await measureProcess(running.contexts()) });
        return;
      }
      case 'metrics':
        waiting.get(message.id)?.(message.metrics);
        waiting.delete(message.id);
        return;
      case 'stop':
        await stop();
    }
  });
  process.on('SIGTERM', stop);
  // A terminal sends these to all processes of the node. The supervisor decides.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
  // The supervisor was killed, and another one may deliver the jobs of this process: stop at once.
  process.on('disconnect', () => process.exit(1));
}

async function start(
  { process: number, roles, port, ...supervised }: Part,
  metricsOfOthers: MetricsOfOthers,
): Promise<Service> {
  try {
    const config = { ...readConfig(), ROLE: roles, PORT: port };
    const log = createLogger({ level: config.LOG_LEVEL }).child({ process: number });
    const service = await startService(config, {
      log,
      supervised: { ...supervised, passOn, metricsOfOthers },
    });
    returnUnusedMemory();
    collectLessOften();
    flushCompileCache();
    send({ type: 'ready', address: service.address });
    const reportAlive = () => {
      // Node does not emit `disconnect` while a connection that was passed on is not acknowledged.
      if (!process.connected) process.exit(1);
      send({ type: 'alive', isDebugged: inspector.url() !== undefined });
    };
    setInterval(reportAlive, ALIVE_EVERY_MS).unref();
    return service;
  } catch (error) {
    const { message, stack } = describeStartError(error) as Error;
    const reason = error instanceof Error && error.message !== message ? message : (stack ?? message);
    send({ type: 'failed', reason }, () => process.exit(1));
    return new Promise(() => {}); // until it has ended
  }
}

/** Sends a connection and its request to the supervisor, for a process that serves realtime connections. */
function passOn(request: IncomingMessage, socket: Duplex, behind: Buffer): void {
  const { method, url, httpVersion, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let index = 0; index < rawHeaders.length; index += 2)
    lines.push(`${rawHeaders[index]}: ${rawHeaders[index + 1]}`);
  const head = Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), behind]);
  if (!(socket instanceof Socket)) return;
  // With a server, Node would count a sent socket as closed twice, and later ask the other process for it.
  socket.removeAllListeners('error').on('error', () => {});
  Object.assign(socket, { server: undefined });
  send({ type: 'connection', head }, () => socket.destroy(), socket);
}

function send(message: FromProcess, onSent: () => void = () => {}, socket?: Socket): void {
  if (process.connected) process.send?.(message, socket, {}, onSent);
}
