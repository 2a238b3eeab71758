/** Push to apps made with Expo. https://docs.expo.dev/push-notifications/sending-notifications/ */
import { type Static, Type } from 'typebox';
import { ask, isRefusal, notChecked } from './ask.ts';
import { type Finding, type Integration, secret, type VerifyDeps } from './provider.ts';

const config = Type.Object(
  {
    access_token: secret({
      minLength: 1,
      description: 'An access token of the Expo account that owns the app',
    }),
  },
  { additionalProperties: false, examples: [{ access_token: 'secret' }] },
);

export const expo: Integration<typeof config> & { channel: 'mobile_push' } = {
  name: 'expo',
  channel: 'mobile_push',
  docs: 'https://docs.expo.dev/push-notifications/sending-notifications/',
  config,
  verify,
};

/** Asks for no receipts at all. */
async function verify(
  { access_token }: Static<typeof config>,
  { transport }: VerifyDeps,
): Promise<Finding[]> {
  const answer = await ask(transport.vendor('expo', 'https://exp.host'), {
    method: 'POST',
    path: '/--/api/v2/push/getReceipts',
    headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
    body: '{"ids":[]}',
  });
  if (isRefusal(answer)) return [{ field: 'access_token', problem: `was refused by Expo: ${answer.said}` }];
  // 400: it minds that there is nothing to look up, which it says only to those that it knows.
  return answer.status === 200 || answer.status === 400 ? [] : [notChecked('Expo', answer)];
}
