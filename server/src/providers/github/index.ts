/**
 * Receives webhooks of GitHub, which start workflows.
 * https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
import { type Static, Type } from 'typebox';
import { type Integration, type ReceivedRequest, type Receiver, secret } from '../provider.ts';
import { hasSignature, headerText, objectOf } from '../shared/inbound.ts';

const config = Type.Object(
  {
    webhook_signing_secret: secret({
      minLength: 1,
      maxLength: 100,
      description: "The secret of the webhook in GitHub. It verifies GitHub's requests",
    }),
  },
  { additionalProperties: false, examples: [{ webhook_signing_secret: 'secret' }] },
);

const receives: Receiver<Static<typeof config>> = {
  isSigned({ headers, body }, { webhook_signing_secret: key }) {
    return hasSignature(body, key, signatureOf(headers) ?? '');
  },
  read({ headers, body }) {
    const isForm = /^application\/x-www-form-urlencoded\b/i.test(headerText(headers['content-type']));
    const text = body.toString();
    const payload = objectOf(isForm ? (new URLSearchParams(text).get('payload') ?? '') : text);
    const [event, deliveryId] = [
      headerText(headers['x-github-event']),
      headerText(headers['x-github-delivery']),
    ];
    if (payload === undefined || event === '' || deliveryId === '') return undefined;
    const signature = signatureOf(headers);
    return { event, deliveryId, payload, ...(signature === undefined ? {} : { signature }) };
  },
  maxBytes: 5 * 1024 * 1024, // GitHub sends up to 25 MB, but a push of a thousand commits has 2
  note: 'GitHub does not sign delivery ids, so replays are recognized by their signature.',
};

/** Returns the signature in lower case, its only canonical form. */
function signatureOf(headers: ReceivedRequest['headers']): string | undefined {
  return /^sha256=([0-9a-f]{64})$/i.exec(headerText(headers['x-hub-signature-256']))?.[1]?.toLowerCase();
}

export const github: Integration<typeof config> = {
  name: 'github',
  title: 'Webhooks of GitHub',
  docs: 'https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries',
  config,
  receives,
};
