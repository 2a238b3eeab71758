/** SNS for tests: a topic that signs what it publishes, by the rules of AWS's documentation. */
import { type KeyLike, randomUUID, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';

export const TOPIC = 'arn:aws:sns:eu-west-1:123456789012:mail';
export const CERTIFICATE_URL = `https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-${'0a'.repeat(16)}.pem`;

export type Envelope = Record<string, string>;

/** The certificate at that URL. */
export const CERTIFICATE = readFileSync(new URL('tls/sns.crt', import.meta.url), 'utf8');
const KEY = readFileSync(new URL('tls/sns.key', import.meta.url), 'utf8');

/** Signs an envelope as SNS does, with the key of SNS or another one. */
export function signEnvelope(envelope: Envelope, key: KeyLike = KEY): Envelope {
  const digest = envelope.SignatureVersion === '2' ? 'sha256' : 'sha1';
  return { ...envelope, Signature: sign(digest, Buffer.from(textToSign(envelope)), key).toString('base64') };
}

/** An unsigned notification of the topic. */
export function notification(message: unknown, changes: Envelope = {}): Envelope {
  return {
    Type: 'Notification',
    MessageId: randomUUID(),
    TopicArn: TOPIC,
    Message: typeof message === 'string' ? message : JSON.stringify(message),
    Timestamp: new Date().toISOString(),
    SignatureVersion: '1',
    SigningCertURL: CERTIFICATE_URL,
    UnsubscribeURL: 'https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe',
    ...changes,
  };
}

/** The message with which SNS requests the confirmation of a subscription. */
export function confirmation(changes: Envelope = {}): Envelope {
  const { UnsubscribeURL: _, ...envelope } = notification('You have chosen to subscribe to the topic');
  return {
    ...envelope,
    Type: 'SubscriptionConfirmation',
    Token: 'token',
    SubscribeURL: `https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=token`,
    ...changes,
  };
}

function textToSign(envelope: Envelope): string {
  const names =
    envelope.Type === 'Notification'
      ? ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type']
      : ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];
  return names
    .flatMap((name) => (envelope[name] === undefined ? [] : [`${name}\n${envelope[name]}\n`]))
    .join('');
}
