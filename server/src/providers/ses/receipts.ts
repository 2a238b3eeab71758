/**
 * Delivery-status events of SES, published to a topic of SNS.
 * https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
 * https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html
 */
import { verify, X509Certificate } from 'node:crypto';
import type { Receipt, ReceiptReader } from '../provider.ts';
import { MAX_REPORT_AGE_MS, membersOf, nonEmptyText, objectOf } from '../shared/inbound.ts';

/**
 * Any AWS account can make SNS sign any text, so the topic must match too: without `topic_arn` no event is
 * accepted and no certificate is fetched.
 */
export const sesReceipts: ReceiptReader<{ topic_arn?: string }> = {
  originSetting: 'PROVIDER_SNS_BASE_URL',
  certificateUrl({ body }, { topic_arn: topic }) {
    const envelope = envelopeIn(body);
    const url = textIn(envelope, 'SigningCertURL');
    return isOfTopic(envelope, topic) && isCertificateOf(url, topic) ? url : undefined;
  },
  isSigned({ body, certificate, nowMs }, { topic_arn: topic }) {
    const envelope = envelopeIn(body);
    const signed = signedText(envelope);
    const digest = DIGESTS.get(textIn(envelope, 'SignatureVersion'));
    if (certificate === undefined || signed === undefined || digest === undefined) return false;
    if (!isOfTopic(envelope, topic) || !isRecent(textIn(envelope, 'Timestamp'), nowMs)) return false;
    try {
      const { publicKey } = new X509Certificate(certificate);
      const signature = Buffer.from(textIn(envelope, 'Signature'), 'base64');
      return verify(digest, Buffer.from(signed), publicKey, signature);
    } catch {
      return false; // an invalid certificate or key type
    }
  },
  read({ body, nowMs }) {
    const envelope = envelopeIn(body);
    switch (textIn(envelope, 'Type')) {
      case 'SubscriptionConfirmation': {
        const url = textIn(envelope, 'SubscribeURL');
        return isConfirmationOf(url, textIn(envelope, 'TopicArn')) ? { confirmUrl: url } : undefined;
      }
      case 'Notification': {
        const event = objectOf(textIn(envelope, 'Message'));
        // Ignores other texts: the topic may have other publishers, and SES publishes a test message on
        // setup.
        return { receipts: event === undefined ? [] : receiptsOf(event, nowMs) };
      }
      case 'UnsubscribeConfirmation':
        return {}; // its URL would subscribe again
      default:
        return undefined;
    }
  },
};

const DIGESTS: ReadonlyMap<string, string> = new Map([
  ['1', 'sha1'],
  ['2', 'sha256'],
]);

type Members = Readonly<Record<string, unknown>>;

function envelopeIn(body: Buffer): Members {
  return objectOf(body.toString()) ?? {};
}

function textIn(members: Members, name: string): string {
  return nonEmptyText(members[name]) ?? '';
}

function isOfTopic(envelope: Members, topic: string | undefined): boolean {
  return topic !== undefined && textIn(envelope, 'TopicArn') === topic;
}

/**
 * Returns the SNS host of a topic's region, which serves its certificate and its URLs. A topic is
 * `arn:aws:sns:<region>:<account>:<name>`.
 */
function hostOf(topic: string): string | undefined {
  const [, , partition = '', region = ''] =
    /^(arn):(aws(?:-cn|-us-gov)?):sns:([a-z0-9-]{3,32}):/.exec(topic) ?? [];
  if (region === '') return undefined;
  return `sns.${region}.amazonaws.com${partition === 'aws-cn' ? '.cn' : ''}`;
}

function isCertificateOf(text: string, topic = ''): boolean {
  const host = hostOf(topic);
  // Matches the text instead of a parsed URL: no port, user or query, and no other path on the host.
  return (
    host !== undefined &&
    new RegExp(
      `^https://${host.replaceAll('.', '\\.')}/SimpleNotificationService-[0-9a-f]{16,64}\\.pem$`,
    ).test(text)
  );
}

function isConfirmationOf(text: string, topic: string): boolean {
  const url = URL.parse(text);
  const host = hostOf(topic);
  if (url === null || host === undefined || !text.startsWith(`https://${host}/?`)) return false;
  return (
    url.host === host &&
    url.searchParams.get('Action') === 'ConfirmSubscription' &&
    url.searchParams.get('TopicArn') === topic
  );
}

function isRecent(timestamp: string, nowMs: number): boolean {
  const ms = Date.parse(timestamp);
  return ms >= nowMs - MAX_REPORT_AGE_MS && ms <= nowMs + 5 * 60_000;
}

/**
 * Returns the text that SNS signs: names and values on separate lines, in alphabetical order. The names
 * depend on the type.
 */
function signedText(envelope: Members): string | undefined {
  const type = textIn(envelope, 'Type');
  const names = type === 'Notification' ? OF_NOTIFICATIONS : OF_CONFIRMATIONS;
  const lines: string[] = [];
  for (const name of names) {
    const value = envelope[name];
    if (value === undefined && name === 'Subject') continue;
    if (typeof value !== 'string') return undefined;
    lines.push(`${name}\n${value}\n`);
  }
  return lines.join('');
}

const OF_NOTIFICATIONS = ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'];
const OF_CONFIRMATIONS = ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];

/**
 * Returns one receipt per suppressed address, or one without any. Our e-mails have one recipient, but an
 * override may add others.
 */
function receiptsOf(event: Members, nowMs: number): Receipt[] {
  const mail = membersOf(event.mail);
  // Our EmailTags are missing if the identity, not the configuration set, publishes to the topic.
  const tags = membersOf(mail.tags).reference;
  const reference = Array.isArray(tags) ? nonEmptyText(tags[0]) : undefined;
  const meaning = meaningOf(event);
  if (meaning === undefined) return [];
  const { kind, about, addresses = [], why, code, reason } = meaning;
  const at = new Date(textIn(membersOf(about), 'timestamp') || textIn(mail, 'timestamp'));
  const receipt: Receipt = {
    kind,
    at: Number.isNaN(at.getTime()) ? new Date(nowMs) : at,
    reference,
    code,
    reason,
  };
  if (why === undefined || addresses.length === 0) return [receipt];
  return addresses.map((address) => ({ ...receipt, suppress: { address, reason: why } }));
}

type Meaning = {
  kind: Receipt['kind'];
  about: unknown;
  addresses?: string[];
  why?: NonNullable<Receipt['suppress']>['reason'];
  code?: string | undefined;
  reason?: string | undefined;
};

function meaningOf(event: Members): Meaning | undefined {
  switch (event.eventType ?? event.notificationType) {
    case 'Delivery':
      return { kind: 'delivered', about: event.delivery };
    case 'Bounce':
      return bounce(membersOf(event.bounce));
    case 'Complaint':
      return complaint(membersOf(event.complaint));
    case 'Reject': {
      const reason = nonEmptyText(membersOf(event.reject).reason);
      return { kind: 'dropped', about: undefined, code: 'Reject', reason };
    }
    case 'Rendering Failure': {
      // An override may name a template. SES accepts the message, and renders it later.
      const reason = nonEmptyText(membersOf(event.failure).errorMessage);
      return { kind: 'dropped', about: undefined, code: 'Rendering Failure', reason };
    }
    default:
      return undefined; // not final, or an action of the recipient
  }
}

function bounce(about: Members): Meaning {
  const recipients = listOf(about.bouncedRecipients);
  const code = nonEmptyText(recipients[0]?.status);
  const reason = nonEmptyText(recipients[0]?.diagnosticCode) ?? nonEmptyText(about.bounceSubType);
  if (about.bounceType !== 'Permanent') return { kind: 'bounced', about, code, reason };
  return { kind: 'bounced', about, addresses: addressesOf(recipients), why: 'bounced', code, reason };
}

function complaint(about: Members): Meaning | undefined {
  const code = nonEmptyText(about.complaintFeedbackType);
  if (code === 'not-spam') return undefined; // the recipient withdrew the complaint
  const addresses = addressesOf(listOf(about.complainedRecipients));
  const listed = about.complaintSubType === 'OnAccountSuppressionList'; // SES did not send it
  const kind = listed ? 'dropped' : 'complained';
  return { kind, about, addresses, why: 'complained', code };
}

function listOf(value: unknown): Members[] {
  return Array.isArray(value) ? value.map(membersOf) : [];
}

function addressesOf(recipients: readonly Members[]): string[] {
  return recipients.flatMap(({ emailAddress }) => bareAddress(nonEmptyText(emailAddress)) ?? []);
}

/** Returns the address without the name before it. */
function bareAddress(text: string | undefined): string | undefined {
  return text === undefined ? undefined : (/<([^<>]+)>\s*$/.exec(text)?.[1] ?? text);
}
