import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { Senders } from '../src/domain/deliveries/senders.ts';
import type { OpenedIntegration } from '../src/domain/integrations/of-project.ts';
import { systemClock } from '../src/lib/clock.ts';
import { createEgressGuard } from '../src/lib/egress.ts';
import { newId } from '../src/lib/ids.ts';
import { createTransport } from '../src/providers/transport.ts';
import { emailMessage } from './support/email-message.ts';
import { type SmtpStandIn, startSmtpStandIn } from './support/smtp-stand-in.ts';

let mail: SmtpStandIn;
let senders: Senders;

beforeAll(async () => {
  mail = await startSmtpStandIn({ account: { username: 'mailer', password: 'open sesame' } });
});
afterAll(() => mail.stop());
beforeEach(() => {
  const egress = createEgressGuard({ allow: '127.0.0.1/32' });
  senders = new Senders({ egress, clock: systemClock, transport: createTransport({ egress }) });
  return () => senders.close({ graceMs: 0 });
});

const integration = (changes: Partial<OpenedIntegration> = {}, config: object = {}): OpenedIntegration => ({
  projectId: '0197a3c4-0000-7f01-8a2b-3c4d5e6f7081',
  id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
  provider: 'smtp',
  channel: 'email',
  version: '2026-01-01T00:00:00.000Z',
  config: {
    host: '127.0.0.1',
    port: mail.port,
    username: 'mailer',
    password: 'open sesame',
    from: { email: 'news@example.com' },
    security: 'none',
    ...config,
  },
  ...changes,
});

const message = (html: string) => emailMessage({ deliveryId: newId(), html, text: '' });

/**
 * Sends so many at once; answers how many were made, that is, in memory, at the same time. One more than there were, because a place
 * is taken again just before who had it hears of the end.
 */
async function mostAtOnce(count: number, html: string): Promise<number> {
  let made = 0;
  let ended = 0;
  let most = 0;
  await Promise.all(
    Array.from({ length: count }, async () => {
      const outcome = await senders.sendEmail(integration(), {
        ...message(html),
        // Read when the message is made.
        get headers() {
          made += 1;
          most = Math.max(most, made - ended);
          return {};
        },
      });
      ended += 1;
      expect(outcome.kind).toBe('sent');
    }),
  );
  expect(made).toBe(count);
  return most;
}

test('a batch of very long messages is not made all at once', async () => {
  expect(await mostAtOnce(8, 'a'.repeat(10 * 1024 * 1024))).toBeLessThanOrEqual(4 + 1);
});

test('no more messages are made than its connections can take', async () => {
  const most = await mostAtOnce(100, 'short');
  expect(most).toBeLessThanOrEqual(16 + 1);
  expect(most).toBeGreaterThan(1);
});

test('what was begun with an older config does not bring it back', async () => {
  const older = integration({}, { password: 'no longer this' });
  const newer = integration({ version: '2026-01-01T00:00:00.001Z' });
  expect(await senders.sendEmail(older, message('a'))).toMatchObject({ kind: 'rejected', scope: 'config' });
  expect(await senders.sendEmail(newer, message('a'))).toMatchObject({ kind: 'sent' });
  expect(await senders.sendEmail(older, message('a'))).toMatchObject({ kind: 'sent' });
});
