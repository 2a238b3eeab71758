/**
 * Runs SMTP through the table of faults. The table is in terms of HTTP; here a mail server causes each
 * fault.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { emailMessage } from '../../../test/support/email-message.ts';
import { type Expected, FAULTS, type FaultName } from '../../../test/support/fault-table.ts';
import { startNoVendor } from '../../../test/support/scripted-vendor.ts';
import { type Stage, type Step, startSmtpScript } from '../../../test/support/smtp-script.ts';
import { distrustTestAuthority, trustTestAuthority } from '../../../test/support/test-authority.ts';
import { systemClock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { createTransport, type Timeouts } from '../shared/transport.ts';
import { smtp } from './index.ts';

/** The fault of the server, or a replacement of it; undefined if SMTP has no such fault. */
type Act = Partial<Record<Stage, Step>> | Parameters<typeof startNoVendor>[0] | undefined;

const ACTS: Record<FaultName, Act> = {
  'connection refused': 'closed',
  'timeout before the write': { GREETING: 'hang' },
  'bad TLS': 'wrong certificate',
  'timeout after the write': { END: 'hang' },
  'slow body': { END: 'trickle' },
  reset: { END: 'reset' },
  'half-closed': { END: 'end' },
  'half-closed within the response': { END: 'half' },
  'another protocol': 'SSH',
  '429': { RCPT: '450 4.7.1 too many messages' },
  '429 with Retry-After in seconds': undefined,
  '429 with Retry-After as a date': undefined,
  '429 with Retry-After of a day': undefined,
  '429 with an invalid Retry-After': { RCPT: '450 4.7.1 try again in 7 seconds' },
  '500': { END: '451 4.3.0 local error' },
  '503': { END: '421 4.3.2 shutting down' },
  '503 with Retry-After in seconds': undefined,
  '502': undefined, // a relay responds itself
  '504': undefined,
  'a redirect': { RCPT: '551 5.1.6 not here, try <ann@example.net>' },
  'garbage body': { END: '\u0000\ufffd{"' },
  'a page as body': { END: '<!doctype html><title>Welcome</title>' },
  'wrong content type': undefined,
};

const EXCEPT: Partial<Record<FaultName, Expected>> = {
  // It is the project's own server, so the project has to repair its certificate.
  'bad TLS': { kind: 'rejected', scope: 'config' },
  // The address is suppressed, and the redirect is not followed.
  'a redirect': { kind: 'rejected', scope: 'address' },
};

const PATIENT: Timeouts = { connectMs: 15_000, replyMs: 15_000, idleMs: 15_000 };
const LIMITS: Partial<Record<FaultName, Partial<Timeouts>>> = {
  'timeout before the write': { connectMs: 200 },
  'timeout after the write': { replyMs: 200 },
  'slow body': { connectMs: 400, replyMs: 100 }, // the deadline is twice connectMs plus five times replyMs
};

beforeAll(trustTestAuthority);
afterAll(distrustTestAuthority);

describe('smtp has the outcomes of the table of faults, and recovers:', { concurrent: true }, () => {
  const rows = Object.entries(ACTS).filter(([, act]) => act !== undefined) as [FaultName, Act][];
  test.each(rows)('%s', async (fault, act = {}) => {
    const expected = EXCEPT[fault] ?? FAULTS[fault];
    const server = typeof act === 'string' ? await startNoVendor(act) : await startSmtpScript(act);
    const port = 'port' in server ? server.port : Number(new URL(server.address).port);
    const egress = createEgressGuard({ allow: '127.0.0.0/8' });
    const transport = createTransport({ egress });
    const sender = smtp.connect(
      {
        host: '127.0.0.1',
        port,
        username: '',
        password: '',
        from: { email: 'noreply@example.com' },
        ...(act === 'wrong certificate' ? { security: 'ssl' as const } : {}),
      },
      { egress, clock: systemClock, transport, timeouts: { ...PATIENT, ...LIMITS[fault] } },
    );
    let outcome = await sender.send(emailMessage());
    // On a busy machine, the short timeout can end an earlier stage.
    if (typeof act === 'object' && 'END' in act && 'reached' in server)
      while (!server.reached('END')) outcome = await sender.send(emailMessage());
    expect({ retryAfterMs: undefined, ...outcome }).toMatchObject(expected);
    if ('heal' in server) {
      server.heal();
      let next = await sender.send(emailMessage());
      // It can also end the next send.
      while (fault in LIMITS && next.kind === outcome.kind) next = await sender.send(emailMessage());
      expect(next).toEqual({ kind: 'sent', providerId: '4Script' });
    }
    await sender.close({ graceMs: 0 });
    await transport.close();
    await server.stop();
  });
});
