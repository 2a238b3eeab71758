/**
 * Events of another program, which start workflows; signed as Standard Webhooks has it.
 * https://www.standardwebhooks.com
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Type } from 'typebox';
import { type Integration, type Receiver, secret } from '../provider.ts';
import { isRecent, objectOf, textOf } from '../shared/inbound.ts';

const PREFIX = 'whsec_';

const config = Type.Object(
  {
    source: Type.String({ description: 'Where the events come from: a name of your own for it' }),
    webhook_signing_secret: Type.Optional(
      secret({
        maxLength: 100,
        // The specification asks for 24 bytes or more.
        pattern: `^(${PREFIX})?[A-Za-z0-9+/]{32,}={0,2}$`,
        description:
          'What the program signs its events with, by the rules of Standard Webhooks: 24 bytes or more in base64, with or without whsec_ before them. ' +
          'Without it no events are taken',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [{ source: 'shop', webhook_signing_secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }],
  },
);

// The time is signed; an older one is a repeated request.
const TOLERANCE_MS = 5 * 60_000;
// While a secret is being replaced there is a signature for each.
const MAX_SIGNATURES = 8;

const receives: Receiver<{ webhook_signing_secret?: string }> = {
  isSigned({ headers, body, nowMs }, { webhook_signing_secret: key }) {
    if (key === undefined) return false;
    const time = textOf(headers['webhook-timestamp']);
    const wanted = createHmac('sha256', Buffer.from(key.replace(PREFIX, ''), 'base64'))
      .update(`${textOf(headers['webhook-id'])}.${time}.`)
      .update(body)
      .digest();
    const fits = textOf(headers['webhook-signature'])
      .split(' ', MAX_SIGNATURES)
      .some((signature) => isThat(signature, wanted));
    return fits && isRecent(time, nowMs, TOLERANCE_MS);
  },
  read({ headers, body }) {
    const payload = objectOf(body.toString());
    const deliveryId = textOf(headers['webhook-id']);
    if (payload === undefined || typeof payload.type !== 'string') return undefined;
    return { event: payload.type, deliveryId, payload };
  },
};

function isThat(signature: string, wanted: Buffer): boolean {
  const [version, value = ''] = signature.split(',', 2);
  const given = Buffer.from(value, 'base64');
  return version === 'v1' && given.length === wanted.length && timingSafeEqual(given, wanted);
}

export const eventsource: Integration<typeof config> = {
  name: 'eventsource',
  title: 'Events of another program',
  docs: 'https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md',
  config,
  receives,
};
