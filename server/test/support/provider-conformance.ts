/**
 * What every provider that speaks HTTP has to do whatever its vendor does: answer with an outcome of the
 * class table, never reject its promise, always end, repeat no secret, and work again when the vendor does.
 * Over plain connections as inside TLS.
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
import { type Exchange, startNoVendor, startScriptedVendor } from './scripted-vendor.ts';
import { distrustTestAuthority, trustTestAuthority } from './test-authority.ts';
import { startVendor, type VendorAnswer, type VendorRequest } from './vendor-stand-in.ts';

export interface Subject<Message> {
  /**
   * A sender to a vendor at this address; `deps` with the vendors that are moved there. `aside` is where
   * `aside` answers.
   */
  open(
    address: string,
    deps: (moved?: readonly OriginSetting[]) => SenderDeps,
    aside: string,
  ): Sender<Message>;
  message(address: string): Message;
  /** How the vendor answers messages that it takes. */
  accepts: VendorAnswer | ((request: VendorRequest) => VendorAnswer);
  /** What the outcome of that is. */
  sent: SendOutcome;
  /** Answers what is asked of somebody else before a message can be sent, such as for an access token. */
  aside?(request: VendorRequest): VendorAnswer;
  /** The vendor speaks HTTP/2. */
  http2?: boolean;
  /** Whatever the provider is given that nobody may read; or what of a request it is. */
  secrets: readonly string[] | ((request: VendorRequest) => readonly string[]);
  /** Where the vendor means something else, or the provider knows better. */
  except?: Partial<Record<FaultName, Expected>>;
}

/**
 * How a fault comes about: what the vendor does when it has read the request, or what is at its address
 * instead.
 */
type Act =
  | ((exchange: Exchange, accepts: (request: VendorRequest) => VendorAnswer) => void)
  | Parameters<typeof startNoVendor>[0];

const AT = 'Wed, 01 Jul 2026 12:00:00 GMT';
const status = (code: number, headers: Record<string, string> = {}): Act => {
  return ({ reply }) => reply({ status: code, headers, body: '{}' });
};
const succeed = (change: (answer: VendorAnswer) => VendorAnswer): Act => {
  return ({ request, reply }, accepts) => reply(change(accepts(request)));
};

const ACTS: Record<FaultName, Act> = {
  'connection refused': 'nobody',
  'timeout before the write': 'silent',
  'bad TLS': 'stranger',
  'timeout after the write': () => {},
  'slow body': ({ trickle }) => trickle(),
  reset: ({ socket }) => socket.resetAndDestroy(),
  'half-closed': ({ socket }) => socket.end(),
  'half-closed within the answer': ({ begin, socket }) => void begin().then(() => socket.end()),
  'another protocol': 'mumble',
  '429': status(429),
  '429 with Retry-After in seconds': status(429, { 'retry-after': '7' }),
  '429 with Retry-After as a date': status(429, {
    date: AT,
    'retry-after': 'Wed, 01 Jul 2026 12:01:30 GMT',
  }),
  '429 with Retry-After of a day': status(429, { 'retry-after': '86400' }),
  '429 with Retry-After that is none': status(429, { 'retry-after': 'soon' }),
  '500': status(500),
  '503': status(503),
  '503 with Retry-After in seconds': status(503, { 'retry-after': '7' }),
  '502': status(502),
  '504': status(504),
  'a redirect': ({ request, reply }) => reply({ status: 307, headers: { location: request.path } }),
  'garbage body': succeed((answer) => ({ status: answer.status, body: '\u0000�{"' })),
  'a page as body': succeed((answer) => ({
    status: answer.status,
    body: '<!doctype html><title>Welcome</title>',
  })),
  'wrong content type': succeed((answer) => ({
    ...answer,
    headers: { ...answer.headers, 'content-type': 'image/png' },
  })),
};

const PATIENT: Timeouts = { connectMs: 15_000, replyMs: 15_000, idleMs: 15_000 };
/** Short only for the wait that is to run out, so that a busy machine does not end another one. */
const LIMITS: Partial<Record<FaultName, Partial<Timeouts>>> = {
  'timeout before the write': { connectMs: 200 },
  'timeout after the write': { replyMs: 200 },
  'slow body': { connectMs: 600, replyMs: 200 }, // the whole has connectMs and twice replyMs
};

const WAYS: [string, boolean][] = [
  ['plainly', false],
  ['inside TLS', true],
];

/**
 * Declares the tests of one provider, by the name that it is stored under; `how` where it has more than one
 * way to send.
 */
export function conforms<Message>(provider: string, subject: Subject<Message>, how = ''): void {
  const name = how === '' ? provider : `${provider}, ${how}`;
  beforeAll(trustTestAuthority);
  afterAll(distrustTestAuthority);
  describe(`${name}, whatever its vendor does,`, { concurrent: true }, () => {
    describe.each(WAYS)('ends as the table of faults says, and works again afterwards: %s,', (_way, tls) => {
      test.each(FAULT_NAMES)('%s', async (fault) => {
        const act = ACTS[fault];
        const expected = subject.except?.[fault] ?? FAULTS[fault];
        await within(subject, { tls, timeouts: LIMITS[fault] }, async ({ vendor, open, accepts }) => {
          if (typeof act === 'string') {
            const place = await startNoVendor(act);
            const sender = open(place.address);
            expect(await sender.send(subject.message(place.address))).toMatchObject(expected);
            await sender.close();
            return place.stop();
          }
          const sender = open();
          const message = subject.message(vendor.address);
          vendor.do((exchange) => act(exchange, accepts));
          const outcome = await sender.send(message);
          expect({ retryAfterMs: undefined, ...outcome }).toMatchObject(expected);
          expect(vendor.asked()).toBe(1);
          vendor.do(({ request, reply }) => reply(accepts(request)));
          expect(await sender.send(message)).toEqual(subject.sent);
          await sender.close();
        });
      });
    });

    test.each(WAYS)(
      '%s, repeats nothing secret, though the vendor repeats all that it was sent',
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
          const said = JSON.stringify(outcome);
          expect(secrets).not.toEqual([]);
          for (const secret of secrets) {
            expect(said).not.toContain(secret);
            expect(said).not.toContain(Buffer.from(secret).toString('base64').replace(/=+$/, ''));
          }
          await sender.close();
        });
      },
    );

    test.each(WAYS)('%s, sends more at once than it asks for, too', async (_way, tls) => {
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

    test.each(WAYS)(
      '%s, closes when what is under way is done, but does not wait for ever',
      async (_way, tls) => {
        await within(subject, { tls }, async ({ vendor, open, accepts }) => {
          const sender = open();
          const message = subject.message(vendor.address);
          const asked = Promise.withResolvers<Exchange>();
          vendor.do(asked.resolve);
          const first = sender.send(message);
          const { request, reply } = await asked.promise;
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
      },
    );
  });
}

/**
 * A vendor, whoever is asked beside it, and senders to them, for one test: those of a provider run at the
 * same time.
 */
async function within<Message>(
  subject: Subject<Message>,
  { tls, timeouts = {} }: { tls: boolean; timeouts?: Partial<Timeouts> | undefined },
  run: (scene: {
    vendor: Awaited<ReturnType<typeof startScriptedVendor>>;
    open(address?: string): Sender<Message>;
    accepts(request: VendorRequest): VendorAnswer;
  }) => Promise<void>,
): Promise<void> {
  const vendor = await startScriptedVendor({ http2: subject.http2 === true, tls });
  const aside = await startVendor();
  aside.answer((request) => subject.aside?.(request) ?? { status: 404 });
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
