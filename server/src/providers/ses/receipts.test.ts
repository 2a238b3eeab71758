import { generateKeyPairSync } from 'node:crypto';
import https from 'node:https';
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { expect, test, vi } from 'vitest';
import {
  CERTIFICATE,
  CERTIFICATE_URL,
  confirmation,
  type Envelope,
  notification,
  signEnvelope,
  TOPIC,
} from '../../../test/support/sns.ts';
import { sesReceipts } from './receipts.ts';

const url = 'https://notify.example.com/v2/integrations/ses/webhooks/incoming/1';
const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const config = { topic_arn: TOPIC };
const request = (envelope: unknown, certificate: string | undefined = CERTIFICATE) => ({
  url,
  headers: {},
  body: Buffer.from(typeof envelope === 'string' ? envelope : JSON.stringify(envelope)),
  nowMs: Date.now(),
  ...(certificate === undefined ? {} : { certificate }),
});
const hours = (count: number) => new Date(Date.now() + count * 3_600_000).toISOString();
const isTaken = (envelope: unknown) => sesReceipts.isSigned(request(envelope), config);

test('both versions of the signature are accepted, with and without a subject', () => {
  for (const SignatureVersion of ['1', '2'])
    for (const Subject of [undefined, 'Amazon SES Email Event Notification']) {
      const given = { SignatureVersion, ...(Subject === undefined ? {} : { Subject }) };
      expect(isTaken(signEnvelope(notification('x', given)))).toBe(true);
    }
  expect(isTaken(signEnvelope(confirmation()))).toBe(true);
  expect(isTaken(signEnvelope(notification('x', { Timestamp: hours(-24) })))).toBe(true);
});

test('other signatures are rejected', () => {
  const good = signEnvelope(notification('x'));
  const refused: [string, Envelope | string][] = [
    ['another topic', signEnvelope(notification('x', { TopicArn: `${TOPIC}2` }))],
    ['of yesterday', signEnvelope(notification('x', { Timestamp: hours(-26) }))],
    ['of tomorrow', signEnvelope(notification('x', { Timestamp: hours(1) }))],
    ['without a time', signEnvelope(notification('x', { Timestamp: '' }))],
    ['changed', { ...good, Message: 'y' }],
    ['with a subject put in', { ...good, Subject: 'y' }],
    ['as another type', { ...good, Type: 'SubscriptionConfirmation', Token: 't', SubscribeURL: 'u' }],
    ['of another version', { ...good, SignatureVersion: '2' }],
    ['of an unknown version', signEnvelope(notification('x', { SignatureVersion: '3' }))],
    ['without a signature', { ...good, Signature: '' }],
    ['by a stranger', signEnvelope(notification('x'), stranger)],
    ['nothing', ''],
    ['a list', '[]'],
  ];
  for (const [name, envelope] of refused) expect([name, isTaken(envelope)]).toEqual([name, false]);
  expect(sesReceipts.isSigned(request(good), {})).toBe(false);
  expect(sesReceipts.isSigned(request(good, 'no certificate'), config)).toBe(false);
  const { certificate: _, ...without } = request(good);
  expect(sesReceipts.isSigned(without, config)).toBe(false);
});

test('a certificate is fetched only from SNS in the region of the topic', () => {
  const asked = (SigningCertURL: string, topic = TOPIC) =>
    sesReceipts.certificateUrl?.(request(notification('x', { SigningCertURL, TopicArn: topic })), {
      topic_arn: topic,
    });
  const path = new URL(CERTIFICATE_URL).pathname;
  expect(asked(CERTIFICATE_URL)).toBe(CERTIFICATE_URL);
  const china = `https://sns.cn-north-1.amazonaws.com.cn${path}`;
  expect(asked(china, 'arn:aws-cn:sns:cn-north-1:1:mail')).toBe(china);
  const government = `https://sns.us-gov-west-1.amazonaws.com${path}`;
  expect(asked(government, 'arn:aws-us-gov:sns:us-gov-west-1:1:mail')).toBe(government);
  for (const wrong of [
    `http://sns.eu-west-1.amazonaws.com${path}`,
    `https://sns.eu-west-2.amazonaws.com${path}`,
    `https://sns.eu-west-1.amazonaws.com.evil.example${path}`,
    `https://sns.eu-west-1.amazonaws.com:8443${path}`,
    `https://sns.eu-west-1.amazonaws.com@evil.example${path}`,
    `https://evil.example/sns.eu-west-1.amazonaws.com${path}`,
    `https://sns.eu-west-1.amazonaws.com/?x=${path}`,
    `https://sns.eu-west-1.amazonaws.com/x/..${path}`,
    `${CERTIFICATE_URL}?x`,
    `${CERTIFICATE_URL}\n`,
    ` ${CERTIFICATE_URL}`,
    'https://sns.eu-west-1.amazonaws.com/my.pem',
    '',
  ])
    expect([wrong, asked(wrong)]).toEqual([wrong, undefined]);
  expect(asked(CERTIFICATE_URL, 'arn:aws:sns:evil.example#:1:mail')).toBeUndefined();
  const other = request(notification('x'));
  expect(sesReceipts.certificateUrl?.(other, { topic_arn: `${TOPIC}2` })).toBeUndefined();
  expect(sesReceipts.certificateUrl?.(other, {})).toBeUndefined();
});

test('AWS’s own library agrees on signatures', async () => {
  const require = createRequire(import.meta.url);
  const Validator = require('sns-validator') as new () => {
    validate(message: object, done: (error: Error | null) => void): void;
  };
  // The library fetches the certificate itself.
  const get = vi.spyOn(https, 'get').mockImplementation(((
    _url: string,
    onResponse: (response: Readable) => void,
  ) => {
    const response = Object.assign(Readable.from([CERTIFICATE]), { statusCode: 200 });
    onResponse(response);
    return response;
  }) as unknown as typeof https.get);
  const theirs = new Validator();
  const judged = (envelope: Envelope) =>
    new Promise<boolean>((resolve) => theirs.validate({ ...envelope }, (error) => resolve(error === null)));
  try {
    for (const version of ['1', '2'])
      for (const made of [notification('ä\n{}'), notification('x', { Subject: 's' }), confirmation()]) {
        const signed = signEnvelope({ ...made, SignatureVersion: version });
        expect([isTaken(signed), await judged(signed)]).toEqual([true, true]);
        const changed = { ...signed, Message: 'changed' };
        expect([isTaken(changed), await judged(changed)]).toEqual([false, false]);
      }
    expect(get).toHaveBeenCalled();
  } finally {
    get.mockRestore();
  }
});

test('a subscription is confirmed only at SNS and for its topic; an unsubscription is not', () => {
  const asked = (SubscribeURL: string) => sesReceipts.read(request(confirmation({ SubscribeURL })));
  const good = confirmation().SubscribeURL ?? '';
  expect(asked(good)).toEqual({ confirmUrl: good });
  for (const wrong of [
    '',
    'nonsense',
    good.replace('https', 'http'),
    good.replace('eu-west-1.', 'eu-west-1.evil.'),
    good.replace('sns.', 'x@sns.'),
    good.replace('.com/', '.com:444/'),
    good.replace('ConfirmSubscription', 'Publish'),
    good.replace(':mail', ':other'),
    good.replace('/?', '/path?'),
  ])
    expect([wrong, asked(wrong)]).toEqual([wrong, undefined]);
  expect(sesReceipts.read(request({ ...confirmation(), Type: 'UnsubscribeConfirmation' }))).toEqual({});
  expect(sesReceipts.read(request({ ...confirmation(), Type: 'Else' }))).toBeUndefined();
  expect(sesReceipts.read(request('{'))).toBeUndefined();
});

// From the developer guide of SES.
const MAIL = {
  timestamp: '2017-08-05T00:40:02.012Z',
  messageId: 'EXAMPLE7c191be45-e9aedb9a-02f9-4d12-a87d-dd0099a07f8a-000000',
  destination: ['recipient@example.com'],
  tags: { 'ses:configuration-set': ['mail'], reference: ['r'] },
};
const AT = '2017-08-05T00:41:02.669Z';
const at = new Date(AT);
const receiptsOf = (event: object) =>
  sesReceipts.read(request(notification({ mail: MAIL, ...event })))?.receipts;
const suppress = (reason: string) => ({ suppress: { address: 'recipient@example.com', reason } });
const bounced = (emailAddress = 'recipient@example.com') => ({
  emailAddress,
  action: 'failed',
  status: '5.1.1',
  diagnosticCode: 'smtp; 550 5.1.1 user unknown',
});
const SAID = { code: '5.1.1', reason: 'smtp; 550 5.1.1 user unknown' };

test.each([
  [{ eventType: 'Send', send: {} }, []],
  [{ eventType: 'Open', open: {} }, []],
  [{ eventType: 'DeliveryDelay', deliveryDelay: { timestamp: AT } }, []],
  [
    { eventType: 'Delivery', delivery: { timestamp: AT, smtpResponse: '250 2.6.0 Message received' } },
    [{ kind: 'delivered', at }],
  ],
  [
    {
      eventType: 'Bounce',
      bounce: {
        bounceType: 'Permanent',
        bounceSubType: 'General',
        bouncedRecipients: [bounced()],
        timestamp: AT,
      },
    },
    [{ kind: 'bounced', at, ...SAID, ...suppress('bounced') }],
  ],
  [
    {
      eventType: 'Bounce',
      bounce: { bounceType: 'Transient', bounceSubType: 'MailboxFull', bouncedRecipients: [], timestamp: AT },
    },
    [{ kind: 'bounced', at, reason: 'MailboxFull' }],
  ],
  [
    {
      eventType: 'Complaint',
      complaint: {
        complainedRecipients: [{ emailAddress: 'Name <recipient@example.com>' }],
        timestamp: AT,
        complaintFeedbackType: 'abuse',
      },
    },
    [{ kind: 'complained', at, code: 'abuse', ...suppress('complained') }],
  ],
  [{ eventType: 'Complaint', complaint: { complaintFeedbackType: 'not-spam', timestamp: AT } }, []],
  [
    {
      eventType: 'Complaint',
      complaint: {
        complaintSubType: 'OnAccountSuppressionList',
        complainedRecipients: [{ emailAddress: 'recipient@example.com' }],
        timestamp: AT,
      },
    },
    [{ kind: 'dropped', at, ...suppress('complained') }],
  ],
  [
    { eventType: 'Reject', reject: { reason: 'Bad content' } },
    [{ kind: 'dropped', at: new Date(MAIL.timestamp), code: 'Reject', reason: 'Bad content' }],
  ],
  [
    {
      eventType: 'Rendering Failure',
      failure: { templateName: 'welcome', errorMessage: "Attribute 'name' is not present" },
    },
    [
      {
        kind: 'dropped',
        at: new Date(MAIL.timestamp),
        code: 'Rendering Failure',
        reason: "Attribute 'name' is not present",
      },
    ],
  ],
])('%j is %j', (event, receipts) => {
  expect(receiptsOf(event)).toEqual(receipts.map((receipt) => ({ ...receipt, reference: 'r' })));
});

test('identities send no reference; each recipient is a receipt; messages of others are ignored', () => {
  const { tags: _, ...mail } = MAIL;
  const bounce = {
    bounceType: 'Permanent',
    bouncedRecipients: [bounced('a@x.de'), bounced('b@x.de')],
    timestamp: AT,
  };
  expect(receiptsOf({ mail, notificationType: 'Bounce', bounce })).toEqual(
    ['a@x.de', 'b@x.de'].map((address) => ({
      kind: 'bounced',
      at,
      ...SAID,
      suppress: { address, reason: 'bounced' },
    })),
  );
  for (const said of [
    'Successfully validated SNS topic for Amazon SES event publishing.',
    '[]',
    '{"eventType":1}',
  ])
    expect(sesReceipts.read(request(notification(said)))).toEqual({ receipts: [] });
});
