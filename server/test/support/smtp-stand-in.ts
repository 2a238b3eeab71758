/** A mail server for tests: npm's `smtp-server` on loopback. It keeps the e-mails and fails on demand. */
import { readFileSync } from 'node:fs';
import type { AddressInfo, Socket } from 'node:net';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer, type SMTPServerSession } from 'smtp-server';
import { PATIENCE_MS } from './patience.ts';

export type ReceivedEmail = {
  from: string;
  to: string;
  raw: Buffer;
  /** What the client called itself in EHLO. */
  client: string;
  /** The message, parsed with npm's `postal-mime`. */
  parsed(): Promise<Email>;
};

/** A failure at a stage, for some e-mails, a number of times or until `heal`. */
export type Failure = {
  /** `body`: when the message begins to arrive. `end`: after its final dot. */
  at: 'connect' | 'auth' | 'mail' | 'rcpt' | 'body' | 'end';
  /** Reply with this (`550 5.1.1 No such user`), break the connection, or never reply. */
  how: { reply: string } | 'cut' | 'hang';
  when?: (email: { from?: string; to?: string }) => boolean;
  times?: number;
};

export type SmtpStandIn = {
  host: string;
  port: number;
  /** The accepted e-mails, in order, with those whose connection was cut at `end`. */
  received: ReceivedEmail[];
  /** The connections so far, those that are open, and those that hang. */
  connections(): { opened: number; open: number; hanging: number };
  /** Resolves when so many e-mails have been accepted. Rejects with their number after `PATIENCE_MS`. */
  waitFor(count: number): Promise<ReceivedEmail[]>;
  fail(failure: Failure): void;
  heal(): void;
  /** Breaks the connections that hang. */
  cutHanging(): void;
  /** Breaks every connection and stops listening. */
  stop(): Promise<void>;
  /** Listens again on the same port. */
  restart(): Promise<void>;
};

/** Starts a mail server on loopback. With `account`, it requires a login. */
export async function startSmtpStandIn({
  port = 0,
  security = 'none',
  account,
  maxSize,
}: {
  port?: number;
  security?: 'none' | 'ssl' | 'starttls';
  account?: { username: string; password: string };
  maxSize?: number;
} = {}): Promise<SmtpStandIn> {
  const received: ReceivedEmail[] = [];
  const failures: Failure[] = [];
  const waiting = new Set<() => void>();
  const sockets = new Map<number, Socket>(); // by the client's port: smtp-server does not pass the socket
  const hanging = new Set<Socket>();
  let opened = 0;
  let running = await start(port);
  const boundPort = running.port;

  async function start(onPort: number): Promise<{ port: number; stop: () => Promise<void> }> {
    /** Applies the first failure that matches. Returns whether there is one. */
    function failed(
      at: Failure['at'],
      session: SMTPServerSession,
      email: { from?: string; to?: string },
      reply: (error: Error) => void,
    ): boolean {
      const failure = failures.find((one) => one.at === at && (one.when?.(email) ?? true));
      if (failure === undefined) return false;
      if (failure.times !== undefined && --failure.times <= 0) failures.splice(failures.indexOf(failure), 1);
      const socket = sockets.get(session.remotePort);
      if (failure.how === 'cut') socket?.destroy();
      else if (failure.how !== 'hang') reply(replyError(failure.how.reply));
      else if (socket !== undefined) hanging.add(socket);
      return true;
    }

    const server = new SMTPServer({
      secure: security === 'ssl',
      disabledCommands: [
        ...(security === 'starttls' ? [] : (['STARTTLS'] as const)),
        ...(account === undefined ? (['AUTH'] as const) : []),
      ],
      allowInsecureAuth: true,
      authOptional: account === undefined,
      key: readFileSync(new URL('tls/server.key', import.meta.url)),
      cert: readFileSync(new URL('tls/server.crt', import.meta.url)),
      logger: false,
      disableReverseLookup: true,
      closeTimeout: 1,
      ...(maxSize === undefined ? {} : { size: maxSize }),
      onConnect: (session, done) => {
        if (!failed('connect', session, {}, done)) done();
      },
      onAuth: ({ username, password }, session, done) => {
        if (failed('auth', session, {}, done)) return;
        if (username === account?.username && password === account?.password) done(null, { user: username });
        else done(replyError('535 5.7.8 Authentication credentials invalid'));
      },
      onMailFrom: ({ address: from }, session, done) => {
        if (!failed('mail', session, { from }, done)) done();
      },
      onRcptTo: ({ address: to }, session, done) => {
        if (!failed('rcpt', session, { to }, done)) done();
      },
      onData: (stream, session, done) => {
        const { mailFrom, rcptTo } = session.envelope;
        const from = mailFrom === false ? '' : mailFrom.address;
        const to = rcptTo[0]?.address ?? '';
        const chunks: Buffer[] = [];
        if (failed('body', session, { from, to }, done)) {
          stream.resume();
          return;
        }
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => {
          const raw = Buffer.concat(chunks);
          let refused = false;
          const hasFailed = failed('end', session, { from, to }, (error) => {
            refused = true;
            done(error);
          });
          if (!refused) {
            received.push({
              from,
              to,
              raw,
              client: session.hostNameAppearsAs,
              parsed: () => PostalMime.parse(raw),
            });
            for (const wake of waiting) wake();
          }
          if (!hasFailed) done(null, `2.0.0 Ok: queued as ${received.length}`);
        });
      },
    });
    server.on('error', () => {}); // some tests break the connection of the client
    server.server.on('connection', (socket: Socket) => {
      socket.setNoDelay(true); // else every message waits 40 ms for an acknowledgement
      opened++;
      const remotePort = socket.remotePort ?? 0;
      sockets.set(remotePort, socket);
      socket.once('close', () => {
        sockets.delete(remotePort);
        hanging.delete(socket);
      });
    });
    await new Promise<void>((resolve, reject) => {
      server.server.once('error', reject);
      server.listen(onPort, '127.0.0.1', resolve);
    });
    return {
      port: (server.server.address() as AddressInfo).port,
      stop: () =>
        new Promise((resolve) => {
          server.close(resolve);
          for (const socket of sockets.values()) socket.destroy();
        }),
    };
  }

  function waitFor(count: number): Promise<ReceivedEmail[]> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        clearTimeout(timer);
        waiting.delete(look);
        settle();
      };
      const look = (): void => {
        if (received.length >= count) finish(() => resolve(received));
      };
      const timer = setTimeout(
        () =>
          finish(() =>
            reject(new Error(`${received.length} of ${count} e-mails arrived in ${PATIENCE_MS} ms`)),
          ),
        PATIENCE_MS,
      );
      waiting.add(look);
      look();
    });
  }

  return {
    host: '127.0.0.1',
    port: boundPort,
    received,
    connections: () => ({ opened, open: sockets.size, hanging: hanging.size }),
    waitFor,
    fail: (failure) => void failures.push({ ...failure }),
    heal: () => void failures.splice(0),
    cutHanging: () => {
      for (const socket of hanging) socket.destroy();
    },
    stop: () => running.stop(),
    restart: async () => {
      running = await start(boundPort);
    },
  };
}

function replyError(reply: string): Error {
  return Object.assign(new Error(reply.slice(4)), { responseCode: Number(reply.slice(0, 3)) });
}
