/**
 * What SES reports, by way of a topic of SNS.
 * https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
 * https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html
 */
import { verify, X509Certificate } from 'node:crypto';
import type { Receipt, ReceiptReader } from '../provider.ts';
import { MAX_REPORT_AGE_MS, membersOf, nonEmptyText, objectOf } from '../shared/inbound.ts';

/**
 * Every AWS account can have SNS sign anything, so the topic counts, too: without
 * `topic_arn` nothing is taken, and nothing is fetched.
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
    if (!isOfTopic(envelope, topic) || !isLately(textIn(envelope, 'Timestamp'), nowMs)) return false;
    try {
      const { publicKey } = new X509Certificate(certificate);
      const signature = Buffer.from(textIn(envelope, 'Signature'), 'base64');
      return verify(digest, Buffer.from(signed), publicKey, signature);
    } catch {
      return false; // no certificate, or of another kind of key
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
        // A topic can be published to by others, and says so itself when it is set up: that is nothing to us.
        return { receipts: event === undefined ? [] : receiptsOf(event, nowMs) };
      }
      case 'UnsubscribeConfirmation':
        return {}; // confirming it would subscribe again
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
 * `arn:aws:sns:<region>:<account>:<name>`: the certificate and the addresses of a topic are those of its
 * region.
 */
function hostOf(topic: string): string | undefined {
  const [, , partition = '', region = ''] =
    /^(arn):(aws(?:-cn|-us-gov)?):sns:([a-z0-9-]{3,32}):/.exec(topic) ?? [];
  if (region === '') return undefined;
  return `sns.${region}.amazonaws.com${partition === 'aws-cn' ? '.cn' : ''}`;
}

function isCertificateOf(text: string, topic = ''): boolean {
  const host = hostOf(topic);
  // As it is written, not as a parser understands it: no port, no user, no query, no other path that the host
  // may have.
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

function isLately(timestamp: string, nowMs: number): boolean {
  const ms = Date.parse(timestamp);
  return ms >= nowMs - MAX_REPORT_AGE_MS && ms <= nowMs + 5 * 60_000;
}

/** What SNS signs: names and values in lines of their own, by the alphabet; which, says the type. */
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
 * A receipt, and one more for each further address: an e-mail of ours has one, but an override may add
 * others.
 */
function receiptsOf(event: Members, nowMs: number): Receipt[] {
  const mail = membersOf(event.mail);
  // One of our EmailTags; there are none if the identity itself publishes to the topic.
  const tags = membersOf(mail.tags).reference;
  const reference = Array.isArray(tags) ? nonEmptyText(tags[0]) : undefined;
  const meaning = meaningOf(event);
  if (meaning === undefined) return [];
  const { kind, about, addresses = [], why, code, reason } = meaning;
  const at = new Date(textIn(membersOf(about), 'timestamp') || textIn(mail, 'timestamp'));
  const receipt: Receipt = {
    kind,
    at: Number.isNaN(at.getTime()) ? new Date(nowMs) : at,
    ...(reference === undefined ? {} : { reference }),
    ...(code === undefined ? {} : { code }),
    ...(reason === undefined ? {} : { reason }),
  };
  if (why === undefined || addresses.length === 0) return [receipt];
  return addresses.map((address) => ({ ...receipt, suppress: { address, reason: why } }));
}

type Meaning = {
  kind: Receipt['kind'];
  about: unknown;
  addresses?: string[];
  why?: NonNullable<Receipt['suppress']>['reason'];
  code?: string;
  reason?: string;
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
      return {
        kind: 'dropped',
        about: undefined,
        code: 'Reject',
        ...(reason === undefined ? {} : { reason }),
      };
    }
    default:
      return undefined; // on its way still, or about what the recipient did
  }
}

function bounce(about: Members): Meaning {
  const recipients = listOf(about.bouncedRecipients);
  const code = nonEmptyText(recipients[0]?.status);
  const reason = nonEmptyText(recipients[0]?.diagnosticCode) ?? nonEmptyText(about.bounceSubType);
  const failure = { ...(code === undefined ? {} : { code }), ...(reason === undefined ? {} : { reason }) };
  if (about.bounceType !== 'Permanent') return { kind: 'bounced', about, ...failure };
  return { kind: 'bounced', about, addresses: addressesOf(recipients), why: 'bounced', ...failure };
}

function complaint(about: Members): Meaning | undefined {
  const code = nonEmptyText(about.complaintFeedbackType);
  if (code === 'not-spam') return undefined; // the recipient takes it back
  const addresses = addressesOf(listOf(about.complainedRecipients));
  const listed = about.complaintSubType === 'OnAccountSuppressionList'; // SES has not even tried
  const kind = listed ? 'dropped' : 'complained';
  return { kind, about, addresses, why: 'complained', ...(code === undefined ? {} : { code }) };
}

function listOf(value: unknown): Members[] {
  return Array.isArray(value) ? value.map(membersOf) : [];
}

function addressesOf(recipients: readonly Members[]): string[] {
  return recipients.flatMap(({ emailAddress }) => bareAddress(nonEmptyText(emailAddress)) ?? []);
}

/** Without the name that may stand before it. */
function bareAddress(text: string | undefined): string | undefined {
  return text === undefined ? undefined : (/<([^<>]+)>\s*$/.exec(text)?.[1] ?? text);
}
