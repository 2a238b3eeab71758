import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A NATS server on loopback. */
export interface NatsServer {
  readonly port: number;
  /** Resolves with the first line of its log that matches. */
  logged(pattern: RegExp): Promise<string>;
  /** Kills it. */
  kill(): Promise<void>;
  /** Starts it again at the same port. */
  start(): Promise<void>;
}

/** Whether this machine has a NATS server. */
export const hasNats = spawnSync('nats-server', ['--version']).error === undefined;

/** Starts a server with further options of its command line. */
export async function startNatsServer(options: readonly string[] = []): Promise<NatsServer> {
  let port = -1; // any
  let child: ChildProcess;
  let lines: string[] = [];
  let onLine = () => {};
  const logged = async (pattern: RegExp): Promise<string> => {
    for (;;) {
      const found = lines.find((line) => pattern.test(line));
      if (found !== undefined) return found;
      if (child.exitCode !== null) throw new Error(`nats-server ended:\n${lines.join('\n')}`);
      await new Promise<void>((resolve) => {
        onLine = resolve;
      });
    }
  };
  const server: NatsServer = {
    get port() {
      return port;
    },
    logged,
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
    async start() {
      lines = [];
      child = spawn('nats-server', ['-a', '127.0.0.1', '-p', String(port), ...options], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      const { stderr } = child;
      if (stderr === null) throw new Error('its log is not readable');
      createInterface({ input: stderr }).on('line', (line) => {
        lines.push(line);
        onLine();
      });
      child.once('exit', () => onLine());
      await logged(/Server is ready/);
      port = Number(/client connections on .*:(\d+)$/.exec(await logged(/client connections on/))?.[1]);
    },
  };
  await server.start();
  return server;
}
