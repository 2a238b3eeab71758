/** E-mail by a mailer of the project's own, which is sent each notification as JSON. https://www.rfc-editor.org/rfc/rfc9110#POST */
import { type Static, Type } from 'typebox';
import type { Finding, Integration, VerifyDeps } from './provider.ts';
import { reachable } from './reachable.ts';

const config = Type.Object(
  {
    url: Type.String({
      format: 'uri',
      minLength: 1,
      maxLength: 100,
      description: 'The address of your mailer; it is sent each notification with a POST',
    }),
  },
  { additionalProperties: false, examples: [{ url: 'https://mailer.example.com/notifications' }] },
);

export const pingEmail: Integration<typeof config> & { channel: 'email' } = {
  name: 'ping_email',
  channel: 'email',
  docs: 'https://www.rfc-editor.org/rfc/rfc9110#POST',
  config,
  verify,
};

/** Any request would be an e-mail to somebody; so only whether the host can be called. */
async function verify({ url }: Static<typeof config>, { egress }: VerifyDeps): Promise<Finding[]> {
  return reachable(egress, 'url', url);
}
