/** Webhooks of GitHub, which start workflows. https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries */
import { Type } from 'typebox';
import { type Integration, secret } from './provider.ts';

const config = Type.Object(
  {
    webhook_signing_secret: secret({
      minLength: 1,
      maxLength: 100,
      description:
        "The secret that was given when the webhook was made: GitHub's requests are verified with it",
    }),
  },
  { additionalProperties: false, examples: [{ webhook_signing_secret: 'secret' }] },
);

export const github: Integration<typeof config> = {
  name: 'github',
  docs: 'https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries',
  config,
};
