/**
 * E-mail through the project's own mailer, which receives each notification as JSON.
 * https://www.rfc-editor.org/rfc/rfc9110#POST
 */
import { createHmac } from 'node:crypto';
import { type Static, Type } from 'typebox';
import { writeJson } from '../../lib/exact-numbers.ts';
import { urlMember } from '../../lib/named-host.ts';
import type {
  EmailMessage,
  Finding,
  NotificationRecord,
  Provider,
  Sender,
  SenderDeps,
  SendOutcome,
  VerifyDeps,
} from '../provider.ts';
import { httpOutcome, isTlsErrorCode, reasonOfError, rejected } from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { maxPerSecond, rateOf } from '../shared/max-per-second.ts';
import { verifyReachable } from '../shared/reachable.ts';
import type { HttpRequest, HttpResult } from '../shared/transport.ts';

const config = Type.Object(
  {
    url: Type.String({
      format: 'uri',
      minLength: 1,
      maxLength: 100,
      description: 'The URL of your mailer. It receives each notification as a POST request',
    }),
    max_per_second: maxPerSecond,
  },
  { additionalProperties: false, examples: [{ url: 'https://mailer.example.com/notifications' }] },
);
type Config = Static<typeof config>;

export const pingEmail: Provider<'email', typeof config, HttpRequest, HttpResult> = {
  name: 'ping_email',
  title: 'Your own mailer',
  channel: 'email',
  docs: 'https://www.rfc-editor.org/rfc/rfc9110#POST',
  guide: () => import('./guide.ts'),
  config,
  hosts: [urlMember('url')],
  build,
  classify,
  rates: { integration: rateOf },
  connect,
  verify,
};

function connect({ url }: Config, { transport, clock }: SenderDeps): Sender<EmailMessage> {
  const endpoint = transport.at(URL.parse(url)?.origin ?? '');
  const { password = '' } = URL.parse(url) ?? {};
  const target = targetOf(url);
  return createHttpSender({
    concurrency: 16,
    secrets: [password, decoded(password)],
    build: (message) => requestTo(target, message),
    // Signed at each attempt, because mailers may reject an old timestamp.
    exchange: (request, { signing }) =>
      endpoint.request(signed(request, signing, Math.floor(clock.now() / 1000))),
    classify,
  });
}

function build(message: EmailMessage, { url }: Config): HttpRequest {
  return requestTo(targetOf(url), message);
}

/** Returns the path and the credentials of the mailer's URL, the same for every request. */
function targetOf(url: string): { path: string; headers: Record<string, string> } {
  const { pathname, search, username, password } = URL.parse(url) ?? new URL('invalid:');
  const account = `${decoded(username)}:${decoded(password)}`;
  return {
    path: pathname + search,
    headers: account === ':' ? {} : { authorization: `Basic ${Buffer.from(account).toString('base64')}` },
  };
}

function requestTo({ path, headers }: ReturnType<typeof targetOf>, message: EmailMessage): HttpRequest {
  return {
    method: 'POST',
    path,
    headers: {
      'content-type': 'application/json',
      'idempotency-key': message.deliveryId,
      ...headers,
    },
    body: writeJson({ notifications: [wire(message.notification())], total: 1 }),
  };
}

/** Decodes percent-encoding; returns the text unchanged if the encoding is invalid. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Returns the notification in the format of the API. Times are converted here, because JSON.stringify takes
 * twice as long to convert dates.
 */
function wire({ recipient, ...notification }: NotificationRecord): object {
  return {
    id: notification.id,
    title: notification.title,
    content: notification.content,
    action_url: notification.actionUrl,
    category: notification.category,
    topic: notification.topic,
    custom_attributes: notification.customAttributes,
    overrides: notification.overrides,
    updated_at: notification.updatedAt.toISOString(),
    recipient: {
      id: recipient.id,
      external_id: recipient.externalId,
      email: recipient.email,
      first_name: recipient.firstName,
      last_name: recipient.lastName,
      locale: recipient.locale,
      custom_attributes: recipient.customAttributes,
      phone_numbers: recipient.phoneNumbers,
      created_at: recipient.createdAt.toISOString(),
      updated_at: recipient.updatedAt.toISOString(),
      last_seen_at: recipient.lastSeenAt?.toISOString() ?? null,
      last_notified_at: recipient.lastNotifiedAt?.toISOString() ?? null,
    },
  };
}

/**
 * Adds the time and the HMAC-SHA256 of `<time>.<body>`, one for each valid API secret of the project, the
 * current one first.
 */
function signed(
  { headers, body = '', ...request }: HttpRequest,
  { header, keys }: EmailMessage['signing'],
  seconds: number,
): HttpRequest {
  const macs = keys.map(
    (key) => `,v1=${createHmac('sha256', key).update(`${seconds}.`).update(body).digest('hex')}`,
  );
  return { ...request, headers: { ...headers, [header]: `t=${seconds}${macs.join('')}` }, body };
}

function classify(response: HttpResult): SendOutcome {
  if ('error' in response && isTlsErrorCode(response.error.code)) {
    const { code } = response.error;
    return { kind: 'rejected', scope: 'config', reason: reasonOfError(response.error, 'the mailer'), code };
  }
  return httpOutcome(response, 'the mailer', (parsed) => {
    const { status, json } = parsed;
    if (status >= 200 && status < 300) {
      const { id } = json as { id?: unknown };
      return { kind: 'sent', ...(typeof id === 'string' ? { providerId: id } : {}) };
    }
    return status === 404 || status === 410 ? rejected('config', parsed) : undefined;
  });
}

/** Verifies only that the host may be called, because any request would send an e-mail. */
async function verify({ url }: Config, { egress }: VerifyDeps): Promise<Finding[]> {
  return verifyReachable(egress, 'url', url);
}
