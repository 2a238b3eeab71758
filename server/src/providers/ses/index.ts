/**
 * E-mail through Amazon SES, API version 2.
 * https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html
 */
import { type Static, Type } from 'typebox';
import {
  type EmailMessage,
  type Finding,
  isRejection,
  type Provider,
  type Rejection,
  type Sender,
  type SenderDeps,
  type SendOutcome,
  secret,
  secretsOf,
  type VerifyDeps,
} from '../provider.ts';
import { neverEncoded } from '../shared/encoded-words.ts';
import {
  httpDate,
  httpOutcome,
  type ParsedResponse,
  rejected,
  rejectedForEither,
  retry,
} from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { formatMailbox, mailbox, NO_ADDRESS, noSender } from '../shared/mailbox.ts';
import { maxPerSecond, rateOf } from '../shared/max-per-second.ts';
import { isMailbox } from '../shared/mime.ts';
import { mergeOverride } from '../shared/override.ts';
import { notVerified, requestJson } from '../shared/request-json.ts';
import { tooBig } from '../shared/shrink.ts';
import type { Endpoint, HttpRequest, HttpResult, Transport } from '../shared/transport.ts';
import { parseObject } from '../shared/vendor-text.ts';
import { sesReceipts } from './receipts.ts';
import { awsSigner, signAws } from './sign-aws.ts';

const config = Type.Object(
  {
    key_id: Type.String({
      minLength: 1,
      description: 'The access key id of an IAM user with permission to send e-mail',
    }),
    secret_key: secret({ minLength: 1, description: 'The secret access key of the access key id' }),
    region: Type.String({
      minLength: 1,
      description: 'The region of the verified identity, such as eu-west-1',
    }),
    from: Type.Optional(mailbox('Sender of every e-mail, an identity verified in SES')),
    configuration_set: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description: 'The configuration set that every e-mail is sent with',
      }),
    ),
    topic_arn: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 2048,
        description:
          'The SNS topic of the configuration set. Bounces and complaints are accepted from this topic only',
      }),
    ),
    max_per_second: maxPerSecond,
  },
  {
    additionalProperties: false,
    examples: [
      {
        key_id: 'AKIAXXXXXXXXXXXXXXXX',
        secret_key: 'secret',
        region: 'eu-west-1',
        from: { email: 'hello@example.com', name: 'Example' },
      },
    ],
  },
);
type Config = Static<typeof config>;

export const ses: Provider<'email', typeof config, HttpRequest | Rejection, HttpResult> = {
  name: 'ses',
  title: 'Amazon SES',
  channel: 'email',
  docs: 'https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html',
  origins: {
    PROVIDER_SES_BASE_URL: 'https://email.<region>.amazonaws.com',
    PROVIDER_SNS_BASE_URL: 'https://sns.<region>.amazonaws.com',
  },
  overrideKey: 'ses',
  guide: () => import('./guide.ts'),
  config,
  build,
  classify,
  rates: { integration: rateOf },
  connect,
  verify,
  receipts: sesReceipts,
};

const MAX_BYTES = 40_000_000;

function connect(config: Config, { transport, clock }: SenderDeps): Sender<EmailMessage> {
  const endpoint = api(transport, config.region);
  const sign = signerFor(endpoint, config);
  // How far AWS's clock is ahead of ours: AWS rejects signatures that are more than five minutes off.
  let aheadMs = 0;
  async function exchange(request: HttpRequest): Promise<HttpResult> {
    const body = Buffer.from(String(request.body)); // encoded once for the signature and the request
    const send = () => endpoint.request({ ...request, headers: sign(body, clock.now() + aheadMs), body });
    const response = await send();
    const offMs = clockDifference(response, clock.now() + aheadMs);
    if (offMs === undefined) return response;
    aheadMs += offMs;
    return send();
  }
  return createHttpSender({
    concurrency: 32,
    secrets: secretsOf(ses.config, config),
    build: (message) => build(message, config),
    exchange,
    classify,
  });
}

const TOLERATED_MS = 4 * 60_000;

/**
 * Returns how far AWS's clock is ahead of `nowMs` if AWS rejected the signature for that; otherwise
 * undefined.
 */
function clockDifference(response: HttpResult, nowMs: number): number | undefined {
  if ('error' in response || response.status !== 403) return undefined;
  if (
    !/Skewed|Signature|Expired/.test(
      errorType(response.headers['x-amzn-errortype'], parseObject(response.text)),
    )
  )
    return undefined;
  const offMs = httpDate(response.headers.date ?? '') - nowMs;
  return Math.abs(offMs) > TOLERATED_MS ? offMs : undefined;
}

function signerFor({ base }: Endpoint, { key_id, secret_key, region }: Config): ReturnType<typeof awsSigner> {
  const { host, pathname } = URL.parse(base) ?? { host: '', pathname: '' };
  // After the path of the operator's base URL, if it has one.
  const path = `${pathname.replace(/\/+$/, '')}${SENDING.path}`;
  return awsSigner({ ...SENDING, host, path, service: 'ses', region, keyId: key_id, secretKey: secret_key });
}

const SENDING = {
  method: 'POST',
  path: '/v2/email/outbound-emails',
  headers: { 'content-type': 'application/json' },
} as const;

function build(message: EmailMessage, { region, from, configuration_set }: Config): HttpRequest | Rejection {
  if (!REGION.test(region)) return BAD_REGION;
  const { reference, to, subject, text, html, headers } = message;
  if (!isMailbox(to.email)) return NO_ADDRESS;
  const utf8 = (value: string) => ({ Data: value, Charset: 'UTF-8' });
  const tag = { Name: 'reference', Value: reference }; // returned in the events that SES publishes
  const merged = mergeOverride(
    {
      ...(from === undefined ? {} : { FromEmailAddress: formatMailbox(from) }),
      Destination: { ToAddresses: [formatMailbox(to)] },
      Content: {
        Simple: {
          Subject: utf8(neverEncoded(subject)),
          Body: { Html: utf8(html), ...(text === '' ? {} : { Text: utf8(text) }) },
          // Without Message-ID: SES generates its own and returns it.
          Headers: Object.entries(headers).map(([Name, Value]) => ({ Name, Value })),
        },
      },
      EmailTags: [tag],
      ...(configuration_set === undefined ? {} : { ConfigurationSetName: configuration_set }),
    },
    message.override,
    { locked: ['Destination/ToAddresses'] },
  );
  if (isRejection(merged)) return merged;
  const { payload } = merged;
  if (payload.FromEmailAddress === undefined) return noSender(from);
  const tags: readonly { Name: string }[] = Array.isArray(payload.EmailTags) ? payload.EmailTags : [];
  const EmailTags = [...tags.filter((one) => one?.Name !== tag.Name), tag];
  const body = JSON.stringify(message.override === undefined ? payload : { ...payload, EmailTags });
  if (body.length > MAX_BYTES / 3 && Buffer.byteLength(body) > MAX_BYTES) return tooBig(MAX_BYTES);
  return { ...SENDING, body };
}

function classify(response: HttpResult): SendOutcome {
  return httpOutcome(response, 'SES', (parsed) => {
    if (parsed.status === 200) {
      const { MessageId: id } = parsed.json as { MessageId?: unknown };
      return typeof id === 'string' ? { kind: 'sent', providerId: id } : undefined;
    }
    const type = errorType(parsed.headers['x-amzn-errortype'], parsed.json);
    return type === '' ? undefined : classifyError(type, { ...parsed, reason: `${parsed.reason} (${type})` });
  });
}

function classifyError(type: string, parsed: ParsedResponse): SendOutcome | undefined {
  if (type.startsWith('TooManyRequests')) {
    const isDaily = /daily|quota/i.test(parsed.reason);
    return retry(parsed, { code: type, retryAfterMs: isDaily ? 3_600_000 : 1_000 });
  }
  if (type.startsWith('Throttling') || type === 'LimitExceededException')
    return retry(parsed, { code: type });
  if (parsed.status >= 500) return undefined;
  // In the sandbox SES also responds so for an unverified recipient, not only for an unverified sender.
  if (type === 'AccessDeniedException' || (type === 'MessageRejected' && /not verified/i.test(parsed.reason)))
    return rejectedForEither(parsed, type);
  if (parsed.status === 403 || parsed.status === 401 || CONFIG_ERRORS.has(type))
    return rejected('config', parsed, type);
  if (type === 'BadRequestException' && ABOUT_ADDRESS.test(parsed.reason))
    return rejected('address', parsed, type);
  return rejected('message', parsed, type);
}

const CONFIG_ERRORS = new Set([
  'AccountSuspendedException',
  'ExpiredTokenException',
  'InvalidClientTokenId',
  'MailFromDomainNotVerifiedException',
  'NotFoundException',
  'SendingPausedException',
  'SignatureDoesNotMatch',
  'UnrecognizedClientException',
]);
const ABOUT_ADDRESS =
  // language-ignore: a single regular expression
  /local address contains|illegal address|missing final '@domain'|(?:local|domain) name contains|domain (?:contains|starts|ends)|missing local name/i;

function api(transport: Transport, region: string): Endpoint {
  return transport.vendor('PROVIDER_SES_BASE_URL', `https://email.${region}.amazonaws.com`);
}

/** The region becomes part of a host name, so it must not change the rest of that name. */
const REGION = /^[a-z0-9-]{1,32}$/;
const NO_REGION = 'is not an AWS region, such as eu-west-1';
const BAD_REGION: Rejection = {
  kind: 'rejected',
  scope: 'config',
  code: 'bad_region',
  reason: `the region ${NO_REGION}`,
};

/**
 * Verifies the credentials by a request for the account. A key that may only send is valid too: it is
 * rejected with AccessDeniedException.
 */
async function verify(
  { key_id, secret_key, region }: Config,
  { transport, clock }: VerifyDeps,
): Promise<Finding[]> {
  if (!REGION.test(region)) return [{ field: 'region', problem: NO_REGION }];
  const endpoint = api(transport, region);
  const request = { method: 'GET' as const, path: '/v2/email/account' };
  const response = await requestJson(endpoint, {
    ...request,
    headers: signAws({
      ...request,
      host: new URL(endpoint.base).host,
      service: 'ses',
      region,
      keyId: key_id,
      secretKey: secret_key,
      nowMs: clock.now(),
    }),
  });
  if (response.code === 'ENOTFOUND')
    return [{ field: 'region', problem: `has no SES: ${new URL(endpoint.base).host} does not exist` }];
  const type = errorType(response.headers['x-amzn-errortype'], response.json);
  if (response.status === 200) {
    const { SendingEnabled } = response.json as { SendingEnabled?: unknown };
    if (typeof SendingEnabled !== 'boolean') return [notVerified('SES', response)];
    return SendingEnabled === false
      ? [{ field: 'key_id', problem: 'belongs to an account for which SES has disabled sending' }]
      : [];
  }
  if (type === 'AccessDeniedException') return [];
  const field = FIELDS[type];
  return field === undefined
    ? [notVerified('SES', response)]
    : [{ field, problem: `was rejected by SES: ${type}: ${response.summary}` }];
}

const FIELDS: Readonly<Record<string, string>> = {
  UnrecognizedClientException: 'key_id',
  InvalidClientTokenId: 'key_id',
  InvalidSignatureException: 'secret_key',
  SignatureDoesNotMatch: 'secret_key',
};

/**
 * Returns the name of an error, without the rest of `AccessDeniedException:http://…` or
 * `com.amazonaws.ses#AccessDeniedException`.
 */
function errorType(header: string | undefined, body: unknown): string {
  const { __type } = body as { __type?: unknown };
  const type = header ?? (typeof __type === 'string' ? __type : '');
  return type.replace(/:.*$/s, '').replace(/^.*#/s, '');
}
