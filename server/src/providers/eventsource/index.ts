/**
 * Receives events of another program, which start workflows. They are signed according to Standard Webhooks.
 * https://www.standardwebhooks.com
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Type } from 'typebox';
import { type Integration, type Receiver, secret } from '../provider.ts';
import { headerText, isRecent, objectOf } from '../shared/inbound.ts';

const PREFIX = 'whsec_';

const config = Type.Object(
  {
    source: Type.String({ description: 'Your name for the source of the events' }),
    webhook_signing_secret: Type.Optional(
      secret({
        maxLength: 100,
        // The specification requires at least 24 bytes.
        pattern: `^(${PREFIX})?[A-Za-z0-9+/]{32,}={0,2}$`,
        description:
          'The key that signs the events according to Standard Webhooks: 24 bytes or more in base64, ' +
          'with or without the prefix whsec_. Without it no events are accepted',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [{ source: 'shop', webhook_signing_secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }],
  },
);

// The timestamp is signed; an older one is a replayed request.
const TOLERANCE_MS = 5 * 60_000;
// During key rotation a request carries one signature per key.
const MAX_SIGNATURES = 8;

const receives: Receiver<{ webhook_signing_secret?: string }> = {
  isSigned({ headers, body, nowMs }, { webhook_signing_secret: key }) {
    if (key === undefined) return false;
    const time = headerText(headers['webhook-timestamp']);
    const wanted = createHmac('sha256', Buffer.from(key.replace(PREFIX, ''), 'base64'))
      .update(`${headerText(headers['webhook-id'])}.${time}.`)
      .update(body)
      .digest();
    const fits = headerText(headers['webhook-signature'])
      .split(' ', MAX_SIGNATURES)
      .some((signature) => isThat(signature, wanted));
    return fits && isRecent(time, nowMs, TOLERANCE_MS);
  },
  read({ headers, body }) {
    const payload = objectOf(body.toString());
    const deliveryId = headerText(headers['webhook-id']);
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
