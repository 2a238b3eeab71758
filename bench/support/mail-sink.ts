import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { freePort } from '../../server/src/lib/free-port.ts';
import { waitMs } from '../../server/src/lib/wait.ts';
import { startTask } from './task.ts';

/** A mail server in a process of its own that drops its mail. */
export interface MailSink {
  port: number;
  /** `smtp-sink` of Postfix, or a Node server, which is slower than Belfry. */
  name: string;
  stop(): void;
}

// Debian and others keep it out of a user's path.
const PLACES = ['/usr/sbin/smtp-sink', '/usr/local/sbin/smtp-sink', '/usr/libexec/postfix/smtp-sink'];
const BACKLOG = '200';

/** Starts Postfix's smtp-sink if it is installed, otherwise npm's smtp-server. */
export async function startMailSink(): Promise<MailSink> {
  const program = PLACES.find((place) => existsSync(place));
  if (program === undefined) {
    const task = startTask('mail-sink.ts');
    return {
      port: await task.request<number>({}),
      name: "npm's smtp-server (install postfix for smtp-sink)",
      stop: task.stop,
    };
  }
  const port = await freePort();
  // language-ignore: the name of an account
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn(program, [...user, `127.0.0.1:${port}`, BACKLOG], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  process.once('exit', () => child.kill());
  await listening(child, port);
  return { port, name: 'smtp-sink', stop: () => child.kill() };
}

async function listening(child: ChildProcess, port: number): Promise<void> {
  while (child.exitCode === null) {
    const socket = connect(port, '127.0.0.1');
    const open = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.destroy();
    if (open) return;
    await waitMs(10);
  }
  throw new Error(`smtp-sink ended with ${child.exitCode}`);
}
