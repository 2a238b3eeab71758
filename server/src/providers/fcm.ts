/** Push to Android, and by Firebase to iOS and the web. https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages */
import { type Static, Type } from 'typebox';
import { ask, notChecked } from './ask.ts';
import { type Finding, type Integration, secret, type VerifyDeps } from './provider.ts';
import { privateKey, signJwt } from './sign-jwt.ts';

const PEM = '^-+?\\s?BEGIN[A-Z ]+-+\\n([A-Za-z0-9+\\/\\r\\n]+={0,2})\\n-+\\s?END[A-Z ]+-+\\n?$';
const text = (description: string) => Type.String({ description });

const config = Type.Object(
  {
    type: Type.Enum(['service_account'], { description: 'The kind of credentials: service_account' }),
    project_id: text('The Firebase project'),
    private_key_id: text('The id of the private key'),
    private_key: secret({ pattern: PEM, description: 'The private key in PEM, with its line breaks' }),
    client_email: text('The e-mail address of the service account'),
    client_id: text('The id of the service account'),
    auth_uri: text("Google's address for logging in"),
    token_uri: text("Google's address for access tokens: https://oauth2.googleapis.com/token"),
    auth_provider_x509_cert_url: text("Google's certificates"),
    client_x509_cert_url: text("The service account's certificates"),
    universe_domain: text("googleapis.com, but for clouds that are not Google's own"),
  },
  {
    additionalProperties: false,
    description: 'The JSON file of a service account, as the Firebase console gives it, whole.',
    examples: [
      {
        type: 'service_account',
        project_id: 'example',
        private_key_id: '0123456789abcdef',
        private_key:
          '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n',
        client_email: 'firebase-adminsdk@example.iam.gserviceaccount.com',
        client_id: '123456789',
        auth_uri: 'https://accounts.google.com/o/oauth2/auth',
        token_uri: 'https://oauth2.googleapis.com/token',
        auth_provider_x509_cert_url: 'https://www.googleapis.com/oauth2/v1/certs',
        client_x509_cert_url: 'https://www.googleapis.com/robot/v1/metadata/x509/firebase-adminsdk',
        universe_domain: 'googleapis.com',
      },
    ],
  },
);
type Config = Static<typeof config>;

export const fcm: Integration<typeof config> & { channel: 'mobile_push' } = {
  name: 'fcm',
  channel: 'mobile_push',
  docs: 'https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages',
  config,
  verify,
};

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';
const LIFETIME_SECONDS = 3600; // the longest that Google takes

/** Gets an access token, as every send does. */
async function verify(config: Config, { transport, clock }: VerifyDeps): Promise<Finding[]> {
  const { client_email, private_key, private_key_id, token_uri } = config;
  const key = privateKey(private_key, 'rsa');
  if (key === undefined) return [{ field: 'private_key', problem: 'is not an RSA key in PEM' }];
  const iat = Math.floor(clock.now() / 1000);
  const assertion = signJwt({
    header: { alg: 'RS256', typ: 'JWT', kid: private_key_id },
    claims: { iss: client_email, scope: SCOPE, aud: token_uri, iat, exp: iat + LIFETIME_SECONDS },
    key,
  });
  const answer = await ask(transport.at(token_uri), {
    method: 'POST',
    path: '',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion,
    }).toString(),
    secrets: [assertion],
  });
  if (answer.status === 200) return [];
  if (answer.status === 400 || answer.status === 401)
    return [{ field: 'private_key', problem: `was refused by Google: ${answer.said}` }];
  return [{ ...notChecked('Google', answer), ...(answer.status === 0 ? { field: 'token_uri' } : {}) }];
}
