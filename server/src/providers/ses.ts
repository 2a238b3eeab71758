/** E-mail by Amazon SES, API version 2. https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html */
import { type Static, Type } from 'typebox';
import { ask, notChecked } from './ask.ts';
import { mailbox } from './mailbox.ts';
import { type Finding, type Integration, secret, type VerifyDeps } from './provider.ts';
import { signAws } from './sign-aws.ts';

const config = Type.Object(
  {
    key_id: Type.String({
      minLength: 1,
      description: 'The access key id of an IAM user that may send e-mail',
    }),
    secret_key: secret({ minLength: 1, description: 'The secret access key that belongs to it' }),
    region: Type.String({
      minLength: 1,
      description: 'The region of the verified identity, such as eu-west-1',
    }),
    from: Type.Optional(mailbox('Sender of every e-mail, one that SES has verified')),
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
          'The SNS topic that bounces and complaints are published to; messages of other topics are refused',
      }),
    ),
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

export const ses: Integration<typeof config> & { channel: 'email' } = {
  name: 'ses',
  channel: 'email',
  docs: 'https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html',
  config,
  verify,
};

/** It becomes a part of a host name, and must not make another host of it. */
const REGION = /^[a-z0-9-]{1,32}$/;

/** Asks for the account. A key that may send and nothing else is refused that by name, which shows that the key is right. */
async function verify(
  { key_id, secret_key, region }: Config,
  { transport, clock }: VerifyDeps,
): Promise<Finding[]> {
  if (!REGION.test(region))
    return [{ field: 'region', problem: 'is not a region of AWS, such as eu-west-1' }];
  const endpoint = transport.vendor('ses', `https://email.${region}.amazonaws.com`);
  const request = { method: 'GET' as const, path: '/v2/email/account' };
  const answer = await ask(endpoint, {
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
  if (answer.code === 'ENOTFOUND')
    return [{ field: 'region', problem: `has no SES: ${new URL(endpoint.base).host} does not exist` }];
  const type = errorType(answer.headers['x-amzn-errortype'], answer.json);
  if (answer.status === 200) {
    const { SendingEnabled } = answer.json as { SendingEnabled?: unknown };
    return SendingEnabled === false
      ? [{ field: 'key_id', problem: 'belongs to an account that SES lets send nothing' }]
      : [];
  }
  if (type === 'AccessDeniedException') return [];
  const field = FIELDS[type];
  return field === undefined
    ? [notChecked('SES', answer)]
    : [{ field, problem: `was refused by SES: ${type}: ${answer.said}` }];
}

const FIELDS: Readonly<Record<string, string>> = {
  UnrecognizedClientException: 'key_id',
  InvalidClientTokenId: 'key_id',
  InvalidSignatureException: 'secret_key',
  SignatureDoesNotMatch: 'secret_key',
};

/** `AccessDeniedException:http://…` and `com.amazonaws.ses#AccessDeniedException` by their own name. */
function errorType(header: string | undefined, body: unknown): string {
  const { __type } = body as { __type?: unknown };
  const type = header ?? (typeof __type === 'string' ? __type : '');
  return type.replace(/:.*$/s, '').replace(/^.*#/s, '');
}
