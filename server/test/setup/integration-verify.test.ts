import { createPublicKey, generateKeyPairSync, type KeyObject, verify } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { createVapidKeys } from '../../src/providers/web-push/vapid.ts';
import type { VendorReply } from '../support/http-stand-in.ts';
import { integrationConfigs } from '../support/integration-configs.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';
import { startSmtpScript } from '../support/smtp-script.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startVendor, type VendorRequest, type VendorStandIn } from '../support/vendor-stand-in.ts';

let service: TestService;
let project: TestProject;
let vendor: VendorStandIn;
let apple: VendorStandIn;
let mail: SmtpStandIn;
let projects = 0;

beforeAll(async () => {
  [vendor, apple, mail] = await Promise.all([
    startVendor(),
    startVendor({ http2: true }),
    startSmtpStandIn({ account: { username: 'u', password: 'canary-smtp' } }),
  ]);
  service = await startTestService({
    settings: {
      PROVIDER_APNS_BASE_URL: apple.address,
      PROVIDER_EXPO_BASE_URL: `${vendor.address}/expo`,
      PROVIDER_MAILGUN_BASE_URL: `${vendor.address}/mailgun`,
      PROVIDER_SENDGRID_BASE_URL: `${vendor.address}/sendgrid/`,
      PROVIDER_SES_BASE_URL: `${vendor.address}`,
      PROVIDER_TWILIO_BASE_URL: `${vendor.address}/twilio`,
    },
    timeouts: { connectMs: 2_000, replyMs: 1_000 },
  });
});
afterAll(async () => {
  await service?.stop();
  await Promise.all([vendor, apple, mail].map((one) => one?.stop()));
});
beforeEach(async () => {
  projects += 1;
  project = await service.createProject(`verify ${projects}`);
});

const put = (provider: string, config: object) =>
  project.call('PUT', `/integrations/${provider}?verify=true`, config);
const saved = async (provider: string) =>
  (await project.call('GET', `/integrations/${provider}`)).body.data.map(
    (one: { config: object }) => one.config,
  );

async function accepted(provider: string, config: object): Promise<void> {
  const response = await put(provider, config);
  expect([response.status, response.body]).toEqual([200, config]);
  expect(await saved(provider)).toEqual([config]);
}

/** Expects a rejection with one problem that contains no secret, and nothing saved. */
async function refused(provider: string, config: object, message: string | RegExp): Promise<void> {
  const response = await put(provider, config);
  expect([response.status, response.body]).toEqual([
    422,
    { errors: [{ code: 'verification_failed', message: expect.stringMatching(message) }] },
  ]);
  expect(JSON.stringify(response.body)).not.toContain('canary');
  expect(await saved(provider)).toEqual([]);
}

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const pem = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }) as string;

const configs = {
  sendgrid: { api_key: 'SG.canary-sendgrid', from: { email: 'a@b.de', name: null } },
  mailgun: { api_key: 'canary-mailgun', domain: 'mg.b.de/x', region: 'us' },
  ses: { key_id: 'AKIAEXAMPLE', secret_key: 'canary-ses', region: 'eu-west-1' },
  twilio: { account_sid: 'AC1', api_key: 'SK1', api_secret: 'canary-twilio', from: '+14155550100' },
  expo: { access_token: 'canary-expo' },
  apns: {
    app_id: 'com.example.app',
    badge: 'unread',
    certificate: pem(ec.privateKey),
    key_id: 'ABCDEFGHIJ',
    team_id: '0123456789',
  },
  fcm: { ...integrationConfigs.fcm.full, private_key: pem(rsa.privateKey), client_email: 'sa@p.example' },
};
const fcm = () => ({ ...configs.fcm, token_uri: `${vendor.address}/token` });

/** As from a proxy, or from a setting that names the wrong server. */
const PAGE = { status: 200, headers: { 'content-type': 'text/html' }, body: '<html><h1>Log in</h1></html>' };

/** The responses of each vendor, and their meaning: accepted, or the message of the rejection. */
const RESPONSES: Record<
  'sendgrid' | 'mailgun' | 'ses' | 'twilio' | 'expo',
  [string, VendorReply[], RegExp | 'ok'][]
> = {
  sendgrid: [
    ['a key that may send', [{ status: 200, body: { scopes: ['mail.send', 'x'] } }], 'ok'],
    [
      'a key that may not',
      [{ status: 200, body: { scopes: ['x'] } }],
      /^Param 'api_key' lacks the permission mail\.send/,
    ],
    ['strange words', [{ status: 200, body: 'hello' }], /^Param '\(root\)' could not be verified: SendGrid/],
    [
      'the page of another server',
      [PAGE],
      /^Param '\(root\)' could not be verified: SendGrid responded: 200/,
    ],
    [
      'an unknown key',
      [{ status: 401, body: { errors: [{ message: 'authorization required', field: null }] } }],
      /^Param 'api_key' was rejected by SendGrid: 401 authorization required$/,
    ],
    [
      'an outage',
      [{ status: 500, body: 'oops' }],
      /^Param '\(root\)' could not be verified: SendGrid responded: 500 oops$/,
    ],
  ],
  mailgun: [
    ['a domain of the key', [{ status: 200, body: { domain: { state: 'active' } } }], 'ok'],
    ['the page of another server', [PAGE], /^Param '\(root\)' could not be verified: Mailgun responded: 200/],
    [
      'an unverified domain',
      [{ status: 200, body: { domain: { state: 'unverified' } } }],
      /^Param 'domain' cannot send: at Mailgun it is unverified$/,
    ],
    [
      'an unknown domain',
      [{ status: 404, body: { message: 'Domain not found' } }],
      /^Param 'domain' is not known .*Domain not found$/,
    ],
    [
      'a sending key, which may only send',
      [
        { status: 401, body: 'Forbidden' },
        { status: 400, body: { message: 'from parameter is missing' } },
      ],
      'ok',
    ],
    [
      'an unknown key',
      [{ status: 401, body: 'Forbidden' }],
      /^Param 'api_key' was rejected by Mailgun: 401 Forbidden$/,
    ],
    ['an outage', [{ status: 503 }], /^Param '\(root\)' could not be verified: Mailgun responded: 503$/],
  ],
  ses: [
    ['an account that sends', [{ status: 200, body: { SendingEnabled: true } }], 'ok'],
    ['the page of another server', [PAGE], /^Param '\(root\)' could not be verified: SES responded: 200/],
    [
      'an account that may not',
      [{ status: 200, body: { SendingEnabled: false } }],
      /^Param 'key_id' belongs to an account/,
    ],
    [
      'a key that may send and nothing else',
      [{ status: 403, headers: { 'x-amzn-errortype': 'AccessDeniedException:http://x' }, body: {} }],
      'ok',
    ],
    [
      'an unknown key',
      [{ status: 403, body: { __type: 'a#UnrecognizedClientException', message: 'The token is invalid' } }],
      /^Param 'key_id' was rejected by SES: UnrecognizedClientException: 403 The token is invalid$/,
    ],
    [
      'a wrong secret',
      [
        {
          status: 403,
          headers: { 'x-amzn-ErrorType': 'InvalidSignatureException' },
          body: { message: 'No match' },
        },
      ],
      /^Param 'secret_key' was rejected by SES/,
    ],
    ['an outage', [{ status: 500 }], /^Param '\(root\)' could not be verified/],
  ],
  twilio: [
    ['a key of the account', [{ status: 200, body: { messages: [] } }], 'ok'],
    ['the page of another server', [PAGE], /^Param '\(root\)' could not be verified: Twilio responded: 200/],
    ['a restricted key', [{ status: 403, body: { code: 70051 } }], 'ok'],
    [
      'an unknown key',
      [{ status: 401, body: { code: 20003, message: 'Authenticate' } }],
      /^Param 'api_key' was rejected by Twilio: 401 Authenticate$/,
    ],
    [
      'an unknown account',
      [{ status: 404, body: { code: 20404 } }],
      /^Param 'account_sid' is not known to Twilio/,
    ],
    [
      'too many requests',
      [{ status: 429 }],
      /^Param '\(root\)' could not be verified: Twilio responded: 429$/,
    ],
  ],
  expo: [
    ['a known token', [{ status: 200, body: { data: {} } }], 'ok'],
    ['the page of another server', [PAGE], /^Param '\(root\)' could not be verified: Expo responded: 200/],
    ['a problem with the request', [{ status: 400, body: { errors: [{ code: 'VALIDATION_ERROR' }] } }], 'ok'],
    [
      'an unknown token',
      [{ status: 401, body: { errors: [{ code: 'UNAUTHORIZED', message: 'The bearer token is invalid' }] } }],
      /^Param 'access_token' was rejected by Expo: 401 The bearer token is invalid$/,
    ],
    ['an outage', [{ status: 502 }], /^Param '\(root\)' could not be verified: Expo responded: 502$/],
  ],
};

describe.each(Object.entries(RESPONSES))('%s', (name, cases) => {
  const provider = name as keyof typeof RESPONSES;
  const config = configs[provider];

  test.each(cases)('%s', async (_case, responses, outcome) => {
    vendor.reply(...responses);
    await (outcome === 'ok' ? accepted(provider, config) : refused(provider, config, outcome));
    expect(vendor.requests).toHaveLength(provider === 'mailgun' && responses[0]?.status === 401 ? 2 : 1);
  });

  test('a timeout and a broken connection', async () => {
    vendor.reply('hang');
    await refused(provider, config, /^Param '\(root\)' could not be verified: \w+ did not respond: /);
    vendor.reply('cut');
    await refused(provider, config, /^Param '\(root\)' could not be verified: \w+ did not respond: /);
  });

  test('a vendor that echoes the request', async () => {
    vendor.reply(({ headers, body }) => ({
      status: 401,
      body: { message: `you sent ${headers.authorization} ${body}` },
    }));
    const response = await put(provider, config);
    expect(response.status).toBe(422);
    const problems = JSON.stringify(response.body);
    expect(problems).toContain('you sent');
    for (const [, value] of Object.entries(config))
      if (typeof value === 'string' && value.includes('canary')) {
        expect(problems).not.toContain(value);
        expect(problems).not.toContain(Buffer.from(value).toString('base64').slice(0, 8));
      }
    expect(problems).not.toContain(String(vendor.requests[0]?.headers.authorization).split(' ')[1]);
  });

  test('no request is sent when a config is saved without verification', async () => {
    vendor.reply({ status: 401 });
    for (const query of ['', '?verify=false'])
      expect((await project.call('PUT', `/integrations/${provider}${query}`, config)).status).toBe(200);
    expect(vendor.requests).toEqual([]);
  });
});

describe('the verification request', () => {
  const requestsOf = async (
    provider: string,
    config: object,
    response: VendorReply,
  ): Promise<VendorRequest[]> => {
    vendor.reply(response);
    await put(provider, config);
    return vendor.requests;
  };

  test('sendgrid with an invalid key for its webhook', async () => {
    vendor.reply({ status: 200, body: { scopes: ['mail.send'] } });
    const config = { ...configs.sendgrid, webhook_public_key: 'SG.not-this-one' };
    await refused(
      'sendgrid',
      config,
      /^Param 'webhook_public_key' is not a verification key of the signed event/,
    );
  });

  test('sendgrid, twilio, expo and mailgun', async () => {
    expect(await requestsOf('sendgrid', configs.sendgrid, { status: 200 })).toMatchObject([
      {
        method: 'GET',
        path: '/sendgrid/v3/scopes',
        headers: { authorization: 'Bearer SG.canary-sendgrid' },
        body: '',
      },
    ]);
    expect(await requestsOf('twilio', configs.twilio, { status: 200 })).toMatchObject([
      {
        method: 'GET',
        path: '/twilio/2010-04-01/Accounts/AC1/Messages.json?PageSize=1',
        headers: { authorization: basic('SK1:canary-twilio') },
        body: '',
      },
    ]);
    expect(await requestsOf('expo', configs.expo, { status: 200 })).toMatchObject([
      {
        method: 'POST',
        path: '/expo/--/api/v2/push/getReceipts',
        headers: { authorization: 'Bearer canary-expo', 'content-type': 'application/json' },
        body: '{"ids":[]}',
      },
    ]);
    const authorization = basic('api:canary-mailgun');
    expect(await requestsOf('mailgun', configs.mailgun, { status: 401 })).toMatchObject([
      { method: 'GET', path: '/mailgun/v3/domains/mg.b.de%2Fx', headers: { authorization }, body: '' },
      { method: 'POST', path: '/mailgun/v3/mg.b.de%2Fx/messages', headers: { authorization }, body: '' },
    ]);
  });

  test('escapes names that cannot be valid', async () => {
    const config = { ...configs.mailgun, domain: 'a/../?b' };
    expect(await requestsOf('mailgun', config, { status: 404 })).toMatchObject([
      { path: '/mailgun/v3/domains/a%2F..%2F%3Fb' },
    ]);
  });

  test('ses, signed', async () => {
    const [request] = await requestsOf('ses', configs.ses, { status: 200 });
    expect(request).toMatchObject({ method: 'GET', path: '/v2/email/account', body: '' });
    const day = new Date().toISOString().slice(0, 10).replaceAll('-', '');
    expect(request?.headers.authorization).toMatch(
      new RegExp(
        `^AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/${day}/eu-west-1/ses/aws4_request, ` +
          `SignedHeaders=host;x-amz-date, Signature=[0-9a-f]{64}$`,
      ),
    );
  });

  test('an SES region cannot change the host of the request', async () => {
    vendor.reply({ status: 200 });
    for (const region of ['evil.example/', 'x@evil.example#', 'EU', 'eu west', '..'])
      await refused('ses', { ...configs.ses, region }, /^Param 'region' is not an AWS region/);
    expect(vendor.requests).toEqual([]);
  });
});

describe('apns', () => {
  const reason = (status: number, word: string) => ({ status, body: { reason: word } });

  test('a key is valid if only the device is unknown; the request has a token signed with it', async () => {
    apple.reply(reason(400, 'BadDeviceToken'));
    await accepted('apns', configs.apns);
    const [request] = apple.requests;
    expect(request).toMatchObject({
      method: 'POST',
      path: `/3/device/${'0'.repeat(64)}`,
      headers: { 'apns-topic': 'com.example.app', 'apns-push-type': 'alert', 'apns-expiration': '0' },
      body: '{"aps":{"alert":"test"}}',
    });
    const jwt = String(request?.headers.authorization).replace(/^bearer /, '');
    const { header, claims } = verified(jwt, ec.publicKey);
    expect(header).toEqual({ alg: 'ES256', kid: 'ABCDEFGHIJ' });
    expect(claims).toEqual({ iss: '0123456789', iat: expect.any(Number) });
    const age = Date.now() / 1000 - Number(claims.iat);
    expect(age).toBeGreaterThan(0);
    expect(age).toBeLessThan(3600);
  });

  test('rejections name the field', async () => {
    apple.reply(reason(403, 'InvalidProviderToken'));
    await refused('apns', configs.apns, /^Param 'key_id' was rejected by APNs: 403 InvalidProviderToken$/);
    apple.reply(reason(400, 'TopicDisallowed'));
    await refused('apns', configs.apns, /^Param 'app_id' was rejected by APNs: 400 TopicDisallowed$/);
    apple.reply(reason(503, 'ServiceUnavailable'));
    await refused('apns', configs.apns, /^Param '\(root\)' could not be verified: APNs responded: 503/);
    apple.reply('hang');
    await refused('apns', configs.apns, /^Param '\(root\)' could not be verified: APNs did not respond/);
  });

  test('a key of another kind is detected without a request', async () => {
    apple.reply(reason(400, 'BadDeviceToken'));
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-384' });
    for (const certificate of [
      pem(rsa.privateKey),
      pem(privateKey),
      '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n',
    ])
      await refused(
        'apns',
        { ...configs.apns, certificate },
        /^Param 'certificate' is not an APNs signing key/,
      );
    expect(apple.requests).toEqual([]);
  });
});

describe('fcm', () => {
  test('is not verified by the page of another server', async () => {
    vendor.reply(PAGE);
    await refused('fcm', fcm(), /^Param '\(root\)' could not be verified: Google responded: 200/);
  });

  test('gets an access token with an assertion signed by the key', async () => {
    vendor.reply({ status: 200, body: { access_token: 'x', expires_in: 3599 } });
    await accepted('fcm', fcm());
    const [request] = vendor.requests;
    expect(request).toMatchObject({
      method: 'POST',
      path: '/token',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    const form = new URLSearchParams(request?.body);
    expect(form.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer');
    const { header, claims } = verified(form.get('assertion') ?? '', rsa.publicKey);
    expect(header).toEqual({ alg: 'RS256', typ: 'JWT', kid: 'i' });
    // Dated back a little, so that FCM accepts it although our clock is a little ahead.
    const iat = Number(claims.iat);
    const age = Date.now() / 1000 - iat;
    expect(age).toBeGreaterThan(20);
    expect(age).toBeLessThan(300);
    expect(claims).toEqual({
      iss: 'sa@p.example',
      scope: 'https://www.googleapis.com/auth/firebase.messaging',
      aud: `${vendor.address}/token`,
      iat,
      exp: iat + 3600,
    });
  });

  test('rejections name the field', async () => {
    vendor.reply(({ body }) => ({
      status: 400,
      body: { error: 'invalid_grant', error_description: `Invalid JWT Signature in ${body}` },
    }));
    const response = await put('fcm', fcm());
    expect(response.body.errors[0].message).toMatch(
      new RegExp(
        `^Param 'private_key' was rejected by Google: 400 invalid_grant: ` +
          `Invalid JWT Signature in grant_type=.*&assertion=•+$`,
      ),
    );
    await refused(
      'fcm',
      { ...fcm(), token_uri: 'nonsense' },
      /^Param 'token_uri' could not be verified: Google did not respond: this is not a web address/,
    );
    vendor.reply({ status: 500 });
    await refused('fcm', fcm(), /^Param '\(root\)' could not be verified: Google responded: 500$/);
    const other = { ...fcm(), private_key: pem(ec.privateKey) };
    await refused('fcm', other, /^Param 'private_key' is not an RSA key in PEM$/);
  });
});

describe('smtp', () => {
  const smtp = (changes: object = {}) => ({
    host: mail.host,
    port: mail.port,
    username: 'u',
    password: 'canary-smtp',
    from: { email: 'a@b.de' },
    ...changes,
  });

  test('verification logs in and sends nothing', async () => {
    await accepted('smtp', smtp());
    expect(mail.received).toEqual([]);
    await expect.poll(() => mail.connections().open).toBe(0);
  });

  test('rejections name the field', async () => {
    await refused('smtp', smtp({ password: 'canary-wrong' }), /^Param 'password' does not work: 535 5\.7\.8/);
    await refused('smtp', smtp({ security: 'starttls' }), /^Param 'security' does not work: .*STARTTLS/);
    await refused(
      'smtp',
      smtp({ host: 'nowhere.invalid' }),
      /^Param 'host' could not be verified: the host name/,
    );
    await refused('smtp', smtp({ port: 1 }), /^Param 'host' could not be verified: the mail server refused/);
    expect(mail.received).toEqual([]);
  });

  test('a server without login on plain connections fails verification', async () => {
    const { port, stop } = await startSmtpScript({ EHLO: '250-script\r\n250-STARTTLS\r\n250 8BITMIME' });
    onTestFinished(stop);
    const config = { host: '127.0.0.1', port, security: 'none', password: 'canary-wrong' };
    await refused('smtp', smtp(config), /^Param 'username' cannot be used: .* set security to starttls/);
    await accepted('smtp', smtp({ ...config, username: '' }));
  });

  test('a silent server ends in a timeout', async () => {
    mail.fail({ at: 'auth', how: 'hang' });
    await refused(
      'smtp',
      smtp(),
      /^Param 'host' could not be verified: the mail server did not respond in time/,
    );
    mail.heal();
  });
});

describe('web_push', () => {
  test('a matching key pair', async () => {
    await accepted('web_push', createVapidKeys());
  });

  test('invalid keys', async () => {
    const [one, other] = [createVapidKeys(), createVapidKeys()];
    await refused(
      'web_push',
      { ...one, public_key: other.public_key },
      /^Param 'public_key' is not the public key/,
    );
    await refused(
      'web_push',
      { ...one, private_key: `${'x'.repeat(43)}A` },
      /^Param 'private_key' is not a VAPID key/,
    );
    const zero = Buffer.alloc(32).toString('base64url');
    await refused('web_push', { ...one, private_key: zero }, /^Param 'private_key' is not a VAPID key/);
    // Without verification, only their lengths are checked.
    const strange = { public_key: 'x'.repeat(8), private_key: 'x'.repeat(8) };
    expect((await project.call('PUT', '/integrations/web_push', strange)).status).toBe(200);
  });
});

describe('configs with only a URL for notifications', () => {
  test.each([
    ['ping_email', 'url', (url: string) => ({ url })],
    ['teams', 'webhook\\.url', (url: string) => ({ webhook: { url } })],
  ])('%s', async (provider, field, config) => {
    await refused(
      provider,
      config('https://nowhere.invalid/'),
      new RegExp(`^Param '${field}' cannot be reached`),
    );
    vendor.reply({ status: 200 });
    await accepted(provider, config(`${vendor.address}/hook`));
    expect(vendor.requests).toEqual([]);
  });
});

test.each(['eventsource', 'github', 'service_slackbot', 'slack', 'stripe'])(
  '%s has nothing to verify, and is saved',
  async (provider) => {
    const name = provider.replace('service_', '') as keyof typeof integrationConfigs;
    await accepted(provider, integrationConfigs[name].full);
  },
);

test('an invalid config is not verified, and verify has to be a boolean', async () => {
  vendor.reply({ status: 200 });
  const wrong = await put('sendgrid', { api_key: 1 });
  expect([wrong.status, wrong.body.errors[0].code]).toEqual([422, 'validation_failed']);
  const maybe = await project.call('PUT', '/integrations/sendgrid?verify=maybe', configs.sendgrid);
  expect([maybe.status, maybe.body.errors[0].message]).toEqual([422, "Param 'verify' must be a boolean"]);
  expect(vendor.requests).toEqual([]);
});

test('a setting that redirects a vendor has to name a vendor and a web URL', () => {
  const read = (name: string, text: string) => () => readConfig({ [name]: text });
  expect(read('PROVIDER_SLACK_API_URL', 'http://127.0.0.1:1/api/')().PROVIDER_SLACK_API_URL).toBe(
    'http://127.0.0.1:1/api',
  );
  expect(read('PROVIDER_SENDGIRD_BASE_URL', 'http://127.0.0.1:1')).toThrow(
    /did you mean PROVIDER_SENDGRID_BASE_URL/,
  );
  expect(read('PROVIDER_PIGEON_BASE_URL', 'http://127.0.0.1:1')).toThrow(
    /PROVIDER_PIGEON_BASE_URL is not a setting/,
  );
  expect(read('PROVIDER_SES_BASE_URL', 'ftp://127.0.0.1')).toThrow(
    /PROVIDER_SES_BASE_URL .* must be an address/,
  );
});

/** The parts of a JWT, if the key signed it. */
function verified(jwt: string, key: KeyObject): Record<'header' | 'claims', Record<string, unknown>> {
  const [header = '', claims = '', signature = ''] = jwt.split('.');
  const proof = {
    key: createPublicKey(key.export({ type: 'spki', format: 'pem' })),
    dsaEncoding: 'ieee-p1363',
  } as const;
  expect(
    verify('sha256', Buffer.from(`${header}.${claims}`), proof, Buffer.from(signature, 'base64url')),
  ).toBe(true);
  const read = (part: string) =>
    JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>;
  return { header: read(header), claims: read(claims) };
}
