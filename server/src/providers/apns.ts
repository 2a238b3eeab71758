/** Push to iOS, iPadOS and macOS. https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns */
import { type Static, Type } from 'typebox';
import { appId } from '../contract/app-id.ts';
import { oneOf } from '../contract/common.ts';
import { type Asked, ask, notChecked } from './ask.ts';
import { type Finding, type Integration, secret, type VerifyDeps } from './provider.ts';
import { requestHttp2 } from './request-http2.ts';
import { privateKey, signJwt } from './sign-jwt.ts';

const P8 = '^-+?\\s?BEGIN PRIVATE KEY-+\\n([A-Za-z0-9+\\/\\r\\n]+={0,2})\\n-+\\s?END PRIVATE KEY+-+\\n?$';

const config = Type.Object(
  {
    app_id: appId('The bundle identifier of the app, for tokens that name none of their own'),
    badge: oneOf(['unread', 'unseen'], { description: "What the number on the app's icon counts" }),
    certificate: secret({
      pattern: P8,
      description: 'The signing key, as it stands in the .p8 file from Apple, with its line breaks',
    }),
    key_id: Type.String({ minLength: 10, maxLength: 10, description: 'The id of the signing key' }),
    team_id: Type.String({ minLength: 10, maxLength: 10, description: 'The id of the developer team' }),
    payload_version: Type.Optional(
      oneOf(['1', '2'], {
        description: 'The layout of the payload that the app reads. Left out: the newest',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [
      {
        app_id: 'com.example.app',
        badge: 'unread',
        certificate:
          '-----BEGIN PRIVATE KEY-----\nMIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQg\n-----END PRIVATE KEY-----\n',
        key_id: 'ABC123DEFG',
        team_id: 'DEF123GHIJ',
      },
    ],
  },
);
type Config = Static<typeof config>;

export const apns: Integration<typeof config> & { channel: 'mobile_push' } = {
  name: 'apns',
  channel: 'mobile_push',
  docs: 'https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns',
  config,
  verify,
};

const NO_DEVICE = '0'.repeat(64);

/** Sends a notification to a device that cannot be: who is told so has been let in. */
async function verify(config: Config, { transport, clock }: VerifyDeps): Promise<Finding[]> {
  const key = privateKey(config.certificate, 'p256');
  if (key === undefined)
    return [
      { field: 'certificate', problem: 'is not a key of APNs: EC on the curve P-256, as in a .p8 file' },
    ];
  const jwt = signJwt({
    header: { alg: 'ES256', kid: config.key_id },
    claims: { iss: config.team_id, iat: Math.floor(clock.now() / 1000) },
    key,
  });
  const endpoint = transport.vendor('apns', 'https://api.push.apple.com');
  const answer = await ask(
    { ...endpoint, request: (request) => requestHttp2(endpoint, request, transport.timeouts) },
    {
      method: 'POST',
      path: `/3/device/${NO_DEVICE}`,
      headers: {
        authorization: `bearer ${jwt}`,
        'apns-topic': config.app_id,
        'apns-push-type': 'alert',
        'apns-expiration': '0',
      },
      body: '{"aps":{"alert":"test"}}',
    },
  );
  return findings(answer);
}

function findings(answer: Asked): Finding[] {
  const { reason } = answer.json as { reason?: unknown };
  if (answer.status === 200 || GOOD.has(String(reason))) return [];
  const field = FIELDS[String(reason)];
  return field === undefined
    ? [notChecked('APNs', answer)]
    : [{ field, problem: `was refused by APNs: ${answer.said}` }];
}

/** Said only to those whose token is right. The last: a key for the sandbox alone, which is where tokens of development go. */
const GOOD = new Set([
  'BadDeviceToken',
  'DeviceTokenNotForTopic',
  'Unregistered',
  'BadEnvironmentKeyIdInToken',
]);

const FIELDS: Readonly<Record<string, string>> = {
  InvalidProviderToken: 'key_id',
  UnrelatedKeyIdInToken: 'key_id',
  Forbidden: 'key_id',
  BadTopic: 'app_id',
  TopicDisallowed: 'app_id',
};
