/**
 * The tests of every provider that uses HTTP, with and without TLS: each fault has the outcome of the table,
 * promises never reject, every send ends, no outcome contains a secret, and sends work after a fault.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import type { Sender, SenderDeps, SendOutcome } from '../../src/providers/provider.ts';
import {
  createTransport,
  type OriginSetting,
  type Timeouts,
  type Transport,
} from '../../src/providers/shared/transport.ts';
import { type Expected, FAULT_NAMES, FAULTS, type FaultName } from './fault-table.ts';
import type { VendorReply } from './http-stand-in.ts';
import { type Exchange, startNoVendor, startScriptedVendor } from './scripted-vendor.ts';
import { distrustTestAuthority, trustTestAuthority } from './test-authority.ts';
import { startVendor, type VendorRequest } from './vendor-stand-in.ts';

export interface Subject<Message> {
  /**
   * Connects a sender to a vendor at this address. `deps` moves the origins of vendors there. `aside` is the
   * address of the second vendor.
   */
  open(
    address: string,
    deps: (moved?: readonly OriginSetting[]) => SenderDeps,
    aside: string,
  ): Sender<Message>;
  message(address: string): Message;
  /** The vendor's reply to a message that it accepts. */
  accepts: VendorReply | ((request: VendorRequest) => VendorReply);
  /** The outcome of that reply. */
  sent: SendOutcome;
  /** The replies of a second vendor, such as one for access tokens. */
  aside?(request: VendorRequest): VendorReply;
  /** The vendor speaks HTTP/2. */
  http2?: boolean;
  /** The secrets of the provider, or of a request. */
  secrets: readonly string[] | ((request: VendorRequest) => readonly string[]);
  /** Faults with another outcome for this vendor. */
  except?: Partial<Record<FaultName, Expected>>;
}

/** Causes a fault: an action of the vendor when it has read the request, or another server at its address. */
type Act =
  | ((exchange: Exchange, accepts: (request: VendorRequest) => VendorReply) => void)
  | Parameters<typeof startNoVendor>[0];

const AT = 'Wed, 01 Jul 2026 12:00:00 GMT';
const status = (code: number, headers: Record<string, string> = {}): Act => {
  return ({ reply }) => reply({ status: code, headers, body: '{}' });
};
const succeed = (change: (reply: VendorReply) => VendorReply): Act => {
  return ({ request, reply }, accepts) => reply(change(accepts(request)));
};

const ACTS: Record<FaultName, Act> = {
  'connection refused': 'closed',
  'timeout before the write': 'silent',
  'bad TLS': 'wrong certificate',
  'timeout after the write': () => {},
  'slow body': ({ trickle }) => trickle(),
  reset: ({ socket }) => socket.resetAndDestroy(),
  'half-closed': ({ socket }) => socket.end(),
  'half-closed within the response': ({ begin, socket }) => void begin().then(() => socket.end()),
  'another protocol': 'SSH',
  '429': status(429),
  '429 with Retry-After in seconds': status(429, { 'retry-after': '7' }),
  '429 with Retry-After as a date': status(429, {
    date: AT,
    'retry-after': 'Wed, 01 Jul 2026 12:01:30 GMT',
  }),
  '429 with Retry-After of a day': status(429, { 'retry-after': '86400' }),
  '429 with an invalid Retry-After': status(429, { 'retry-after': 'soon' }),
  '500': status(500),
  '503': status(503),
  '503 with Retry-After in seconds': status(503, { 'retry-after': '7' }),
  '502': status(502),
  '504': status(504),
  'a redirect': ({ request, reply }) => reply({ status: 307, headers: { location: request.path } }),
  'garbage body': succeed((accepted) => ({ status: accepted.status, body: '\u0000�{"' })),
  'a page as body': succeed((accepted) => ({
    status: accepted.status,
    body: '<!doctype html><title>Welcome</title>',
  })),
  'wrong content type': succeed((accepted) => ({
    ...accepted,
    headers: { ...accepted.headers, 'content-type': 'image/png' },
  })),
};

const PATIENT: Timeouts = { connectMs: 15_000, replyMs: 15_000, idleMs: 15_000 };
/** Only the timeout under test is short, so that no other one ends on a busy machine. */
const LIMITS: Partial<Record<FaultName, Partial<Timeouts>>> = {
  'timeout before the write': { connectMs: 200 },
  'timeout after the write': { replyMs: 200 },
  'slow body': { connectMs: 2_000, replyMs: 200 }, // the whole has connectMs and twice replyMs
};

const WAYS: [string, boolean][] = [
  ['plainly', false],
  ['inside TLS', true],
];

/** Declares the tests of a provider, and of one of its ways to send if it has several (`how`). */
export function conforms<Message>(provider: string, subject: Subject<Message>, how = ''): void {
  const name = how === '' ? provider : `${provider}, ${how}`;
  beforeAll(trustTestAuthority);
  afterAll(distrustTestAuthority);
  describe(`${name}:`, { concurrent: true }, () => {
    describe.each(WAYS)('each fault has its outcome, and the next send works: %s,', (_way, tls) => {
      test.for(FAULT_NAMES)('%s', async (fault, { expect }) => {
        const act = ACTS[fault];
        const expected = subject.except?.[fault] ?? FAULTS[fault];
        await within(subject, { tls, timeouts: LIMITS[fault] }, async ({ vendor, open, accepts }) => {
          if (typeof act === 'string') {
            const server = await startNoVendor(act);
            const sender = open(server.address);
            expect(await sender.send(subject.message(server.address))).toMatchObject(expected);
            await sender.close();
            return server.stop();
          }
          const sender = open();
          const message = subject.message(vendor.address);
          vendor.do((exchange) => act(exchange, accepts));
          const outcome = await sender.send(message);
          expect({ retryAfterMs: undefined, ...outcome }).toMatchObject(expected);
          await expect.poll(() => vendor.requests()).toBe(1);
          vendor.do(({ request, reply }) => reply(accepts(request)));
          let next = await sender.send(message);
          // On a busy machine, the short timeout of the fault can end the next send, too.
          while (fault in LIMITS && next.kind === outcome.kind) next = await sender.send(message);
          expect(next).toEqual(subject.sent);
          await sender.close();
        });
      });
    });

    test.each(WAYS)(
      '%s, no outcome contains a secret, even if the vendor sends all of the request back',
      async (_way, tls) => {
        await within(subject, { tls }, async ({ vendor, open }) => {
          const sender = open();
          let secrets: readonly string[] = [];
          vendor.do(({ request, reply }) => {
            secrets = typeof subject.secrets === 'function' ? subject.secrets(request) : subject.secrets;
            reply({ status: 400, body: { message: JSON.stringify(request.headers) + request.body } });
          });
          const outcome = await sender.send(subject.message(vendor.address));
          expect(outcome.kind).not.toBe('sent');
          const text = JSON.stringify(outcome);
          expect(secrets).not.toEqual([]);
          for (const secret of secrets) {
            expect(text).not.toContain(secret);
            expect(text).not.toContain(Buffer.from(secret).toString('base64').replace(/=+$/, ''));
          }
          await sender.close();
        });
      },
    );

    test.each(WAYS)('%s, sends more at once than its concurrency, too', async (_way, tls) => {
      await within(subject, { tls }, async ({ vendor, open, accepts }) => {
        const sender = open();
        vendor.do(({ request, reply }) => reply(accepts(request)));
        const sends = Array.from({ length: Math.min(2 * sender.concurrency, 300) }, () =>
          sender.send(subject.message(vendor.address)),
        );
        for (const outcome of await Promise.all(sends)) expect(outcome).toEqual(subject.sent);
        await sender.close();
      });
    });

    test.each(WAYS)('%s, closes after the sends in flight, but does not wait for ever', async (_way, tls) => {
      await within(subject, { tls }, async ({ vendor, open, accepts }) => {
        const sender = open();
        const message = subject.message(vendor.address);
        const arrived = Promise.withResolvers<Exchange>();
        vendor.do(arrived.resolve);
        const first = sender.send(message);
        const { request, reply } = await arrived.promise;
        const closing = sender.close();
        expect(await sender.send(message)).toMatchObject({ kind: 'retry', ambiguous: false });
        reply(accepts(request));
        expect(await first).toEqual(subject.sent);
        await closing;

        const impatient = open();
        const began = Promise.withResolvers<void>();
        vendor.do(() => began.resolve());
        const second = impatient.send(message);
        await began.promise;
        await impatient.close({ graceMs: 0 });
        expect(await second).toMatchObject({ kind: 'retry', ambiguous: true });
      });
    });
  });
}

/** Starts the vendors of one test, because the tests of a provider run at the same time. */
async function within<Message>(
  subject: Subject<Message>,
  { tls, timeouts = {} }: { tls: boolean; timeouts?: Partial<Timeouts> | undefined },
  run: (scene: {
    vendor: Awaited<ReturnType<typeof startScriptedVendor>>;
    open(address?: string): Sender<Message>;
    accepts(request: VendorRequest): VendorReply;
  }) => Promise<void>,
): Promise<void> {
  const vendor = await startScriptedVendor({ http2: subject.http2 === true, tls });
  const aside = await startVendor();
  aside.reply((request) => subject.aside?.(request) ?? { status: 404 });
  const egress = createEgressGuard({ allow: '127.0.0.0/8' });
  const limits = { ...PATIENT, ...timeouts };
  const transports: Transport[] = [];
  const { accepts } = subject;
  try {
    await run({
      vendor,
      accepts: typeof accepts === 'function' ? accepts : () => accepts,
      open: (address = vendor.address) =>
        subject.open(
          address,
          (moved = []) => {
            const origins = Object.fromEntries(moved.map((one) => [one, address]));
            const transport = createTransport({ egress, origins, timeouts: limits });
            transports.push(transport);
            return { egress, clock: systemClock, transport, timeouts: limits };
          },
          aside.address,
        ),
    });
  } finally {
    await Promise.all([...transports.map((one) => one.close()), vendor.stop(), aside.stop()]);
  }
}
