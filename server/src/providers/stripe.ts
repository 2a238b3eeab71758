/** Webhooks of Stripe, which start workflows. https://docs.stripe.com/webhooks */
import { Type } from 'typebox';
import { type Integration, secret } from './provider.ts';

const config = Type.Object(
  {
    webhook_signing_secret: secret({
      minLength: 1,
      maxLength: 100,
      description: "The endpoint's signing secret: Stripe's requests are verified with it",
    }),
    id: Type.Optional(
      Type.String({
        description: 'A name of your own for this configuration; it is kept and shown as it is',
      }),
    ),
  },
  { additionalProperties: false, examples: [{ webhook_signing_secret: 'whsec_xxxxxxxx' }] },
);

export const stripe: Integration<typeof config> = {
  name: 'stripe',
  docs: 'https://docs.stripe.com/webhooks',
  config,
};
