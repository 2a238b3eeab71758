/** Receives webhooks of Stripe, which start workflows. https://docs.stripe.com/webhooks */
import { type Static, Type } from 'typebox';
import { type Integration, type Receiver, secret } from '../provider.ts';
import { hasSignature, headerText, isRecent, objectOf } from '../shared/inbound.ts';

const config = Type.Object(
  {
    webhook_signing_secret: secret({
      minLength: 1,
      maxLength: 100,
      description: "The endpoint's signing secret. It verifies Stripe's requests",
    }),
    id: Type.Optional(
      Type.String({
        description: 'Your name for this configuration, stored and returned unchanged',
      }),
    ),
  },
  { additionalProperties: false, examples: [{ webhook_signing_secret: 'whsec_xxxxxxxx' }] },
);

// The timestamp is signed; an older one is a replayed request.
const TOLERANCE_MS = 5 * 60_000;

const receives: Receiver<Static<typeof config>> = {
  isSigned({ headers, body, nowMs }, { webhook_signing_secret: key }) {
    const parts = headerText(headers['stripe-signature'])
      .split(',')
      .map((part) => part.split('=', 2));
    const time = parts.find(([name]) => name?.trim() === 't')?.[1] ?? '';
    const signed = Buffer.concat([Buffer.from(`${time}.`), body]);
    // During key rotation a request carries one signature per secret.
    const signatures = parts.flatMap(([name, value = '']) => (name?.trim() === 'v1' ? [value] : []));
    const fits = signatures.slice(0, 8).some((signature) => hasSignature(signed, key, signature));
    return fits && isRecent(time, nowMs, TOLERANCE_MS);
  },
  read({ body }) {
    const payload = objectOf(body.toString());
    const { id, type } = payload ?? {};
    if (payload === undefined || typeof id !== 'string' || typeof type !== 'string') return undefined;
    return { event: type, deliveryId: id, payload };
  },
};

export const stripe: Integration<typeof config> = {
  name: 'stripe',
  title: 'Webhooks of Stripe',
  docs: 'https://docs.stripe.com/webhooks',
  config,
  receives,
};
