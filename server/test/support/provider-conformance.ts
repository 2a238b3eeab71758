/**
 * What every provider that speaks HTTP has to do whatever its vendor does: answer with an outcome of the class table, never reject its
 * promise, always end, repeat no secret, and work again when the vendor does.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, type Server } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import type { Outcome, Sender, SenderDeps } from '../../src/providers/provider.ts';
import {
  createTransport,
  type Timeouts,
  type Transport,
  type Vendor,
} from '../../src/providers/transport.ts';
import type { VendorAnswer, VendorRequest } from './vendor-stand-in.ts';

export interface Subject<Message> {
  /** A sender to a vendor at this address; `deps` with the vendors that are moved there. */
  open(address: string, deps: (moved?: readonly Vendor[]) => SenderDeps): Sender<Message>;
  message(address: string): Message;
  /** How the vendor answers a message that it takes. */
  accepts: VendorAnswer;
  /** What the outcome of that is. */
  sent: Outcome;
  /** The vendor's answer to requests that come before the message, such as one for an access token. */
  aside?(request: VendorRequest): VendorAnswer | undefined;
  /** The vendor speaks HTTP/2. */
  http2?: boolean;
  /** Whatever the provider is given that nobody may read. */
  secrets: readonly string[];
  /** Where the vendor means something else, or the provider knows better. */
  except?: Partial<Record<FaultName, Expected>>;
}

type Expected = Partial<Record<keyof Extract<Outcome, { kind: 'retry' }> | 'scope', unknown>>;

interface Exchange {
  request: VendorRequest;
  socket: Socket;
  reply(answer: VendorAnswer): void;
  /** Begins an answer that goes on for ever, byte by byte. */
  trickle(): void;
}

interface Fault {
  /** What the vendor does, when it has read the request; for others, what is at its address. */
  act: ((exchange: Exchange, subject: Subject<never>) => void) | 'refuse' | 'silent' | 'stranger' | 'mumble';
  expected: Expected;
  /** Whether the test has to wait for a limit to run out. */
  slow?: boolean;
}

const LATER = { kind: 'retry', ambiguous: false } as const;
const DOUBT = { kind: 'retry', ambiguous: true } as const;
const status = (code: number, headers: Record<string, string> = {}): Fault['act'] => {
  return ({ reply }) => reply({ status: code, headers, body: '{}' });
};
const AT = 'Wed, 01 Jul 2026 12:00:00 GMT';

const FAULTS = {
  'the connection is refused': { act: 'refuse', expected: LATER },
  'TLS is never answered': { act: 'silent', expected: LATER, slow: true },
  'the certificate is a stranger’s': { act: 'stranger', expected: LATER },
  'another protocol is spoken': { act: 'mumble', expected: { kind: 'retry' } },
  'the request is never answered': { act: () => {}, expected: DOUBT, slow: true },
  'the answer never ends': { act: ({ trickle }) => trickle(), expected: DOUBT, slow: true },
  'the connection is reset': { act: ({ socket }) => socket.resetAndDestroy(), expected: DOUBT },
  'the connection is half closed': { act: ({ socket }) => socket.end(), expected: DOUBT },
  '429': { act: status(429), expected: { ...LATER, retryAfterMs: undefined } },
  '429 with Retry-After': {
    act: status(429, { 'retry-after': '7' }),
    expected: { ...LATER, retryAfterMs: 7_000 },
  },
  '429 with a date': {
    act: status(429, { date: AT, 'retry-after': 'Wed, 01 Jul 2026 12:01:30 GMT' }),
    expected: { ...LATER, retryAfterMs: 90_000 },
  },
  '429 until tomorrow': {
    act: status(429, { 'retry-after': '86400' }),
    expected: { ...LATER, retryAfterMs: 3_600_000 },
  },
  '429 until nobody knows when': {
    act: status(429, { 'retry-after': 'soon' }),
    expected: { ...LATER, retryAfterMs: undefined },
  },
  '500': { act: status(500), expected: LATER },
  '503': { act: status(503), expected: LATER },
  '503 with Retry-After': {
    act: status(503, { 'retry-after': '7' }),
    expected: { ...LATER, retryAfterMs: 7_000 },
  },
  '502': { act: status(502), expected: DOUBT },
  '504': { act: status(504), expected: DOUBT },
  'a redirect': {
    act: ({ request, reply }) => reply({ status: 307, headers: { location: request.path } }),
    expected: { kind: 'rejected', scope: 'config' },
  },
  'a success of garbage': {
    act: ({ reply }, { accepts }) => reply({ status: accepts.status, body: '\u0000�{"' }),
    expected: DOUBT,
  },
  'a success as a page': {
    act: ({ reply }, { accepts }) =>
      reply({ status: accepts.status, body: '<!doctype html><title>Welcome</title>' }),
    expected: DOUBT,
  },
  'a success of a wrong content type': {
    act: ({ reply }, { accepts }) =>
      reply({ ...accepts, headers: { ...accepts.headers, 'content-type': 'image/png' } }),
    expected: { kind: 'sent' },
  },
} as const satisfies Record<string, Fault>;
export type FaultName = keyof typeof FAULTS;

const PATIENT: Timeouts = { connectMs: 5_000, replyMs: 5_000, idleMs: 5_000 };
const BRISK: Timeouts = { connectMs: 1_000, replyMs: 300, idleMs: 5_000 };

/** Declares the tests of one provider. */
export function conforms<Message>(name: string, subject: Subject<Message>): void {
  describe(`${name}, whatever its vendor does`, () => {
    let vendor: Awaited<ReturnType<typeof startScripted>>;
    const transports: Transport[] = [];
    beforeAll(async () => {
      vendor = await startScripted(subject.http2 === true, (request) => subject.aside?.(request));
    });
    afterAll(() => vendor.stop());
    afterEach(async () => {
      await Promise.all(transports.splice(0).map((transport) => transport.close()));
    });

    const accept = ({ reply }: Exchange) => reply(subject.accepts);
    function open(address = vendor.address, timeouts = PATIENT): Sender<Message> {
      const egress = createEgressGuard({ allow: '127.0.0.0/8' });
      return subject.open(address, (moved = []) => {
        const origins = Object.fromEntries(moved.map((one) => [one, address]));
        const transport = createTransport({ egress, origins, timeouts });
        transports.push(transport);
        return { egress, clock: systemClock, transport, timeouts };
      });
    }

    test.each(Object.entries(FAULTS) as [FaultName, Fault][])(
      '%s',
      async (fault, { act, expected, slow }) => {
        const timeouts = slow ? BRISK : PATIENT;
        const wanted = subject.except?.[fault] ?? expected;
        if (typeof act === 'string') {
          const place = await startAt(act);
          const sender = open(place.address, timeouts);
          expect(await sender.send(subject.message(place.address))).toMatchObject(wanted);
          await sender.close();
          return place.stop();
        }
        const sender = open(vendor.address, timeouts);
        const message = subject.message(vendor.address);
        vendor.do((exchange) => act(exchange, subject as Subject<never>));
        const outcome = await sender.send(message);
        expect({ retryAfterMs: undefined, ...outcome }).toMatchObject(wanted);
        expect(vendor.asked()).toBe(1);
        vendor.do(accept);
        expect(await sender.send(message)).toEqual(subject.sent);
        await sender.close();
      },
    );

    test('nothing secret is repeated, though the vendor repeats all that it was sent', async () => {
      const sender = open();
      vendor.do(({ request, reply }) =>
        reply({ status: 400, body: { message: JSON.stringify(request.headers) + request.body } }),
      );
      const outcome = await sender.send(subject.message(vendor.address));
      expect(outcome.kind).not.toBe('sent');
      const said = JSON.stringify(outcome);
      for (const secret of subject.secrets) {
        expect(said).not.toContain(secret);
        expect(said).not.toContain(Buffer.from(secret).toString('base64').replace(/=+$/, ''));
      }
      await sender.close();
    });

    test('more at once than it asks for are sent, too', async () => {
      const sender = open();
      vendor.do(accept);
      const sends = Array.from({ length: Math.min(2 * sender.concurrency, 300) }, () =>
        sender.send(subject.message(vendor.address)),
      );
      for (const outcome of await Promise.all(sends)) expect(outcome).toEqual(subject.sent);
      await sender.close();
    });

    test('closing waits for what is under way, but not for ever, and nothing is sent afterwards', async () => {
      const sender = open();
      const message = subject.message(vendor.address);
      const asked = Promise.withResolvers<Exchange>();
      vendor.do(asked.resolve);
      const first = sender.send(message);
      const { reply } = await asked.promise;
      const closing = sender.close();
      expect(await sender.send(message)).toMatchObject(LATER);
      reply(subject.accepts);
      expect(await first).toEqual(subject.sent);
      await closing;

      const impatient = open();
      const began = Promise.withResolvers<void>();
      vendor.do(() => began.resolve());
      const second = impatient.send(message);
      await began.promise;
      await impatient.close({ graceMs: 0 });
      expect(await second).toMatchObject(DOUBT);
    });
  });
}

/** A vendor that does what it is told with each message, when it has read it. */
async function startScripted(http2: boolean, aside: (request: VendorRequest) => VendorAnswer | undefined) {
  let script: (exchange: Exchange) => void = () => {};
  let asked = 0;
  const sockets = new Set<Socket>();
  const timers = new Set<NodeJS.Timeout>();
  const listener = (request: Incoming, response: Outgoing): void => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    response.on('error', () => {});
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const got = { method, path: url, headers, body: Buffer.concat(chunks).toString() };
      const reply = ({ status: code, headers: given = {}, body = '' }: VendorAnswer) => {
        response.writeHead(code, given);
        response.end(typeof body === 'string' ? body : JSON.stringify(body));
      };
      const trickle = () => {
        response.writeHead(200, {});
        timers.add(setInterval(() => response.write(' '), 20));
      };
      const beside = aside(got);
      if (beside !== undefined) return reply(beside);
      asked += 1;
      const [socket] = [...sockets].slice(-1);
      if (socket !== undefined) script({ request: got, socket, reply, trickle });
    });
  };
  const server = http2
    ? createHttp2Server(listener as unknown as Parameters<typeof createHttp2Server>[0])
    : createHttpServer(listener as unknown as Parameters<typeof createHttpServer>[0]);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  const { address, stop } = await listening(server as Server, sockets);
  return {
    address,
    /** How often since the last `do`. */
    asked: () => asked,
    do(given: typeof script) {
      for (const timer of timers) clearInterval(timer);
      script = given;
      asked = 0;
    },
    stop,
  };
}

const file = (name: string) => readFileSync(new URL(`tls/${name}`, import.meta.url));

/** An address where no vendor is. */
async function startAt(what: 'refuse' | 'silent' | 'stranger' | 'mumble') {
  const sockets = new Set<Socket>();
  const server =
    what === 'stranger'
      ? createTlsServer({ cert: file('server.crt'), key: file('server.key') }) // by an authority that nobody trusts
      : createTcpServer((socket) => {
          if (what === 'mumble') socket.end('SSH-2.0-dropbear\r\n');
        });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  server.on('tlsClientError', () => {});
  const { address, stop } = await listening(server, sockets);
  if (what === 'refuse') await stop();
  const isSecure = what === 'silent' || what === 'stranger';
  return {
    address: isSecure ? address.replace('http:', 'https:') : address,
    stop: what === 'refuse' ? async () => {} : stop,
  };
}

async function listening(server: ReturnType<typeof createTcpServer>, sockets: ReadonlySet<Socket>) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

interface Incoming {
  method?: string;
  url?: string;
  headers: VendorRequest['headers'];
  on(event: 'data' | 'end' | 'error', listener: (chunk: Buffer) => void): unknown;
}

interface Outgoing {
  writeHead(status: number, headers: Record<string, string>): unknown;
  write(text: string): unknown;
  end(text: string): unknown;
  on(event: 'error', listener: () => void): unknown;
}
